// Middleware of Vercel's AI SDK, 6 and 7.
//
//     import { loopMiddleware } from "looptrace/ai-sdk";
//     const watched = wrapLanguageModel({ model, middleware: loopMiddleware({ service, session }) });

import { beforeRequest, type LoopOptions } from "./advisor.js";
import { withText } from "./prompt.js";

export { GateOpenError, TaskCancelledError, type LoopOptions } from "./advisor.js";

/**
 * Return middleware that brings a directive into the next request, and throws at an open gate.
 *
 * What it throws ends `generateText`, and is the `error` part of a stream.
 */
export function loopMiddleware(options: LoopOptions) {
  return {
    specificationVersion: "v3" as const, // SDK 7 takes both.
    async transformParams<P extends { prompt: unknown[] }>({ params }: { params: P }): Promise<P> {
      const text = await beforeRequest(options);
      return text === undefined ? params : { ...params, prompt: withText(params.prompt, text) };
    },
  };
}
