-- purpose: What loops cost, by the day on which they began.
-- column: day (date) day on which the loops began, UTC
-- column: loops (bigint) stretches of turns with a finding; findings that share turns are one loop
-- column: tasks (bigint) tasks with a loop
-- column: turns (bigint) turns between the first and the last of a loop
-- column: seconds (double) time between the start of a loop and its end
-- column: input_tokens (bigint) tokens that models read meanwhile
-- column: output_tokens (bigint) tokens that models wrote meanwhile
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
costs AS (
    SELECT
        loops.task,
        arg_min(turns.day, turns.turn) AS day,
        count(*) AS turns,
        (max(turns.end_ns) - min(turns.start_ns)) / 1e9 AS seconds,
        sum(turns.input_tokens) FILTER (turns.kind = 'model') AS input_tokens,
        sum(turns.output_tokens) FILTER (turns.kind = 'model') AS output_tokens
    FROM loops
    JOIN turns ON turns.task = loops.task
        AND turns.turn BETWEEN loops.turn_first AND loops.turn_last
    GROUP BY loops.task, loops.loop
)
SELECT
    day,
    count(*) AS loops,
    count(DISTINCT task) AS tasks,
    CAST(sum(turns) AS BIGINT) AS turns,
    round(sum(seconds), 3) AS seconds,
    CAST(coalesce(sum(input_tokens), 0) AS BIGINT) AS input_tokens,
    CAST(coalesce(sum(output_tokens), 0) AS BIGINT) AS output_tokens
FROM costs
GROUP BY day
ORDER BY input_tokens + output_tokens DESC, seconds DESC, day
