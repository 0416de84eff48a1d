// An agent of Vercel's AI SDK.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, registerTelemetry, stepCountIs, tool } from "ai";

import * as shared from "./shared.mjs";

/** Run the agent with a telemetry integration. */
export async function agent(telemetry) {
  const provider = shared.provided();
  registerTelemetry(telemetry);
  const openai = createOpenAICompatible({ name: "scripted", baseURL: shared.MODEL_URL });
  const tools = Object.entries(shared.TOOLS).map(([name, { description, schema, execute }]) => [
    name,
    tool({ description, inputSchema: schema, execute }),
  ]);
  await generateText({
    model: openai(shared.MODEL),
    instructions: shared.INSTRUCTIONS,
    prompt: shared.PROMPT,
    tools: Object.fromEntries(tools),
    stopWhen: stepCountIs(shared.STEPS_MAX),
    runtimeContext: { sessionId: shared.SESSION },
    telemetry: { functionId: shared.AGENT, includeRuntimeContext: { sessionId: true } },
  });
  await provider.shutdown();
}
