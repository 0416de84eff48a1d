-- purpose: Every attempt at a task, as its agent recorded it.
-- column: task (text) task whose counters count, as reports name it
-- column: subtask (text) declared task within it, empty where it is the task itself
-- column: attempt (bigint) number of the attempt at the declared task, from 1
-- column: at (timestamp) time of the attempt, UTC
-- column: status (text) pending, in_progress, blocked or done
-- column: blockers (text) what blocked it, as JSON, empty where the trace does not say
-- column: completed_work (text) what it completed, empty where the trace does not say
-- column: session (text) session in which it was made
-- column: agent (text) agent that made it, empty where none is named
-- column: trace_id (text) trace of the span that recorded it
-- column: span_id (text) span that recorded it
SELECT
    task,
    subtask,
    row_number() OVER (PARTITION BY task, subtask ORDER BY turn, order_ns, span_id) AS attempt,
    make_timestamp(end_ns // 1000) AS at,
    name AS status,
    arguments AS blockers,
    result AS completed_work,
    session,
    agent,
    trace_id,
    span_id
FROM turns
WHERE kind = 'attempt'
ORDER BY task, subtask NULLS FIRST, attempt
