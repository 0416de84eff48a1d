// An agent of Mastra.

import { LoopProcessor } from "looptrace/mastra";
import { Agent } from "@mastra/core/agent";
import { Mastra } from "@mastra/core/mastra";
import { RequestContext } from "@mastra/core/request-context";
import { createTool } from "@mastra/core/tools";
import { Observability } from "@mastra/observability";
import { OtelExporter } from "@mastra/otel-exporter";
import { MockLanguageModelV3 } from "ai-6/test";

import * as shared from "./shared.ts";

const exporter = new OtelExporter({
  provider: { custom: { endpoint: `${shared.SERVER}/v1/traces`, protocol: "http/protobuf" } },
  signals: { logs: false },
});
const model = new MockLanguageModelV3({
  doGenerate: async ({ prompt }) => shared.answer(prompt),
});
const mastra = new Mastra({
  agents: {
    fixer: new Agent({
      id: "fixer",
      name: "fixer",
      instructions: shared.INSTRUCTIONS,
      model,
      tools: {
        run: createTool({
          id: "run",
          description: "Run a file.",
          inputSchema: shared.schema,
          execute: shared.run,
        }),
      },
      inputProcessors: [
        new LoopProcessor({
          service: shared.SERVICE,
          session: (context) => context?.get("session"),
          failClosed: shared.FAIL_CLOSED,
          flush: () => exporter.flush(),
          waitMs: shared.WAIT_MS,
        }),
      ],
    }),
  },
  observability: new Observability({
    configs: { otel: { serviceName: shared.SERVICE, exporters: [exporter] } },
  }),
});
const result = await mastra.getAgent("fixer").generate(shared.PROMPT, {
  maxSteps: shared.CALLS_MAX,
  requestContext: new RequestContext([["session", shared.SESSION]]),
  tracingOptions: { metadata: { sessionId: shared.SESSION } },
});
if (result.tripwire) shared.stopped("tripwire", result.tripwire.reason);
shared.report();
await mastra.shutdown();
