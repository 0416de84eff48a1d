-- purpose: All events of loops and decisions on them, the newest first.
-- column: at (timestamp) time of its turn or decision, UTC
-- column: type (text) loop_detected, pivot_issued, gate_opened, gate_renamed, gate_unanswered, gate_resolved or counter_reset
-- column: task (text) task of the event
-- column: agent (text) agent of the loop, empty where the whole task loops
-- column: rule (text) rule that found the loop
-- column: action (text) requested action, empty for resolutions and resets
-- column: turn (bigint) turn of the task
-- column: attempts (bigint) occurrences of what repeats up to that turn
-- column: signature (text) short form of what repeats
-- column: reason (text) the loop in words, or why counts begin again
-- column: gate (text) id of the gate that it opened or resolved
-- column: decision (text) what a person decided
-- column: note (text) what a person wrote
SELECT
    make_timestamp(at_ns // 1000) AS at,
    type,
    task,
    agent,
    rule,
    action,
    turn,
    attempts,
    signature,
    reason,
    gate,
    decision,
    note
FROM events
ORDER BY at_ns DESC, seq DESC
