// What an agent needs for a looptrace server to watch and to stop it: no package of looptrace's.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

const server = process.env.LOOPTRACE_ENDPOINT ?? "http://127.0.0.1:4318";
const token = process.env.LOOPTRACE_TOKEN;
const headers: Record<string, string> = token ? { Authorization: `Bearer ${token}` } : {};

const EXPORT_DELAY_MS = 200; // the SDK's own 5 s would let an agent make many more calls
const ANSWER_MS = 2_000; // an agent waits no longer for the server

export interface Gate {
  id: string;
  reason: string;
  decision: string | null;
}

/** Send the spans of this process to the server. */
export function watch(service: string): NodeTracerProvider {
  const exporter = new OTLPTraceExporter({ url: `${server}/v1/traces`, headers });
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ "service.name": service }),
    spanProcessors: [new BatchSpanProcessor(exporter, { scheduledDelayMillis: EXPORT_DELAY_MS })],
  });
  provider.register();
  return provider;
}

/** A person has to decide before the work of a session goes on. */
export class GateOpenError extends Error {
  constructor(readonly gate: Gate) {
    super(`stopped at gate ${gate.id}: ${gate.reason}`);
  }
}

/** Throw where a gate is open; where the server cannot be asked, the agent goes on. */
export async function throwIfOpen(service: string, session: string): Promise<void> {
  const gate = (await openGates(service, session)).find(({ decision }) => decision === null);
  if (gate) throw new GateOpenError(gate);
}

async function openGates(service: string, session: string): Promise<Gate[]> {
  const asked = new URLSearchParams({ status: "open", task: session, service });
  try {
    const signal = AbortSignal.timeout(ANSWER_MS);
    const answer = await fetch(`${server}/v1/gates?${asked}`, { headers, signal });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
    return ((await answer.json()) as { gates: Gate[] }).gates;
  } catch (error) {
    console.warn(`looptrace was not asked, the agent goes on: ${error}`);
    return [];
  }
}
