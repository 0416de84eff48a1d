// Mastra with its exporter for OpenTelemetry.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent } from "@mastra/core/agent";
import { Mastra } from "@mastra/core/mastra";
import { createTool } from "@mastra/core/tools";
import { Observability } from "@mastra/observability";
import { OtelExporter } from "@mastra/otel-exporter";

import * as shared from "./shared.mjs";

const openai = createOpenAICompatible({ name: "scripted", baseURL: shared.MODEL_URL });
const tools = Object.entries(shared.TOOLS).map(([id, { description, schema, execute }]) => [
  id,
  createTool({ id, description, inputSchema: schema, execute }),
]);
const fixer = new Agent({
  id: shared.AGENT,
  name: shared.AGENT,
  instructions: shared.INSTRUCTIONS,
  model: openai(shared.MODEL),
  tools: Object.fromEntries(tools),
});
const endpoint = `${shared.OTLP_URL}/v1/traces`;
const exporter = new OtelExporter({
  provider: { custom: { endpoint, protocol: "http/protobuf" } },
  signals: { logs: false },
});
const mastra = new Mastra({
  agents: { fixer },
  observability: new Observability({
    configs: { otel: { serviceName: shared.SERVICE, exporters: [exporter] } },
  }),
});
await mastra.getAgent("fixer").generate(shared.PROMPT, {
  maxSteps: shared.STEPS_MAX,
  tracingOptions: { metadata: { sessionId: shared.SESSION } },
});
await mastra.shutdown();
