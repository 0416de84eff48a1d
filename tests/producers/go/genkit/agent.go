// An agent of Genkit for Go.
package main

import (
	"context"
	"log"
	"os"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/core/api"
	"github.com/firebase/genkit/go/genkit"
	"github.com/firebase/genkit/go/plugins/compat_oai"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

type file struct {
	Path string `json:"path"`
}

type edit struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

func main() {
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(os.Getenv("OTLP_URL")+"/v1/traces"))
	if err != nil {
		log.Fatal(err)
	}
	provider := trace.NewTracerProvider(
		trace.WithBatcher(exporter),
		trace.WithResource(resource.NewSchemaless(attribute.String("service.name", "fixer"))),
	)
	otel.SetTracerProvider(provider)
	if err := fix(ctx, "Make the tests in tests/test_cart.py pass."); err != nil {
		log.Fatal(err)
	}
	if err := provider.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}

func fix(ctx context.Context, prompt string) error {
	plugin := &compat_oai.OpenAICompatible{Provider: "script", APIKey: "-", BaseURL: os.Getenv("MODEL_URL")}
	g := genkit.Init(ctx, genkit.WithPlugins(plugin))
	options := ai.ModelOptions{Supports: &compat_oai.Multimodal}
	name := os.Getenv("MODEL")
	model := plugin.DefineModel("script", name, options)
	genkit.RegisterAction(g, model.(api.Registerable))

	mended := false
	read := genkit.DefineTool(g, "read_file", "Read a file.",
		func(_ *ai.ToolContext, in file) (string, error) {
			return in.Path + ": total = sum(prices)", nil
		})
	write := genkit.DefineTool(g, "edit_file", "Add a line to a file.",
		func(_ *ai.ToolContext, in edit) (string, error) {
			mended = true
			return in.Path + " is written", nil
		})
	// An error of a tool ends the agent, so that a failure is a result.
	run := genkit.DefineTool(g, "run_tests", "Run the tests of a file.",
		func(_ *ai.ToolContext, in file) (string, error) {
			if !mended {
				return "1 failed: test_total, expected 42, got 41", nil
			}
			return "9 passed", nil
		})
	flow := genkit.DefineFlow(g, "fixer", func(ctx context.Context, prompt string) (string, error) {
		return genkit.GenerateText(ctx, g,
			ai.WithModel(model),
			ai.WithSystem("You mend code."),
			ai.WithPrompt(prompt),
			ai.WithTools(read, write, run),
			ai.WithMaxTurns(10),
		)
	})
	_, err := flow.Run(ctx, prompt)
	return err
}
