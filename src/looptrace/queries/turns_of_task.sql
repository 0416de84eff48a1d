-- purpose: The turns of one task, and the rules that found a loop there.
-- parameter: task (text) task, as reports name it
-- column: turn (uinteger) place within the task, from 1; a message has that of the turn before
-- column: kind (text) tool, model, handoff, attempt or user
-- column: agent (text) agent that took the turn, empty where none is named
-- column: name (text) tool, model, or agent handed to
-- column: failed (boolean) whether it failed, empty where the trace does not say
-- column: rules (text) rules with a finding that this turn is part of, empty where there is none
-- column: arguments (text) arguments of a tool call
-- column: result (text) result of a tool, the error, or the text of a model or a person
-- column: seconds (double) duration in seconds
-- column: tokens (bigint) tokens that a model read and wrote
-- column: money (double) what they cost, in the currency of the prices; empty without a price
WITH looping AS (
    SELECT place.turn, string_agg(DISTINCT rule, ', ' ORDER BY rule) AS rules
    FROM (SELECT rule, unnest(turns) AS place FROM findings WHERE task = $task)
    GROUP BY place.turn
)
SELECT
    turns.turn,
    turns.kind,
    turns.agent,
    turns.name,
    turns.failed,
    coalesce(looping.rules, '') AS rules,
    turns.arguments,
    coalesce(turns.result, turns.error, turns.text) AS result,
    (turns.end_ns - turns.start_ns) / 1e9 AS seconds,
    coalesce(turns.input_tokens + turns.output_tokens, turns.input_tokens, turns.output_tokens)
        AS tokens,
    round(turns.money, 6) AS money
FROM turns
LEFT JOIN looping ON looping.turn = turns.turn AND turns.kind <> 'user'
WHERE turns.task = $task
-- A person's message has the number of the turn before it.
ORDER BY turns.turn, turns.kind = 'user', turns.order_ns
