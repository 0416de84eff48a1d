"""The tables of a store's gates, and the connection of gates and outbox."""

import msgspec

from looptrace.analyzer.gates.incidents import identity_of
from looptrace.collector.store.locks import EVALUATE
from looptrace.collector.store.sqlite_file import Schema, SqliteFile
from looptrace.typed_json import decoded

_OUTBOX = (
    """
    CREATE TABLE outbox (
        event TEXT NOT NULL REFERENCES events (id),
        endpoint TEXT NOT NULL, -- name of the webhook
        created_ns INTEGER NOT NULL,
        next_try_ns INTEGER NOT NULL,
        tries INTEGER NOT NULL,
        error TEXT, -- of the last try
        dead_ns INTEGER, -- since when nothing is tried any more; null while something is
        PRIMARY KEY (event, endpoint)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX outbox_due ON outbox (endpoint, next_try_ns) WHERE dead_ns IS NULL",
    "CREATE INDEX outbox_dead ON outbox (endpoint, dead_ns) WHERE dead_ns IS NOT NULL",
    """
    CREATE TABLE endpoints (
        name TEXT PRIMARY KEY,
        delivered INTEGER NOT NULL DEFAULT 0, -- events
        dropped INTEGER NOT NULL DEFAULT 0, -- events that there was no room for
        failing_ns INTEGER, -- since when every try failed; null where the last one did not
        disabled_ns INTEGER,
        disabled_why TEXT
    ) STRICT
    """,
)
# The opinion of a judge on a gate: the three answers and the reason, or why there is none.
_OPINIONS = """
    CREATE TABLE opinions (
        gate TEXT PRIMARY KEY REFERENCES gates (id),
        at_ns INTEGER NOT NULL,
        is_regressive INTEGER,
        no_progress INTEGER,
        is_external INTEGER,
        reasoning TEXT,
        no_opinion TEXT
    ) STRICT
"""
# The tasks of sessions that several services share, by their other names.
_SESSION_NAMES = (
    """
    CREATE TABLE session_names (
        name TEXT PRIMARY KEY,
        task TEXT NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX session_names_of_task ON session_names (task)",
)
# The tasks that got another name, by their old ones.
_TASK_ALIASES = """
    CREATE TABLE task_aliases (
        name TEXT PRIMARY KEY,
        task TEXT NOT NULL
    ) STRICT, WITHOUT ROWID
"""
# Ids that another evaluation gave to an event or a gate that was known before.
_ALIASES = """
    CREATE TABLE aliases (
        id TEXT PRIMARY KEY,
        of TEXT NOT NULL
    ) STRICT, WITHOUT ROWID
"""
# How long an open gate has waited in a server's sight, and what was said meanwhile.
_WAITS = """
    CREATE TABLE waits (
        gate TEXT PRIMARY KEY REFERENCES gates (id),
        since_ns INTEGER NOT NULL,
        steps INTEGER NOT NULL, -- done: 1 for a reminder, 2 where it was passed on
        passed_to TEXT NOT NULL -- names of webhooks, as JSON
    ) STRICT, WITHOUT ROWID
"""
# What people said of an incident; its other facts are those of its gates.
_INCIDENTS = (
    """
    CREATE TABLE incident_words (
        incident TEXT NOT NULL,
        at_ns INTEGER NOT NULL,
        state TEXT, -- null where it stays
        until_ns INTEGER, -- the end of a mute
        owner TEXT, -- null where it stays
        who TEXT,
        why TEXT,
        PRIMARY KEY (incident, at_ns)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX gates_of_incident ON gates (incident, opened_ns)",
)
# Of what webhooks do not hear; an empty matcher matches every gate.
_SILENCES = (
    """
    CREATE TABLE silences (
        id TEXT PRIMARY KEY,
        rule TEXT NOT NULL,
        tool TEXT NOT NULL,
        agent TEXT NOT NULL,
        service TEXT NOT NULL,
        incident TEXT NOT NULL,
        made_ns INTEGER NOT NULL,
        ends_ns INTEGER NOT NULL,
        who TEXT,
        why TEXT NOT NULL
    ) STRICT
    """,
    # A silence, or an incident that is muted, holds the row back until its next try.
    "ALTER TABLE outbox ADD COLUMN silence TEXT",
    "CREATE INDEX outbox_silenced ON outbox (silence) WHERE silence NOT NULL",
    # What an endpoint that groups gates by incident was told, until all of these have ended.
    """
    CREATE TABLE pages (
        endpoint TEXT NOT NULL,
        gate TEXT NOT NULL REFERENCES gates (id), -- the first one, which names the page
        told_ns INTEGER NOT NULL, -- last
        PRIMARY KEY (endpoint, gate)
    ) STRICT, WITHOUT ROWID
    """,
)
# The log of deliveries, and the messages in chats that are edited when their gate ends.
_DELIVERIES = (
    """
    CREATE TABLE attempts (
        seq INTEGER PRIMARY KEY,
        endpoint TEXT NOT NULL,
        event TEXT NOT NULL REFERENCES events (id),
        at_ns INTEGER NOT NULL, -- when it ended
        status INTEGER, -- of HTTP; null where none came
        ms INTEGER NOT NULL,
        error TEXT NOT NULL -- empty where it was accepted
    ) STRICT
    """,
    "CREATE INDEX attempts_of_endpoint ON attempts (endpoint, at_ns)",
    "CREATE INDEX attempts_of_event ON attempts (event)",
    """
    CREATE TABLE chat_messages (
        endpoint TEXT NOT NULL,
        gate TEXT NOT NULL REFERENCES gates (id),
        message TEXT NOT NULL, -- the id that the chat gave it
        at_ns INTEGER NOT NULL,
        PRIMARY KEY (endpoint, gate)
    ) STRICT, WITHOUT ROWID
    """,
    # A person asked for the event once more, so that no grouping leaves it out.
    "ALTER TABLE outbox ADD COLUMN is_resent INTEGER NOT NULL DEFAULT 0",
)
# A gate is shown with the person who resolved it, and with the newest notes of other gates.
_INDEXES_OF_GATES = (
    "CREATE INDEX resolutions_of_gate ON resolutions (gate, at_ns)",
    """
    CREATE INDEX gates_with_note ON gates (resolved_ns DESC, id)
    WHERE status = 'resolved' AND note <> '' AND decision IS NOT 'cancel'
    """,
)
# The spending of other servers from shared budgets: sums by the second, and additions.
_SPENT_ELSEWHERE = """
    CREATE TABLE spent_elsewhere (
        seq INTEGER PRIMARY KEY,
        server TEXT NOT NULL,
        at_ns INTEGER NOT NULL,
        session TEXT NOT NULL, -- it and the next four are "" where nothing was said
        user TEXT NOT NULL,
        agent TEXT NOT NULL,
        service TEXT NOT NULL,
        budget TEXT NOT NULL, -- to which a person added
        tokens INTEGER NOT NULL,
        money INTEGER NOT NULL, -- billionths
        added REAL,
        UNIQUE (server, at_ns, session, user, agent, service, budget)
    ) STRICT
"""
# No event is ever deleted, so that `seq` grows without AUTOINCREMENT, which would write for known
# events, too.
_TABLES = (
    """
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        type TEXT NOT NULL,
        task TEXT NOT NULL,
        agent TEXT NOT NULL,
        rule TEXT NOT NULL,
        finding TEXT NOT NULL,
        at_ns INTEGER NOT NULL,
        body TEXT NOT NULL -- the whole event as JSON
    ) STRICT
    """,
    "CREATE INDEX events_of_task ON events (task, seq)",
    """
    CREATE TABLE tasks (
        task TEXT PRIMARY KEY,
        status TEXT NOT NULL,
        pivot_count INTEGER NOT NULL,
        loop_count INTEGER NOT NULL,
        state TEXT NOT NULL, -- the whole state as JSON
        updated_ns INTEGER NOT NULL -- time of the last event
    ) STRICT
    """,
    """
    CREATE TABLE gates (
        id TEXT PRIMARY KEY,
        event TEXT NOT NULL UNIQUE REFERENCES events (id),
        task TEXT NOT NULL,
        rule TEXT NOT NULL,
        signature TEXT NOT NULL,
        why TEXT NOT NULL,
        loop_count INTEGER NOT NULL,
        opened_ns INTEGER NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('open', 'resolved', 'withdrawn')),
        resolved_ns INTEGER,
        decision TEXT,
        note TEXT,
        finding TEXT /* at the opening, as JSON; null where an earlier version opened it */,
        incident TEXT
    ) STRICT
    """,
    "CREATE UNIQUE INDEX open_gate_of_task ON gates (task) WHERE status = 'open'",
    "CREATE INDEX gates_by_signature ON gates (signature)",
    """
    CREATE TABLE pivots (
        event TEXT PRIMARY KEY REFERENCES events (id),
        task TEXT NOT NULL,
        pivot_count INTEGER NOT NULL,
        entropy_count INTEGER NOT NULL, -- attempts of its loop since the pivot before
        at_ns INTEGER NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE resolutions (
        id TEXT PRIMARY KEY,
        gate TEXT NOT NULL REFERENCES gates (id),
        at_ns INTEGER NOT NULL,
        decision TEXT NOT NULL,
        note TEXT,
        who TEXT, -- decided; null where nobody said
        added REAL, -- to a budget of several tasks; null for as much as its limit
        added_ns INTEGER -- when it was decided at another server, if it was
    ) STRICT
    """,
    *_INDEXES_OF_GATES,
    _OPINIONS,
    *_OUTBOX,
    *_SESSION_NAMES,
    _TASK_ALIASES,
    _ALIASES,
    _WAITS,
    *_INCIDENTS,
    *_SILENCES,
    *_DELIVERIES,
    _SPENT_ELSEWHERE,
)

# The statements that bring a file of a version to the next one.
_STEPS = {
    # The outbox had one row for each event, without an endpoint.
    1: ("DROP TABLE outbox", *_OUTBOX),
    2: ("ALTER TABLE gates ADD COLUMN finding TEXT",),
    # Loops no longer hold how many attempts a pivot has covered; the next detection counts again.
    3: (
        """
        UPDATE tasks SET state = json_set(state, '$.loops', (
            SELECT json_group_object(key, json_remove(value, '$.dealt_with'))
            FROM json_each(tasks.state, '$.loops')
        ))
        """,
    ),
    4: (_OPINIONS,),
    5: ("ALTER TABLE resolutions ADD COLUMN who TEXT",),
    6: _INDEXES_OF_GATES,
    7: _SESSION_NAMES,
    8: (_TASK_ALIASES, _ALIASES),
    9: (_WAITS,),
    10: (
        "ALTER TABLE gates ADD COLUMN incident TEXT",
        "UPDATE gates SET incident = (SELECT incident(body) FROM events WHERE id = gates.event)",
        *_INCIDENTS,
        *_SILENCES,
    ),
    11: (*_DELIVERIES, "ALTER TABLE resolutions ADD COLUMN added REAL"),
    12: (_SPENT_ELSEWHERE, "ALTER TABLE resolutions ADD COLUMN added_ns INTEGER"),
}


class _Opening(msgspec.Struct):
    """What tells the incident of a gate, in the body of its opening."""

    rule: str = ""
    tools: tuple[str, ...] = ()
    signature: str = ""
    agent: str = ""
    service: str = ""


def _incident(body: str) -> str:
    """Return the incident of a gate from the body of its opening, in SQL `incident(body)`."""
    it = decoded(body, _Opening)
    return identity_of(it.rule, it.tools, it.signature, it.agent, it.service).id


class GateFile(SqliteFile):
    """One connection to the file of a store's gates.

    Raises:
        StoreError: by every method, if the file cannot be used.
    """

    schema = Schema(
        application_id=0x6C6F6F70,  # "loop"
        version=13,
        tables=_TABLES,
        steps=_STEPS,
        functions={"incident": _incident},
        if_damaged=f"move it away, with its -wal and -shm, and to find the gates again, {EVALUATE}",
    )
