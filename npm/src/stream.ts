// The events of a session, as a looptrace server streams them.

/** One event of a gate. */
export interface Notice {
  id: string;
  type: string;
  task: string;
  trace_id: string;
  span_id: string;
  gate: string;
  reason: string;
  directive: string | null;
  decision: string | null;
  note: string | null;
}

/** What a stream said: its events, and the number after which the next one begins. */
export interface Heard {
  notices: Notice[];
  last: string | undefined;
}

/** Read a stream up to its first comment; where it has no event, wait for one for `waitMs`. */
export async function hear(body: ReadableStream<Uint8Array>, waitMs: number): Promise<Heard> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const heard: Heard = { notices: [], last: undefined };
  let [rest, number, isPast] = ["", heard.last, false];
  let timer: NodeJS.Timeout | undefined;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done && !isPast) throw new Error("its answer is cut off");
      if (done) return heard; // A reader that is cancelled is done.
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line.startsWith("id:")) number = line.slice(3).trim();
        else if (line.startsWith("data:")) heard.notices.push(JSON.parse(line.slice(5)) as Notice);
        else if (line === "" || line.startsWith(":")) heard.last = number;
        isPast ||= line.startsWith(":");
      }
      if (isPast && (waitMs === 0 || heard.notices.length > 0)) return heard;
      if (isPast) timer ??= setTimeout(() => void reader.cancel().catch(() => {}), waitMs);
    }
  } finally {
    clearTimeout(timer);
    await reader.cancel().catch(() => {});
  }
}
