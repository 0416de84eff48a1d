// An agent of LangChain.js.

import { ChatOpenAI } from "@langchain/openai";
import { createAgent, tool } from "langchain";

import * as shared from "./shared.mjs";

/** Run the agent. */
export async function agent() {
  const model = new ChatOpenAI({
    model: shared.MODEL,
    apiKey: "-",
    configuration: { baseURL: shared.MODEL_URL },
  });
  const tools = Object.entries(shared.TOOLS).map(([name, { description, schema, execute }]) =>
    tool(execute, { name, description, schema }),
  );
  const fixer = createAgent({ name: shared.AGENT, model, tools, systemPrompt: shared.INSTRUCTIONS });
  await fixer.invoke(
    { messages: [{ role: "user", content: shared.PROMPT }] },
    { metadata: { session_id: shared.SESSION }, recursionLimit: 4 * shared.STEPS_MAX },
  );
}
