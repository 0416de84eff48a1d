-- purpose: Which agents loop most: in how many of their tasks, and how often they repeat themselves.
-- column: agent (text) agent, empty where none is named
-- column: tasks (bigint) tasks in which it took a turn
-- column: looping_tasks (bigint) tasks in which one of its turns is part of a loop
-- column: share (double) looping_tasks / tasks, from 0 to 1
-- column: loops (bigint) loops with one of its turns, each once, however many rules see it
-- column: attempts (bigint) occurrences of what repeats in these loops
WITH steps AS (
    SELECT task, turn, agent
    FROM turns
    WHERE kind <> 'user'
),
agents AS (
    SELECT agent, count(DISTINCT task) AS tasks
    FROM steps
    GROUP BY agent
),
places AS (
    SELECT id, task, attempts, unnest(turns).turn AS turn
    FROM findings
    WHERE leads
),
-- A rule that looks at the whole task names no agent, but its turns do.
looping AS (
    SELECT DISTINCT steps.agent, places.id, places.task, places.attempts
    FROM places
    JOIN steps USING (task, turn)
),
counted AS (
    SELECT
        agent,
        count(DISTINCT task) AS looping_tasks,
        count(*) AS loops,
        CAST(sum(attempts) AS BIGINT) AS attempts
    FROM looping
    GROUP BY agent
)
SELECT
    agents.agent,
    agents.tasks,
    coalesce(counted.looping_tasks, 0) AS looping_tasks,
    round(coalesce(counted.looping_tasks, 0) / agents.tasks, 3) AS share,
    coalesce(counted.loops, 0) AS loops,
    coalesce(counted.attempts, 0) AS attempts
FROM agents
LEFT JOIN counted USING (agent)
ORDER BY looping_tasks DESC, share DESC, loops DESC, attempts DESC, agents.agent
