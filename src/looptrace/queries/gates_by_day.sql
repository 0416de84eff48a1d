-- purpose: How many gates opened on each day, how they ended, and how long people took.
-- column: day (date) day on which the gates opened, UTC
-- column: opened (bigint) gates that opened
-- column: resolved (bigint) those that are resolved
-- column: false_alarms (bigint) those that a person resolved as not_a_loop
-- column: minutes (double) median time from the opening to the resolution, in minutes
SELECT
    CAST(make_timestamp(opened_ns // 1000) AS DATE) AS day,
    count(*) AS opened,
    count(*) FILTER (WHERE status = 'resolved') AS resolved,
    count(*) FILTER (WHERE decision = 'not_a_loop') AS false_alarms,
    round(median((resolved_ns - opened_ns) / 6e10) FILTER (WHERE status = 'resolved'), 1) AS minutes
FROM gates
WHERE status <> 'withdrawn'
GROUP BY day
ORDER BY day
