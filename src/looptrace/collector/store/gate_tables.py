"""The tables of a store's gates, and the connection that gates and outbox share."""

from __future__ import annotations

from looptrace.collector.store.sqlite_file import Schema, SqliteFile

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
        finding TEXT -- as it stood at the opening, as JSON; null where an earlier version opened it
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
        note TEXT
    ) STRICT
    """,
    *_OUTBOX,
)

# The statements that bring a file of a version to the next one.
_STEPS = {
    # The outbox had a row an event, and knew no endpoint that one could have been sent to.
    1: ("DROP TABLE outbox", *_OUTBOX),
    2: ("ALTER TABLE gates ADD COLUMN finding TEXT",),
    # Loops no longer hold how many attempts a pivot has dealt with; the next judging counts anew.
    3: (
        """
        UPDATE tasks SET state = json_set(state, '$.loops', (
            SELECT json_group_object(key, json_remove(value, '$.dealt_with'))
            FROM json_each(tasks.state, '$.loops')
        ))
        """,
    ),
}

GATES = Schema(
    application_id=0x6C6F6F70,  # "loop"
    version=4,
    tables=_TABLES,
    steps=_STEPS,
    if_damaged="move it away: the next ingest finds the gates anew, without what people decided",
)


class GateFile(SqliteFile):
    """One connection to the file of a store's gates."""

    schema = GATES
