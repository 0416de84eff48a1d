// LangChain.js with Traceloop's instrumentation (OpenLLMetry).

import * as callbacks from "@langchain/core/callbacks/manager";
import { LangChainInstrumentation } from "@traceloop/instrumentation-langchain";

import { agent } from "./langchain.mjs";
import { provided } from "./shared.mjs";

const provider = provided();
const instrumentation = new LangChainInstrumentation();
instrumentation.setTracerProvider(provider);
instrumentation.manuallyInstrument({ callbackManagerModule: callbacks });
await agent();
await provider.shutdown();
