-- purpose: Which failures come back, and over how many tasks and sessions.
-- column: signature (text) what the failures have in common
-- column: name (text) tool that failed first with it
-- column: failures (bigint) turns that failed with it
-- column: tasks (bigint) tasks in which it was seen
-- column: sessions (bigint) sessions in which it was seen
-- column: last_day (date) day on which it was last seen, UTC
-- column: example (text) message or result of the first failure
SELECT
    signature,
    arg_min(name, (order_ns, task, turn)) AS name,
    count(*) AS failures,
    count(DISTINCT task) AS tasks,
    count(DISTINCT session) AS sessions,
    max(day) AS last_day,
    arg_min(coalesce(error, result), (order_ns, task, turn)) AS example
FROM turns
WHERE failed AND signature IS NOT NULL
GROUP BY signature
HAVING count(*) > 1
ORDER BY tasks DESC, failures DESC, signature
