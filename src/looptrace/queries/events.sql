-- purpose: Everything that was told or decided of loops, the newest first.
-- column: at (timestamp) time of the turn or decision that it is about, UTC
-- column: type (text) loop_detected, pivot_issued, gate_opened, gate_resolved or counter_reset
-- column: task (text) task that it is about
-- column: agent (text) agent of the loop, empty where the whole task loops
-- column: rule (text) rule that found the loop
-- column: action (text) what was asked for, empty of resolutions and resets
-- column: turn (bigint) turn of the task
-- column: loop_count (bigint) repeats at that turn
-- column: signature (text) short form of what repeats
-- column: reason (text) the loop in words, or why counts begin anew
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
    loop_count,
    signature,
    reason,
    gate,
    decision,
    note
FROM events
ORDER BY at_ns DESC, seq DESC
