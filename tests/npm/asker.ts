// Asks before each line of its input, which has the options, and prints what came of it.

import { createInterface } from "node:readline";

import { beforeRequest, type LoopOptions } from "looptrace";

for await (const line of createInterface({ input: process.stdin })) {
  try {
    const text = await beforeRequest(JSON.parse(line) as LoopOptions);
    console.log(JSON.stringify({ error: "", text: text ?? "" }));
  } catch (error) {
    const { name, message } = error as Error;
    console.log(JSON.stringify({ error: name, text: message }));
  }
}
