-- purpose: Which rules fire, and on which agents.
-- column: rule (text) rule that fired
-- column: agent (text) agent that loops, empty for rules that look at the whole task
-- column: findings (bigint) how often it fired
-- column: tasks (bigint) tasks in which it fired
-- column: attempts (bigint) occurrences of what repeats, all findings together
-- column: seconds (double) time spent inside the findings; rules that see one loop each count it
-- column: tokens (bigint) input and output tokens spent inside the findings, counted likewise
SELECT
    rule,
    agent,
    count(*) AS findings,
    count(DISTINCT task) AS tasks,
    CAST(sum(attempts) AS BIGINT) AS attempts,
    round(sum(cost_seconds), 3) AS seconds,
    CAST(sum(cost_input_tokens + cost_output_tokens) AS BIGINT) AS tokens
FROM findings
GROUP BY rule, agent
ORDER BY findings DESC, tasks DESC, attempts DESC, rule, agent
