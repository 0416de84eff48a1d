-- purpose: Failures that three sessions or more met within 300 s: outages, and not many loops.
-- column: signature (text) what the failures have in common
-- column: error_kind (text) what went wrong, such as network
-- column: tool (text) tool that failed first with it
-- column: first (timestamp) time of the first failure, UTC
-- column: last (timestamp) time of the last failure before a pause of over 300 s, UTC
-- column: failures (bigint) calls that failed like this
-- column: tasks (bigint) tasks in which it was seen
-- column: sessions (bigint) sessions in which it was seen
WITH shared AS (
    SELECT
        signature, error_kind, name, task, session, end_ns, trace_id, span_id,
        end_ns - lag(end_ns) OVER (
            PARTITION BY signature ORDER BY end_ns, trace_id, span_id
        ) AS pause_ns,
        list_unique(list(session) OVER (
            PARTITION BY signature ORDER BY end_ns
            RANGE BETWEEN 300_000_000_000 PRECEDING AND CURRENT ROW
        )) AS at_once
    FROM turns
    WHERE failed AND signature IS NOT NULL
        -- Kinds with a possible cause outside the agent, the same as in a report.
        AND error_kind IN (
            'rate_limit', 'authentication', 'network', 'dependency', 'timeout', 'unknown'
        )
),
rows_of AS (
    SELECT
        *,
        count_if(coalesce(pause_ns, 0) > 300_000_000_000) OVER (
            PARTITION BY signature ORDER BY end_ns, trace_id, span_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS number
    FROM shared
)
SELECT
    signature,
    arg_min(error_kind, (end_ns, trace_id, span_id)) AS error_kind,
    arg_min(name, (end_ns, trace_id, span_id)) AS tool,
    make_timestamp(min(end_ns) // 1000) AS first,
    make_timestamp(max(end_ns) // 1000) AS last,
    count(*) AS failures,
    count(DISTINCT task) AS tasks,
    count(DISTINCT session) AS sessions
FROM rows_of
GROUP BY signature, number
HAVING max(at_once) >= 3
ORDER BY min(end_ns), signature
