-- purpose: Every gate, the open ones first, with the decision and how long it took.
-- column: gate (text) id of the gate
-- column: task (text) task that it stops
-- column: rule (text) rule that found the loop
-- column: signature (text) short form of what repeats
-- column: why (text) LADDER, or the limit that was reached
-- column: attempts (bigint) occurrences of what repeats when it opened
-- column: opened (timestamp) time at which it opened, UTC
-- column: status (text) open, resolved or withdrawn
-- column: seconds (double) from the opening to the resolution
-- column: decision (text) what a person decided
-- column: note (text) what a person wrote
SELECT
    id AS gate,
    task,
    rule,
    signature,
    why,
    loop_count + 1 AS attempts,
    make_timestamp(opened_ns // 1000) AS opened,
    status,
    (resolved_ns - opened_ns) / 1e9 AS seconds,
    decision,
    note
FROM gates
ORDER BY status <> 'open', opened_ns DESC, id
