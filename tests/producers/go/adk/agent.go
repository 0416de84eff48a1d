// An agent of Google ADK for Go.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log"
	"net/http"
	"os"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/adk/agent"
	"google.golang.org/adk/agent/llmagent"
	"google.golang.org/adk/model"
	"google.golang.org/adk/runner"
	"google.golang.org/adk/session"
	"google.golang.org/adk/telemetry"
	"google.golang.org/adk/tool"
	"google.golang.org/adk/tool/functiontool"
	"google.golang.org/genai"
)

// chat is a model whose server speaks OpenAI's form.
type chat struct{ name, url string }

func (c chat) Name() string { return c.name }

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type message struct {
	Role       string `json:"role"`
	Content    string `json:"content"`
	ToolCalls  []call `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

// messages returns what a content is in OpenAI's form.
func messages(content *genai.Content) (sent []message) {
	own := message{Role: map[string]string{"model": "assistant"}[content.Role]}
	for _, part := range content.Parts {
		switch {
		case part.FunctionResponse != nil:
			result, _ := json.Marshal(part.FunctionResponse.Response)
			sent = append(sent, message{Role: "tool", Content: string(result), ToolCallID: part.FunctionResponse.ID})
		case part.FunctionCall != nil:
			asked := call{ID: part.FunctionCall.ID, Type: "function"}
			arguments, _ := json.Marshal(part.FunctionCall.Args)
			asked.Function.Name, asked.Function.Arguments = part.FunctionCall.Name, string(arguments)
			own.ToolCalls = append(own.ToolCalls, asked)
		default:
			own.Content += part.Text
		}
	}
	if own.Role == "" {
		own.Role = "user"
	}
	if own.Content != "" || own.ToolCalls != nil {
		sent = append(sent, own)
	}
	return sent
}

func (c chat) GenerateContent(_ context.Context, request *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		yield(c.answer(request))
	}
}

func (c chat) answer(request *model.LLMRequest) (*model.LLMResponse, error) {
	var sent []message
	for _, content := range request.Contents {
		sent = append(sent, messages(content)...)
	}
	body, _ := json.Marshal(map[string]any{"model": c.name, "messages": sent})
	response, err := http.Post(c.url+"/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Choices []struct {
			Message message `json:"message"`
		} `json:"choices"`
		Usage struct {
			Given int32 `json:"prompt_tokens"`
			Said  int32 `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	said := answer.Choices[0].Message
	content := genai.NewContentFromText(said.Content, genai.RoleModel)
	for _, asked := range said.ToolCalls {
		var arguments map[string]any
		if err := json.Unmarshal([]byte(asked.Function.Arguments), &arguments); err != nil {
			return nil, err
		}
		function := &genai.FunctionCall{ID: asked.ID, Name: asked.Function.Name, Args: arguments}
		content.Parts = append(content.Parts, &genai.Part{FunctionCall: function})
	}
	usage := &genai.GenerateContentResponseUsageMetadata{
		PromptTokenCount: answer.Usage.Given, CandidatesTokenCount: answer.Usage.Said,
	}
	return &model.LLMResponse{
		Content: content, UsageMetadata: usage, FinishReason: genai.FinishReasonStop, TurnComplete: true,
	}, nil
}

type file struct {
	Path string `json:"path"`
}

type edit struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

type answer struct {
	Answer string `json:"answer"`
}

func made(t tool.Tool, err error) tool.Tool {
	if err != nil {
		log.Fatal(err)
	}
	return t
}

// tools returns the tools: the tests pass once a file was edited.
func tools() []tool.Tool {
	mended := false
	return []tool.Tool{
		made(functiontool.New(functiontool.Config{Name: "read_file", Description: "Read a file."},
			func(_ tool.Context, in file) (answer, error) {
				return answer{in.Path + ": total = sum(prices)"}, nil
			})),
		made(functiontool.New(functiontool.Config{Name: "edit_file", Description: "Add a line to a file."},
			func(_ tool.Context, in edit) (answer, error) {
				mended = true
				return answer{in.Path + " is written"}, nil
			})),
		made(functiontool.New(functiontool.Config{Name: "run_tests", Description: "Run the tests of a file."},
			func(_ tool.Context, in file) (answer, error) {
				if !mended {
					return answer{}, errors.New("1 failed: test_total, expected 42, got 41")
				}
				return answer{"9 passed"}, nil
			})),
	}
}

func fix(ctx context.Context) error {
	fixer, err := llmagent.New(llmagent.Config{
		Name:        "fixer",
		Model:       chat{os.Getenv("MODEL"), os.Getenv("MODEL_URL")},
		Instruction: "You mend code.",
		Tools:       tools(),
	})
	if err != nil {
		return err
	}
	sessions := session.InMemoryService()
	if _, err := sessions.Create(ctx, &session.CreateRequest{AppName: "fixer", UserID: "ana", SessionID: "ticket-42"}); err != nil {
		return err
	}
	r, err := runner.New(runner.Config{AppName: "fixer", Agent: fixer, SessionService: sessions})
	if err != nil {
		return err
	}
	prompt := genai.NewContentFromText("Make the tests in tests/test_cart.py pass.", genai.RoleUser)
	for _, err := range r.Run(ctx, "ana", "ticket-42", prompt, agent.RunConfig{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

func main() {
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(os.Getenv("OTLP_URL")+"/v1/traces"))
	if err != nil {
		log.Fatal(err)
	}
	providers, err := telemetry.New(ctx,
		telemetry.WithResource(resource.NewSchemaless(attribute.String("service.name", "fixer"))),
		telemetry.WithSpanProcessors(trace.NewBatchSpanProcessor(exporter)),
	)
	if err != nil {
		log.Fatal(err)
	}
	providers.SetGlobalOtelProviders()
	if err := fix(ctx); err != nil {
		log.Fatal(err)
	}
	if err := providers.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}
