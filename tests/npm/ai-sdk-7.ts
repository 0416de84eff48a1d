// An agent of Vercel's AI SDK 7.

import { GateOpenError, loopMiddleware, TaskCancelledError } from "looptrace/ai-sdk";
import { OpenTelemetry } from "@ai-sdk/otel";
import { generateText, registerTelemetry, stepCountIs, tool, wrapLanguageModel } from "ai";
import { MockLanguageModelV4 } from "ai/test";

import * as shared from "./shared.ts";

const provider = shared.provided();
registerTelemetry(new OpenTelemetry({ runtimeContext: true }));
const model = wrapLanguageModel({
  model: new MockLanguageModelV4({ doGenerate: async ({ prompt }) => shared.answer(prompt) }),
  middleware: loopMiddleware({
    service: shared.SERVICE,
    session: shared.SESSION,
    failClosed: shared.FAIL_CLOSED,
    flush: () => provider.forceFlush(),
    waitMs: shared.WAIT_MS,
  }),
});
try {
  await generateText({
    model,
    instructions: shared.INSTRUCTIONS,
    prompt: shared.PROMPT,
    tools: {
      run: tool({ description: "Run a file.", inputSchema: shared.schema, execute: shared.run }),
    },
    stopWhen: stepCountIs(shared.CALLS_MAX),
    runtimeContext: { sessionId: shared.SESSION },
    telemetry: { functionId: "fixer", includeRuntimeContext: { sessionId: true } },
  });
} catch (error) {
  if (!(error instanceof GateOpenError || error instanceof TaskCancelledError)) throw error;
  shared.stopped(error.name, error.message);
}
shared.report();
await provider.shutdown().catch(() => {});
