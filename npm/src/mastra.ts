// A processor of Mastra's agents.
//
//     import { LoopProcessor } from "looptrace/mastra";
//     new Agent({ …, inputProcessors: [new LoopProcessor({ service, session })] });

import { beforeRequest, GateOpenError, type LoopOptions, TaskCancelledError } from "./advisor.js";
import { withText } from "./prompt.js";

export { GateOpenError, TaskCancelledError, type LoopOptions } from "./advisor.js";

/** What a processor is given, as far as it is needed here. */
interface Request<C> {
  prompt: unknown[];
  requestContext?: C;
  abort: (reason?: string, options?: { metadata?: unknown }) => never;
}

/** The options of a processor; one agent works on many sessions. */
export type ProcessorOptions<C> = Omit<LoopOptions, "session"> & {
  session: string | ((context: C | undefined) => string | undefined);
};

/**
 * Brings a directive into the next request, and aborts a run at an open gate.
 *
 * The result of such a run has the directive as `tripwire.reason`, and the gate in its metadata.
 * Where the function `session` returns nothing, nothing is asked.
 */
export class LoopProcessor<C = any> {
  readonly id = "looptrace";
  readonly #options: ProcessorOptions<C>;

  constructor(options: ProcessorOptions<C>) {
    this.#options = options;
  }

  async processLLMRequest<R extends Request<C>>(
    request: R,
  ): Promise<{ prompt: R["prompt"] } | undefined> {
    const given = this.#options.session;
    const session = typeof given === "string" ? given : given(request.requestContext);
    if (session === undefined) return undefined;
    let text: string | undefined;
    try {
      text = await beforeRequest({ ...this.#options, session });
    } catch (error) {
      if (error instanceof GateOpenError) request.abort(error.message, { metadata: { gate: error.gate } });
      if (error instanceof TaskCancelledError) request.abort(error.message);
      throw error;
    }
    return text === undefined ? undefined : { prompt: withText(request.prompt, text) };
  }
}
