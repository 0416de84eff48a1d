// LangChain.js with OpenInference's instrumentation.

import { LangChainInstrumentation } from "@arizeai/openinference-instrumentation-langchain";
import * as callbacks from "@langchain/core/callbacks/manager";

import { agent } from "./langchain.mjs";
import { provided } from "./shared.mjs";

const provider = provided();
new LangChainInstrumentation({ tracerProvider: provider }).manuallyInstrument(callbacks);
await agent();
await provider.shutdown();
