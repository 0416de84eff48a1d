// An agent of Vercel's AI SDK 6.

import { GateOpenError, loopMiddleware, TaskCancelledError } from "looptrace/ai-sdk";
import { generateText, stepCountIs, tool, wrapLanguageModel } from "ai-6";
import { MockLanguageModelV3 } from "ai-6/test";

import * as shared from "./shared.ts";

const provider = shared.provided();
const model = wrapLanguageModel({
  model: new MockLanguageModelV3({ doGenerate: async ({ prompt }) => shared.answer(prompt) }),
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
    system: shared.INSTRUCTIONS,
    prompt: shared.PROMPT,
    tools: {
      run: tool({ description: "Run a file.", inputSchema: shared.schema, execute: shared.run }),
    },
    stopWhen: stepCountIs(shared.CALLS_MAX),
    experimental_telemetry: {
      isEnabled: true,
      functionId: "fixer",
      metadata: { sessionId: shared.SESSION },
    },
  });
} catch (error) {
  if (!(error instanceof GateOpenError || error instanceof TaskCancelledError)) throw error;
  shared.stopped(error.name, error.message);
}
shared.report();
await provider.shutdown().catch(() => {});
