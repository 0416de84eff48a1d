-- purpose: What loops cost, by the day on which they began.
-- column: day (date) day on which the loops began, UTC
-- column: loops (bigint) loops, each once, however many rules see it
-- column: tasks (bigint) tasks with a loop
-- column: attempts (bigint) occurrences of what repeats in these loops
-- column: seconds (double) time from the start of a loop to its end
-- column: input_tokens (bigint) tokens that models read meanwhile
-- column: output_tokens (bigint) tokens that models wrote meanwhile
-- column: money (double) what they cost, in the currency of the prices; empty without prices
SELECT
    day,
    count(*) AS loops,
    count(DISTINCT task) AS tasks,
    CAST(sum(attempts) AS BIGINT) AS attempts,
    round(sum(cost_seconds), 3) AS seconds,
    CAST(sum(cost_input_tokens) AS BIGINT) AS input_tokens,
    CAST(sum(cost_output_tokens) AS BIGINT) AS output_tokens,
    round(sum(cost_money), 6) AS money
FROM findings
WHERE leads
GROUP BY day
ORDER BY day
