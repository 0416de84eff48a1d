// What the agents share: a tool that never brings news, their spans, and what they are asked.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { z } from "zod";

export const SERVER = process.env.LOOPTRACE_ENDPOINT!;
export const SERVICE = "fixer";
export const SESSION = process.argv[2]!;
export const FAIL_CLOSED = process.argv[3] === "closed";
export const CALLS_MAX = 12;
export const WAIT_MS = 1_000;
export const INSTRUCTIONS = "You mend code.";
export const PROMPT = "Make the tests pass.";

const given: string[] = []; // The instructions of each request.
let stop: { name: string; text: string } | undefined;

export const schema = z.object({ path: z.string() });

export async function run({ path }: { path: string }): Promise<string> {
  return `${path} is as it was`;
}

/** Note what a model was given; return its next answer, the same call up to the last one. */
export function answer(prompt: { role: string; content: unknown }[]) {
  given.push(prompt.filter(({ role }) => role === "system").map(({ content }) => content).join());
  const call = { toolCallId: `call_${given.length}`, toolName: "run", input: '{"path":"a"}' };
  const goesOn = given.length < CALLS_MAX;
  return {
    content: [
      goesOn ? { type: "tool-call" as const, ...call } : { type: "text" as const, text: "Done." },
    ],
    finishReason: {
      unified: goesOn ? ("tool-calls" as const) : ("stop" as const),
      raw: undefined,
    },
    usage: {
      inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 1, text: 1, reasoning: 0 },
    },
    warnings: [],
  };
}

/** Return a provider whose spans go to the server. */
export function provided(): NodeTracerProvider {
  const exporter = new OTLPTraceExporter({ url: `${SERVER}/v1/traces` });
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ "service.name": SERVICE }),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  });
  provider.register();
  return provider;
}

/** Note what ended a run. */
export function stopped(name: string, text: string): void {
  stop = { name, text };
}

/** Print what the agent was asked, and what ended it. */
export function report(): void {
  console.log(JSON.stringify({ given, stop: stop ?? null }));
}
