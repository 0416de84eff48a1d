// What the agents of this folder share: their tools, and where their spans go.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { z } from "zod";

export const { MODEL, MODEL_URL, OTLP_URL } = process.env;
export const SERVICE = "fixer";
export const AGENT = "fixer";
export const SESSION = "ticket-42";
export const INSTRUCTIONS = "You mend code.";
export const PROMPT = "Make the tests in tests/test_cart.py pass.";
export const STEPS_MAX = 10;

let mended = false;

export const TOOLS = {
  read_file: {
    description: "Read a file.",
    schema: z.object({ path: z.string() }),
    execute: async ({ path }) => `${path}: total = sum(prices)`,
  },
  edit_file: {
    description: "Add a line to a file.",
    schema: z.object({ path: z.string(), text: z.string() }),
    execute: async ({ path }) => {
      mended = true;
      return `${path} is written`;
    },
  },
  run_tests: {
    description: "Run the tests of a file.",
    schema: z.object({ path: z.string() }),
    execute: async () => {
      if (!mended) throw new Error("1 failed: test_total, expected 42, got 41");
      return "9 passed";
    },
  },
};

/** Return a provider whose spans go to the recorder. */
export function provided(wrap = (exporter) => exporter) {
  const exporter = wrap(new OTLPTraceExporter({ url: `${OTLP_URL}/v1/traces` }));
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ "service.name": SERVICE }),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  });
  provider.register();
  return provider;
}
