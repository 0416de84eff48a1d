-- purpose: Which agents loop most: the share of their tasks with a loop, and how often they try.
-- column: agent (text) agent, empty where none is named
-- column: tasks (bigint) tasks in which it took a turn
-- column: looping_tasks (bigint) those of its tasks in which it has a finding
-- column: share (double) looping_tasks / tasks, from 0 to 1
-- column: findings (bigint) findings on it
-- column: loops (bigint) repeats, all its findings together
-- column: attempts (bigint) occurrences of what repeats, all its findings together
WITH agents AS (
    SELECT agent, count(DISTINCT task) AS tasks
    FROM turns
    WHERE kind <> 'user'
    GROUP BY agent
),
looping AS (
    SELECT
        agent,
        count(DISTINCT task) AS looping_tasks,
        count(*) AS findings,
        CAST(sum(loop_count) AS BIGINT) AS loops,
        CAST(sum(attempts) AS BIGINT) AS attempts
    FROM findings
    GROUP BY agent
)
SELECT
    agents.agent,
    agents.tasks,
    coalesce(looping.looping_tasks, 0) AS looping_tasks,
    round(coalesce(looping.looping_tasks, 0) / agents.tasks, 3) AS share,
    coalesce(looping.findings, 0) AS findings,
    coalesce(looping.loops, 0) AS loops,
    coalesce(looping.attempts, 0) AS attempts
FROM agents
LEFT JOIN looping USING (agent)
ORDER BY looping_tasks DESC, share DESC, loops DESC, agents.agent
