-- purpose: The same loop over all tasks and sessions, with its state and what it cost.
-- column: incident (text) id of the incident
-- column: state (text) back_again, open, acknowledged, muted or resolved
-- column: reason (text) the newest loop in words
-- column: tool (text) tools of one round
-- column: agent (text) agent of the loop
-- column: service (text) service of the agent
-- column: gates_open (bigint) gates on which nobody has decided
-- column: gates (bigint) all of its gates, without those that were withdrawn
-- column: tasks (bigint) tasks with a gate of it
-- column: since (timestamp) opening of its first gate, UTC
-- column: last (timestamp) opening of its last gate, UTC
-- column: seconds (double) what its loops had lasted at their gates
-- column: tokens (bigint) tokens that models had read and written meanwhile
-- column: money (double) what the models cost meanwhile, in the currency of the prices
-- column: owner (text) the owner
-- column: versions (text) versions of the service, as resolved in 1.4.2, back in 1.5.0
SELECT
    id AS incident,
    arg_min(state, list_position(['back_again', 'open', 'acknowledged', 'muted', 'resolved'], state)) AS state,
    arg_max(reason, last_ns) AS reason,
    any_value(tool) AS tool,
    any_value(agent) AS agent,
    any_value(service) AS service,
    CAST(sum(gates_open) AS BIGINT) AS gates_open,
    CAST(sum(gates) AS BIGINT) AS gates,
    CAST(sum(tasks) AS BIGINT) AS tasks,
    make_timestamp(min(first_ns) // 1000) AS since,
    make_timestamp(max(last_ns) // 1000) AS last,
    round(sum(seconds), 3) AS seconds,
    CAST(sum(input_tokens + output_tokens) AS BIGINT) AS tokens,
    round(sum(money), 6) AS money,
    max(owner) AS owner,
    CASE
        WHEN max(back_in) <> '' AND max(resolved_in) <> '' THEN concat('resolved in ', max(resolved_in), ', back in ', max(back_in))
        WHEN max(back_in) <> '' THEN concat('back in ', max(back_in))
        WHEN max(resolved_in) <> '' THEN concat('resolved in ', max(resolved_in))
        ELSE array_to_string(list_distinct(flatten(list(versions))), ', ')
    END AS versions
FROM incidents
GROUP BY id
ORDER BY
    min(list_position(['back_again', 'open', 'acknowledged', 'muted', 'resolved'], state)),
    max(last_ns) DESC,
    id
