-- purpose: The state of every task with an event, the stopped ones first.
-- column: task (text) task whose counters count
-- column: status (text) active, paused_for_intervention or blocked
-- column: loop_count (bigint) repeats of its longest loop since the last reset
-- column: pivot_count (bigint) pivots since then
-- column: gates (bigint) gates that it had
-- column: updated (timestamp) time of its last event, UTC
SELECT
    task,
    status,
    loop_count,
    pivot_count,
    (SELECT count(*) FROM gates WHERE gates.task = tasks.task) AS gates,
    make_timestamp(updated_ns // 1000) AS updated
FROM tasks
ORDER BY status = 'active', updated_ns DESC, task
