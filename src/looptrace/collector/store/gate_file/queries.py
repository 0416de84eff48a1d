"""The statements of `GateStore`, and of its parts."""

ADD_EVENT = """
    INSERT INTO events (id, type, task, agent, rule, finding, at_ns, body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING
"""
# A late name: the records of a task or an agent get another name, and stay the same otherwise.
OLD_NAMES = "SELECT task, agent FROM events WHERE id = ?1 AND (task, agent) <> (?2, ?3)"
RENAME_EVENT = "UPDATE events SET task = ?2, agent = ?3, body = ?4 WHERE id = ?1"
WITHOUT_AGENT = "SELECT id FROM events WHERE id = ? AND task = ? AND agent = ''"
# The other names under which events of a gate were sent.
SENT_NAMES = """
    SELECT body ->> 'task_before', body ->> 'agent_before' FROM events
    WHERE type = 'gate_renamed' AND body ->> 'gate' = ?
"""
PASSED_TO = "SELECT value FROM waits, json_each(passed_to) WHERE gate = ?"
WAITS = "SELECT gate, since_ns, steps FROM waits"
BEGIN_WAIT = "INSERT INTO waits VALUES (?, ?, 0, '[]') ON CONFLICT DO NOTHING"
END_WAIT = "DELETE FROM waits WHERE gate = ?"
SET_WAIT = "UPDATE waits SET steps = ?, passed_to = ? WHERE gate = ?"
# Where two open gates come to one task, the task's state says which is open.
PARK_GATE = """
    UPDATE gates SET status = 'withdrawn'
    WHERE event = ?1 AND status = 'open' AND EXISTS (
        SELECT 1 FROM gates AS other
        WHERE other.task = ?2 AND other.status = 'open' AND other.event <> ?1
    )
    RETURNING id
"""
RENAME_GATE = """
    UPDATE gates SET task = ?1, incident = (SELECT incident(body) FROM events WHERE id = ?2)
    WHERE event = ?2
"""
ADD_GATE = """
    INSERT INTO gates
        (id, event, task, rule, signature, why, loop_count, opened_ns, finding, status, incident)
    SELECT ?, events.id, ?, ?, ?, ?, ?, ?, ?, 'withdrawn', incident(body) FROM events WHERE id = ?
"""
PUT_STATE = """
    INSERT INTO tasks
    VALUES (?1, ?2, ?3, ?4, ?5, (SELECT coalesce(max(at_ns), 0) FROM events WHERE task = ?1))
    ON CONFLICT (task) DO UPDATE SET
        status = excluded.status,
        pivot_count = excluded.pivot_count,
        loop_count = excluded.loop_count,
        state = excluded.state,
        updated_ns = excluded.updated_ns
"""
RESOLVE_GATE = """
    UPDATE gates SET status = 'resolved', resolved_ns = ?, decision = ?, note = ? WHERE id = ?
"""
DECIDED = """
    SELECT resolutions.at_ns, resolutions.decision, resolutions.note FROM resolutions
    JOIN gates ON gates.id = resolutions.gate
    WHERE gates.id = ? AND resolutions.at_ns > gates.opened_ns ORDER BY resolutions.at_ns LIMIT 1
"""
PUT_BACK = """
    INSERT INTO resolutions
    SELECT ?1, gates.id, ?2, ?3, ?4, NULL, ?7, ?8 FROM gates JOIN events ON events.id = gates.event
    WHERE json_extract(events.body, '$.trace_id') = ?5
        AND json_extract(events.body, '$.span_id') = ?6 AND gates.opened_ns < ?2
    ORDER BY gates.opened_ns DESC LIMIT 1
    ON CONFLICT (id) DO NOTHING
"""
EVENT = "SELECT seq FROM events WHERE id = ?"
END_OF_GATE = """
    SELECT events.body FROM gates
    JOIN events ON events.type = 'gate_resolved' AND events.body ->> 'gate' = gates.id
    WHERE gates.id = ? AND gates.status = 'resolved' AND gates.decision IS ?
    ORDER BY events.seq DESC LIMIT 1
"""
OPEN_GATES = "SELECT id FROM gates WHERE task = ? AND status = 'open' AND id <> ?"
# The gates of a budget on which nobody has decided.
OPEN_GATES_OF_BUDGET = """
    SELECT id FROM gates
    WHERE status = 'open' AND (?1 IS NULL OR rule = ?1) AND signature = ?2 AND NOT EXISTS (
        SELECT 1 FROM resolutions WHERE gate = gates.id AND at_ns > gates.opened_ns
    )
"""
WITHDRAWN_GATE = "SELECT id FROM gates WHERE id = ? AND status = 'withdrawn'"
# The endpoints that have not heard yet that a gate was withdrawn, and no longer will.
TAKE_BACK = """
    DELETE FROM outbox WHERE tries = 0 AND next_try_ns > ?2 AND EXISTS (
        SELECT 1 FROM events WHERE id = outbox.event AND type = 'gate_resolved'
            AND body ->> 'gate' = ?1 AND body ->> 'decision' = 'withdrawn'
    )
    RETURNING endpoint
"""
ENDED_GATE = "SELECT id FROM gates WHERE id = ? AND status <> 'open'"
WITHDRAW_GATE = "UPDATE gates SET status = 'withdrawn' WHERE id = ?"
OPEN_GATE = """
    UPDATE gates
    SET status = 'open', opened_ns = ?1, resolved_ns = NULL, decision = NULL, note = NULL
    WHERE id = ?2 AND task = ?3 AND (status <> 'open' OR opened_ns <> ?1)
"""
# Only endpoints hear of endpoints, and of promises.
EVENTS = """
    SELECT seq, body FROM events
    WHERE seq > ?1 AND type NOT IN ('endpoint_disabled', 'endpoint_enabled', 'promise_withdrawn')
    ORDER BY seq LIMIT ?3
"""
EVENTS_OF_TASK = """
    SELECT seq, body FROM events WHERE seq > ?1 AND task = ?2
        AND type NOT IN ('gate_renamed', 'gate_unanswered')
    ORDER BY seq LIMIT ?3
"""
# An end by a person, a reset, and an event of an endpoint know no service.
SERVICES = """
    SELECT DISTINCT task, coalesce(body ->> 'service', '') FROM events
    WHERE type NOT IN ('gate_resolved', 'counter_reset', 'endpoint_disabled', 'endpoint_enabled')
        AND (?1 IS NULL OR task IN (SELECT value FROM json_each(?1)))
"""
PENDING = """
    SELECT json_extract(events.body, '$.trace_id') FROM resolutions
    JOIN gates ON gates.id = resolutions.gate
    JOIN events ON events.id = gates.event
    WHERE gates.status = 'open' AND resolutions.at_ns > gates.opened_ns
"""
GATE_TRACES = """
    SELECT gates.task, json_extract(events.body, '$.trace_id') FROM gates
    JOIN events ON events.id = gates.event WHERE gates.status <> 'withdrawn'
"""
RESOLUTIONS = """
    SELECT resolutions.id, events.task, json_extract(events.body, '$.session'),
        json_extract(events.body, '$.trace_id'), json_extract(events.body, '$.span_id'),
        resolutions.at_ns, resolutions.decision, resolutions.note, gates.rule, gates.signature,
        resolutions.added, resolutions.added_ns
    FROM resolutions
    JOIN gates ON gates.id = resolutions.gate
    JOIN events ON events.id = gates.event
    ORDER BY resolutions.at_ns, resolutions.id
"""
# A resolution in effect is later than its gate's opening, and the gate is no longer open.
_GATES = """
    SELECT gates.id, gates.task, gates.rule, gates.signature, gates.why, events.agent,
        json_extract(events.body, '$.reason') AS reason, gates.loop_count, gates.opened_ns,
        gates.status, gates.resolved_ns, coalesce(gates.decision, resolutions.decision) AS decision,
        coalesce(gates.note, resolutions.note) AS note, (
            SELECT who FROM resolutions
            WHERE gate = gates.id AND at_ns > gates.opened_ns ORDER BY at_ns LIMIT 1
        ) AS resolved_by, gates.incident,
        coalesce(json_extract(events.body, '$.service_version'), '') AS service_version
    FROM gates
    JOIN events ON events.id = gates.event
    LEFT JOIN resolutions
        ON resolutions.gate = gates.id AND resolutions.at_ns > gates.opened_ns
        AND gates.status = 'open'
"""
GATE = f"{_GATES} WHERE gates.id = ?"
# A whole id matches only itself, although it may also begin others.
IDS_OF_PREFIX = """
    SELECT gates.id FROM gates JOIN (
        SELECT id, id AS of FROM gates UNION ALL SELECT id, of FROM aliases
    ) AS named ON named.of = gates.id
    WHERE named.id BETWEEN ?1 AND ?1 || char(0x10FFFF)
        AND substr(named.id, 1, length(?1)) = ?1 AND ?1 <> ''
    GROUP BY gates.id ORDER BY max(named.id = ?1) DESC, opened_ns DESC, gates.id LIMIT ?2
"""
GATES_OF_INCIDENT = f"""
    {_GATES} WHERE gates.incident = ?1 AND gates.status <> 'withdrawn'
    ORDER BY gates.status <> 'open', gates.opened_ns DESC, gates.id LIMIT ?2
"""
_LISTED = "(?1 IS NULL OR status = ?1) AND (?2 IS NULL OR task = ?2)"
_LISTED_ORDER = "status <> 'open', opened_ns DESC, id"
# Rows are chosen before their texts are read from events.
LISTED_GATES = f"""
    {_GATES} WHERE gates.id IN (
        SELECT id FROM gates WHERE {_LISTED} ORDER BY {_LISTED_ORDER} LIMIT ?3
    )
    ORDER BY gates.status <> 'open', gates.opened_ns DESC, gates.id
"""  # noqa: S608 - All parts are constants.
# What a list of gates shows beside them; the cost is that of the loop at its opening.
FIGURES = f"""
    SELECT gates.id, coalesce(events.body ->> '$.service', ''),
        coalesce(events.body ->> '$.finding', ''), coalesce(events.body ->> '$.attempts', 0),
        coalesce(gates.finding ->> '$.cost.seconds', 0.0),
        coalesce(gates.finding ->> '$.cost.input_tokens', 0),
        coalesce(gates.finding ->> '$.cost.output_tokens', 0)
    FROM gates JOIN events ON events.id = gates.event
    WHERE gates.id IN (
        SELECT id FROM gates WHERE {_LISTED} ORDER BY {_LISTED_ORDER} LIMIT ?3
    )
"""  # noqa: S608 - All parts are constants.
COUNT_GATES = f"SELECT count(*) FROM gates WHERE {_LISTED}"  # noqa: S608
OPENING = "SELECT body FROM events JOIN gates ON event = events.id WHERE gates.id = ?"
OPENINGS = """
    SELECT gates.id, events.body FROM gates JOIN events ON events.id = gates.event
    WHERE gates.status = 'open' AND NOT EXISTS (
        SELECT 1 FROM resolutions WHERE gate = gates.id AND at_ns > gates.opened_ns
    )
"""
UNJUDGED = """
    SELECT gates.id FROM gates
    JOIN events ON events.id = gates.event
    LEFT JOIN opinions ON opinions.gate = gates.id
    LEFT JOIN resolutions ON resolutions.gate = gates.id AND resolutions.at_ns > gates.opened_ns
    WHERE gates.status = 'open' AND json_extract(events.body, '$.exact') = 0
        AND opinions.gate IS NULL AND resolutions.id IS NULL
    ORDER BY gates.opened_ns
"""
ADD_OPINION = "INSERT INTO opinions VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (gate) DO NOTHING"
OPINIONS = """
    SELECT gate, is_regressive, no_progress, is_external, reasoning, no_opinion FROM opinions
    WHERE ?1 IS NULL OR gate = ?1
"""
NOTES = """
    SELECT gates.id, gates.task, decision, note, resolved_ns, events.body
    FROM gates JOIN events ON events.id = gates.event
    WHERE gates.id IN (
        SELECT id FROM gates
        WHERE status = 'resolved' AND note <> '' AND decision IS NOT 'cancel'
        ORDER BY resolved_ns DESC, id LIMIT ?
    )
    ORDER BY resolved_ns DESC, gates.id
"""
