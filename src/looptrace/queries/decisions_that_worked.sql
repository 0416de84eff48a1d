-- purpose: Which decisions worked: how often the same loop did not stop its task again.
-- column: decision (text) what a person decided, empty for a message in the trace
-- column: gates (bigint) gates with this decision
-- column: worked (bigint) those after which no gate of the same signature opened in the task
-- column: share (double) worked / gates, from 0 to 1
-- column: with_note (bigint) those with a note for the agent
-- column: minutes (double) median time from the opening to the decision, in minutes
WITH decided AS (
    SELECT
        coalesce(decision, '') AS decision,
        coalesce(note, '') <> '' AS has_note,
        (resolved_ns - opened_ns) / 6e10 AS minutes,
        NOT EXISTS (
            FROM gates AS later
            WHERE later.task = gates.task AND later.signature = gates.signature
                AND later.opened_ns > gates.resolved_ns AND later.status <> 'withdrawn'
        ) AS has_worked
    FROM gates
    WHERE status = 'resolved'
)
SELECT
    decision,
    count(*) AS gates,
    count(*) FILTER (WHERE has_worked) AS worked,
    round(count(*) FILTER (WHERE has_worked) / count(*), 3) AS share,
    count(*) FILTER (WHERE has_note) AS with_note,
    round(median(minutes), 1) AS minutes
FROM decided
GROUP BY decision
ORDER BY gates DESC, decision
