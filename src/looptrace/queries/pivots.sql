-- purpose: Every pivot, and the state of its task now.
-- column: at (timestamp) time of the pivot, UTC
-- column: task (text) task that it was issued to
-- column: rule (text) rule that found the loop
-- column: pivot_count (bigint) pivots of the task so far
-- column: entropy_count (bigint) attempts of the loop that triggered it
-- column: status (text) state of the task now
SELECT
    make_timestamp(pivots.at_ns // 1000) AS at,
    pivots.task,
    events.rule,
    pivots.pivot_count,
    pivots.entropy_count,
    tasks.status
FROM pivots
JOIN events ON events.id = pivots.event
LEFT JOIN tasks ON tasks.task = pivots.task
ORDER BY pivots.at_ns DESC, pivots.event
