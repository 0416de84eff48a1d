// What looptrace says to an agent before it asks its model.

import { hear, type Notice } from "./stream.js";

/** The session of an agent, and the server that watches it. */
export interface LoopOptions {
  /** The `service.name` of the agent's spans. */
  service: string;
  /** The conversation, session or thread that its spans name. */
  session: string;
  /** The server's address; `LOOPTRACE_ENDPOINT`, or this machine. */
  server?: string;
  /** The server's token; `LOOPTRACE_TOKEN`. */
  token?: string;
  /** Stop the agent where the server does not answer. */
  failClosed?: boolean;
  /** Send the spans first: `() => provider.forceFlush()`. Without it a fast agent calls once more. */
  flush?: () => Promise<unknown>;
  /** Wait so long until the rules have seen the spans that `flush` sent. */
  waitMs?: number;
}

const SERVER = "http://127.0.0.1:4318";
const WAIT_MS = 200; // A model takes seconds.
const ANSWER_MS = 2_000; // An agent waits no longer for a server.
const SESSIONS_MAX = 10_000;

/** A person has to decide before the work of a session goes on; its text is the directive. */
export class GateOpenError extends Error {
  override readonly name = "GateOpenError";
  /** The gate's id; none where the server did not answer and `failClosed` is set. */
  readonly gate: string | undefined;
  constructor(text: string, gate?: string) {
    super(text);
    this.gate = gate;
  }
}

/** A person has cancelled the work of a session. */
export class TaskCancelledError extends Error {
  override readonly name = "TaskCancelledError";
}

/** What is known of a session: the number of its last event, its open gate, and its end. */
interface Known {
  last: string | undefined;
  gate: Notice | undefined;
  cancelled: Notice | undefined;
}

const sessions = new Map<string, Known>();
const silent = new Set<string>(); // Servers whose silence was announced.

/**
 * Return the text for the model, if there is one that it has not read.
 *
 * Throws a `GateOpenError` at an open gate, or a `TaskCancelledError`.
 */
export async function beforeRequest(options: LoopOptions): Promise<string | undefined> {
  const server = (options.server ?? process.env.LOOPTRACE_ENDPOINT ?? SERVER).replace(/\/+$/, "");
  const key = [server, options.service, options.session].join("\0");
  const known = sessions.get(key) ?? { last: undefined, gate: undefined, cancelled: undefined };
  let news: string[] = [];
  let failure: GateOpenError | undefined;
  try {
    const heard = await ask(server, options, known.last);
    news = take(heard.notices, known);
    known.last = heard.last ?? known.last;
    keep(key, known);
    silent.delete(server);
  } catch (error) {
    failure = unknown(server, options.failClosed ?? false, error);
  }
  const { gate, cancelled } = known;
  if (cancelled) {
    const note = cancelled.note ? `: ${cancelled.note}` : "";
    throw new TaskCancelledError(`task ${cancelled.task} was cancelled by a person${note}`);
  }
  if (gate) throw new GateOpenError(gate.directive ?? gate.reason, gate.gate);
  if (failure) throw failure;
  return news.length > 0 ? news.join("\n\n") : undefined;
}

async function ask(server: string, options: LoopOptions, last: string | undefined) {
  const token = options.token ?? process.env.LOOPTRACE_TOKEN;
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (last !== undefined) headers["Last-Event-ID"] = last;
  const asked = new URLSearchParams({ task: options.session, service: options.service });
  const waitMs = options.flush ? (options.waitMs ?? WAIT_MS) : 0;
  const ended = new AbortController();
  const late = () => ended.abort(new Error("its answer takes too long"));
  const timer = setTimeout(late, ANSWER_MS + waitMs);
  try {
    if (options.flush) await Promise.race([options.flush(), aborted(ended.signal)]);
    const url = `${server}/v1/gates/stream?${asked}`;
    const answer = await fetch(url, { headers, signal: ended.signal });
    if (!answer.ok || !answer.body) throw new Error(`${answer.status} ${await answer.text()}`);
    return await hear(answer.body, waitMs);
  } finally {
    clearTimeout(timer);
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });
}

/** Note the gate of a session; return what is new to its model. */
function take(notices: Notice[], known: Known): string[] {
  const news = new Map<string, string>();
  known.gate = undefined; // A stream begins with the gates that are open.
  for (const notice of notices) {
    const place = `${notice.trace_id} ${notice.span_id}`;
    const isEnd = notice.type === "gate_opened" || notice.type === "gate_resolved";
    // A reset at the place of a decision is its own.
    if (isEnd || (notice.type === "counter_reset" && !news.has(place))) news.clear();
    if (isEnd) {
      known.gate = notice.type === "gate_opened" ? notice : undefined;
      known.cancelled = notice.decision === "cancel" ? notice : undefined;
    }
    const name = notice.type === "gate_resolved" ? place : notice.id;
    if (notice.directive && known.last !== undefined) news.set(name, notice.directive);
  }
  return [...new Set(news.values())]; // Two rules may say the same.
}

function keep(key: string, known: Known): void {
  sessions.delete(key);
  sessions.set(key, known);
  const oldest = sessions.keys().next();
  if (sessions.size > SESSIONS_MAX && !oldest.done) sessions.delete(oldest.value);
}

/** Return what stops an agent whose server does not answer, or warn once that it goes on. */
function unknown(server: string, failClosed: boolean, error: unknown): GateOpenError | undefined {
  const why = error instanceof Error ? (error.cause ?? error) : error;
  const text = `looptrace at ${server} does not say whether the agent may go on: ${why}`;
  if (failClosed) return new GateOpenError(text);
  if (!silent.has(server)) console.warn(`${text}. It goes on.`);
  silent.add(server);
  return undefined;
}
