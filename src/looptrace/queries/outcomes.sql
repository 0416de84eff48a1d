-- purpose: What is known of how runs ended: evaluations, attributes, and decisions of people.
-- column: task (text) task of the run
-- column: source (text) evaluation, attribute (`looptrace.task.outcome`) or decision
-- column: name (text) name of the evaluation or attribute; of a decision the rule of the gate
-- column: label (text) label of the score, the attribute's value, or the decision
-- column: value (double) value of the score
-- column: note (text) what the evaluation or the person said
-- column: at_ns (bigint) time, in nanoseconds since 1970, UTC
WITH evaluated AS (
    SELECT trace_id, unnest(CAST(events AS JSON[])) AS event
    FROM spans
    WHERE contains(events, 'gen_ai.evaluation.result')
),
recorded AS (
    SELECT
        trace_id,
        'evaluation' AS source,
        event ->> '$.attributes."gen_ai.evaluation.name"' AS name,
        event ->> '$.attributes."gen_ai.evaluation.score.label"' AS label,
        TRY_CAST(event ->> '$.attributes."gen_ai.evaluation.score.value"' AS DOUBLE) AS value,
        event ->> '$.attributes."gen_ai.evaluation.explanation"' AS note,
        CAST(event ->> '$.time_ns' AS BIGINT) AS at_ns
    FROM evaluated
    WHERE event ->> '$.name' = 'gen_ai.evaluation.result'
    UNION ALL
    SELECT
        trace_id,
        'attribute',
        'looptrace.task.outcome',
        attributes ->> '$."looptrace.task.outcome"',
        TRY_CAST(attributes ->> '$."looptrace.task.outcome"' AS DOUBLE),
        NULL,
        end_ns
    FROM spans
    WHERE contains(attributes, '"looptrace.task.outcome"')
),
tasks_of AS (SELECT DISTINCT trace_id, task FROM turns)
SELECT task, source, name, label, value, note, at_ns
FROM recorded JOIN tasks_of USING (trace_id)
WHERE name IS NOT NULL AND (label IS NOT NULL OR value IS NOT NULL)
UNION ALL
SELECT task, 'decision', rule, decision, NULL, note, resolved_ns
FROM gates
WHERE status = 'resolved' AND decision IS NOT NULL
ORDER BY at_ns, task, source, name
