// Written by `looptrace hook install opencode`; `looptrace hook remove opencode` deletes it.
import { spawn } from "node:child_process"

const [program, ...words] = COMMAND
const [server, fails] = WHERE

// Return the answer of looptrace's hook to one event, {} where it has nothing to say.
function ask(event, call) {
  return new Promise((resolve) => {
    const unknown = event === "before" && fails === "closed"
      ? { decision: "deny", reason: `looptrace's hook cannot be run by ${program}.` }
      : {}
    const hook = spawn(program, [...words, event, server, fails], { stdio: ["pipe", "pipe", "ignore"] })
    let said = ""
    hook.on("error", () => resolve(unknown))
    hook.stdin.on("error", () => {})
    hook.stdout.on("data", (part) => (said += part))
    hook.on("close", () => {
      try {
        resolve(said ? JSON.parse(said) : {})
      } catch {
        resolve(unknown)
      }
    })
    hook.stdin.end(JSON.stringify(call))
  })
}

export const Looptrace = async ({ client }) => ({
  "chat.message": async (input, output) => {
    const prompt = output.parts.filter((part) => part.type === "text" && !part.synthetic)
    if (prompt.length === 0) return // The program's own.
    await ask("prompt", { session_id: input.sessionID, prompt, prompt_id: output.message.id })
  },
  "tool.execute.before": async (input, output) => {
    const answer = await ask("before", { session_id: input.sessionID, tool_name: input.tool, tool_input: output.args })
    if (answer.decision !== "deny") return
    // The run ends, too; it is not waited for, because it waits for this call.
    if (answer.continue === false) client.session.abort({ path: { id: input.sessionID } }).catch(() => {})
    throw new Error(answer.reason)
  },
  "tool.execute.after": async (input, output) => {
    const exit = output.metadata?.exit
    const answer = await ask("after", {
      session_id: input.sessionID,
      tool_name: input.tool,
      tool_input: input.args,
      tool_use_id: input.callID,
      tool_response: output.output,
      ...(exit ? { error: output.output } : {}),
    })
    const told = answer.hookSpecificOutput?.additionalContext
    if (told) output.output = `${output.output}\n\n${told}`
  },
})
