// The prompt of one request, as the AI SDK and Mastra hand it to a provider.

interface Message {
  role: string;
  content: unknown;
}

/** Return a prompt whose instructions end with a text; a user's message would be a person's. */
export function withText<M>(prompt: readonly M[], text: string): M[] {
  const messages = prompt as readonly Message[];
  const place = messages.findIndex(({ role }) => role === "system");
  const before = messages[place];
  if (!before) return [{ role: "system", content: text } as M, ...prompt];
  const added = { ...before, content: `${before.content}\n\n${text}` };
  return messages.map((message, index) => (index === place ? added : message)) as M[];
}
