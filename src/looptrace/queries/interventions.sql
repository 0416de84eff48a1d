-- purpose: Did it help: how often a run got on within ten turns after a warning, a pivot or a decision.
-- column: intervention (text) action that the agent was told, or decision of a person, with + note if there was one; empty for a message; left alone where nobody was told (recovery.shadow), and again where the loop went on
-- column: rule (text) rule that found the loop
-- column: times (bigint) interventions of the rule
-- column: recovered (bigint) those after which the same loop was not reported again, and there was a new result or a completed task
-- column: share (double) recovered / those with a turn after them, from 0 to 1
-- column: share_min (double) least likely share, by Wilson's interval of 95 %
-- column: share_max (double) greatest likely share
-- column: stopped (bigint) those after which the task has no turn
WITH told AS (
    SELECT
        seq,
        task,
        rule,
        turn,
        signature,
        CASE
            WHEN type <> 'gate_resolved' AND action IS NOT NULL THEN action
            -- A told run stops at its gate; what follows a first look only adds to those left alone.
            WHEN type <> 'gate_resolved' AND 1 < row_number() OVER (
                PARTITION BY task, rule, signature, type, action ORDER BY seq
            ) THEN 'left alone again'
            WHEN type <> 'gate_resolved' THEN 'left alone'
            WHEN coalesce(note, '') <> '' THEN coalesce(decision, '') || ' + note'
            ELSE coalesce(decision, '')
        END AS intervention
    FROM events
    WHERE (type = 'gate_resolved' AND decision IS DISTINCT FROM 'withdrawn')
        OR type IN ('loop_detected', 'pivot_issued')
),
firsts AS (
    SELECT task, outcome, min(turn) AS turn
    FROM turns
    WHERE kind IN ('tool', 'handoff') AND failed IS DISTINCT FROM TRUE AND outcome IS NOT NULL
    GROUP BY task, outcome
),
counted AS (
    SELECT
        intervention,
        rule,
        EXISTS (
            FROM turns WHERE turns.task = told.task AND turns.turn > told.turn AND kind <> 'user'
        ) AS goes_on,
        NOT EXISTS (
            FROM events AS again
            WHERE again.task = told.task AND again.signature = told.signature
                AND again.turn > told.turn AND again.turn <= told.turn + 10
                AND again.type IN ('loop_detected', 'pivot_issued', 'gate_opened')
        ) AND (
            EXISTS (
                FROM firsts
                WHERE firsts.task = told.task
                    AND firsts.turn > told.turn AND firsts.turn <= told.turn + 10
            )
            OR EXISTS (
                FROM turns
                WHERE turns.task = told.task AND kind = 'attempt' AND name = 'done'
                    AND turns.turn > told.turn AND turns.turn <= told.turn + 10
            )
        ) AS has_recovered
    FROM told
),
summed AS (
    SELECT
        intervention,
        rule,
        count(*) AS times,
        count(*) FILTER (WHERE has_recovered) AS recovered,
        count(*) FILTER (WHERE NOT goes_on) AS stopped,
        count(*) FILTER (WHERE goes_on) AS n,
        recovered / nullif(n, 0) AS p
    FROM counted
    GROUP BY intervention, rule
),
bounded AS (
    SELECT
        *,
        (p + 1.92 / n) / (1 + 3.84 / n) AS middle,
        1.96 * sqrt(p * (1 - p) / n + 0.96 / n / n) / (1 + 3.84 / n) AS reach
    FROM summed
)
SELECT
    intervention,
    rule,
    times,
    recovered,
    round(p, 3) AS share,
    CASE WHEN n > 0 THEN round(greatest(middle - reach, 0), 3) END AS share_min,
    round(middle + reach, 3) AS share_max,
    stopped
FROM bounded
ORDER BY times DESC, intervention, rule
