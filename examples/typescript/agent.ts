// Vercel's AI SDK: the server is asked for the gate before each request to the model.
//
// A script stands in for the model: it runs the same tests 30 times, however often they fail.
// `npx tsx agent.ts healthy` mends one failure after another.

import { setTimeout as sleep } from "node:timers/promises";

import { generateText, stepCountIs, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { z } from "zod";

import { GateOpenError, throwIfOpen, watch } from "./looptrace.ts";

const SERVICE = "fixer";
const SESSION = "ticket-42";
const ATTEMPTS = 30;
const ANSWER_MS = 500; // that a fast model takes
const FAILURE = "1 failed: test_total, expected 42, got 41";
const MENDED = ["3 failed: test_add, test_tax, test_total", FAILURE, "3 passed"];

const healthy = process.argv[2] === "healthy";
const attempts = healthy ? MENDED.length : ATTEMPTS;
let called = 0;

type Answer = Awaited<ReturnType<MockLanguageModelV3["doGenerate"]>>;

async function scripted(): Promise<Answer> {
  await sleep(ANSWER_MS);
  const input = JSON.stringify({ path: "tests/test_cart.py" });
  const call = { toolCallId: `call_${called + 1}`, toolName: "run_tests", input };
  const goesOn = called < attempts;
  return {
    content: [goesOn ? { type: "tool-call", ...call } : { type: "text", text: "I am done." }],
    finishReason: { unified: goesOn ? "tool-calls" : "stop", raw: undefined },
    usage: {
      inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 0, text: 0, reasoning: 0 },
    },
    warnings: [],
  };
}

async function runTests(): Promise<string> {
  const outcome = healthy ? MENDED[called] : FAILURE;
  called += 1;
  if (outcome.includes("failed")) throw new Error(outcome);
  return outcome;
}

const provider = watch(SERVICE);
try {
  const result = await generateText({
    model: new MockLanguageModelV3({ doGenerate: scripted }),
    prompt: "Make the tests in tests/test_cart.py pass.",
    tools: {
      run_tests: tool({
        description: "Run the tests of a file.",
        inputSchema: z.object({ path: z.string() }),
        execute: runTests,
      }),
    },
    stopWhen: stepCountIs(2 * ATTEMPTS),
    prepareStep: async () => {
      await throwIfOpen(SERVICE, SESSION);
      return {};
    },
    experimental_telemetry: {
      isEnabled: true,
      functionId: "fixer",
      metadata: { sessionId: SESSION },
    },
  });
  console.log(result.text);
} catch (error) {
  if (!(error instanceof GateOpenError)) throw error;
  console.log(error.message);
}
console.log(`run_tests was called ${called} times; the script goes on to ${attempts}`);
await provider.shutdown().catch((error) => console.warn(`spans were not sent: ${error}`));
