-- purpose: How far each task has come: its attempts, and how the last one ended.
-- column: task (text) task whose counters count, as reports name it
-- column: subtask (text) declared task within it, empty where it is the task itself
-- column: attempts (bigint) recorded attempts
-- column: last_attempt (timestamp) time of the last attempt, UTC
-- column: last_status (text) its status: pending, in_progress, blocked or done
-- column: last_blockers (text) what blocked it, as JSON, empty where the trace does not say
-- column: last_session (text) session in which it was made
SELECT
    task,
    subtask,
    count(*) AS attempts,
    max(make_timestamp(end_ns // 1000)) AS last_attempt,
    arg_max(name, (turn, order_ns, span_id)) AS last_status,
    -- An aggregate would skip what is unknown and show the blockers of an earlier attempt.
    arg_max([arguments], (turn, order_ns, span_id))[1] AS last_blockers,
    arg_max(session, (turn, order_ns, span_id)) AS last_session
FROM turns
WHERE kind = 'attempt'
GROUP BY task, subtask
ORDER BY last_attempt DESC, task, subtask NULLS FIRST
