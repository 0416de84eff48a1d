-- purpose: Which rules fire, and on which agents.
-- column: rule (text) rule that fired
-- column: agent (text) agent that loops, empty for rules that look at the whole task
-- column: loops (bigint) loops that are counted under this rule
-- column: also (bigint) loops that it saw, too, and that are counted under another rule
-- column: tasks (bigint) tasks in which it fired
-- column: attempts (bigint) occurrences of what repeats in the loops under it, empty without one
-- column: seconds (double) time spent inside them, empty likewise
-- column: tokens (bigint) input and output tokens spent inside them, empty likewise
-- column: money (double) what these cost, in the currency of the prices; empty without prices
SELECT
    rule,
    agent,
    count(*) FILTER (WHERE leads) AS loops,
    count(*) FILTER (WHERE NOT leads) AS also,
    count(DISTINCT task) AS tasks,
    CAST(sum(attempts) FILTER (WHERE leads) AS BIGINT) AS attempts,
    round(sum(cost_seconds) FILTER (WHERE leads), 3) AS seconds,
    CAST(sum(cost_input_tokens + cost_output_tokens) FILTER (WHERE leads) AS BIGINT) AS tokens,
    round(sum(cost_money) FILTER (WHERE leads), 6) AS money
FROM findings
GROUP BY rule, agent
ORDER BY loops DESC, also DESC, tasks DESC, rule, agent
