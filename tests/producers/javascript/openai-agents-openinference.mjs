// OpenAI Agents JS with OpenInference's instrumentation; it has no spans of OpenTelemetry by itself.

import { OpenAIAgentsInstrumentation } from "@arizeai/openinference-instrumentation-openai-agents";
import * as agents from "@openai/agents";
import OpenAI from "openai";

import * as shared from "./shared.mjs";

const provider = shared.provided();
new OpenAIAgentsInstrumentation({ tracerProvider: provider }).manuallyInstrument(agents);
agents.setOpenAIAPI("chat_completions");
agents.setDefaultOpenAIClient(new OpenAI({ baseURL: shared.MODEL_URL, apiKey: "-" }));
const tools = Object.entries(shared.TOOLS).map(([name, { description, schema, execute }]) =>
  agents.tool({ name, description, parameters: schema, execute }),
);
const fixer = new agents.Agent({
  name: shared.AGENT,
  instructions: shared.INSTRUCTIONS,
  model: shared.MODEL,
  tools,
});
await agents.withTrace("fix", () => agents.run(fixer, shared.PROMPT), { groupId: shared.SESSION });
await agents.getGlobalTraceProvider().forceFlush();
await provider.shutdown();
