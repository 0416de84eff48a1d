// LangChain.js with Traceloop's instrumentation (OpenLLMetry).

import * as callbacks from "@langchain/core/callbacks/manager";
import { LangChainInstrumentation } from "@traceloop/instrumentation-langchain";

import { agent } from "./langchain.mjs";
import { provided } from "./shared.mjs";

const provider = provided();
const instrumentation = new LangChainInstrumentation();
instrumentation.setTracerProvider(provider);
instrumentation.manuallyInstrument({ callbackManagerModule: callbacks });
// Without a span around it, each span would be a trace of its own.
await provider.getTracer("fixer").startActiveSpan("fix", async (span) => {
  await agent();
  span.end();
});
await provider.shutdown();
