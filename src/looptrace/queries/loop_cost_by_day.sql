-- purpose: What loops cost, by the day on which they began.
-- column: day (date) day on which the loops began, UTC
-- column: loops (bigint) stretches of turns with a finding; findings that share turns are one loop
-- column: tasks (bigint) tasks with a loop
-- column: turns (bigint) turns from the first of a loop to its last
-- column: seconds (double) time from the start of a loop to its end
-- column: input_tokens (bigint) tokens that models read in these turns
-- column: output_tokens (bigint) tokens that models wrote in these turns
WITH reached AS (
    SELECT
        task,
        turn_first,
        turn_last,
        max(turn_last) OVER (
            PARTITION BY task ORDER BY turn_first, turn_last, id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS turn_reached
    FROM findings
),
numbered AS (
    SELECT
        task,
        turn_first,
        turn_last,
        count_if(turn_reached IS NULL OR turn_first > turn_reached) OVER (
            PARTITION BY task ORDER BY turn_first, turn_last
        ) AS loop
    FROM reached
),
loops AS (
    SELECT task, loop, min(turn_first) AS turn_first, max(turn_last) AS turn_last
    FROM numbered
    GROUP BY task, loop
),
looping AS (
    SELECT DISTINCT task, agent, turn_first, turn_last
    FROM findings
),
-- A rule about one agent does not cover what other agents do meanwhile.
spent AS (
    SELECT DISTINCT ON (turns.task, turns.turn)
        turns.task,
        turns.turn,
        turns.day,
        turns.start_ns,
        turns.end_ns,
        turns.input_tokens,
        turns.output_tokens
    FROM turns
    JOIN looping ON turns.task = looping.task
        AND turns.turn BETWEEN looping.turn_first AND looping.turn_last
        AND looping.agent IN ('', turns.agent)
    WHERE turns.kind <> 'user'
),
costs AS (
    SELECT
        loops.task,
        arg_min(spent.day, spent.turn) AS day,
        count(*) AS turns,
        (max(spent.end_ns) - min(spent.start_ns)) / 1e9 AS seconds,
        coalesce(sum(spent.input_tokens), 0) AS input_tokens,
        coalesce(sum(spent.output_tokens), 0) AS output_tokens
    FROM loops
    JOIN spent ON spent.task = loops.task
        AND spent.turn BETWEEN loops.turn_first AND loops.turn_last
    GROUP BY loops.task, loops.loop
)
SELECT
    day,
    count(*) AS loops,
    count(DISTINCT task) AS tasks,
    CAST(sum(turns) AS BIGINT) AS turns,
    round(sum(seconds), 3) AS seconds,
    CAST(sum(costs.input_tokens) AS BIGINT) AS input_tokens,
    CAST(sum(costs.output_tokens) AS BIGINT) AS output_tokens
FROM costs
GROUP BY day
ORDER BY day
