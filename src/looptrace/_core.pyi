"""The compiled core: what is the same, decided once for files and for live spans.

Texts are strings without half surrogate pairs. A fault of the core is a `RuntimeError` that costs
the call, never the process.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Protocol, TypeAlias

from looptrace.analyzer.schema.span_fields import SpanFields
from looptrace.analyzer.schema.spans import SpanRow

SOURCE: str
"""A hash of the core's code and tables, by which stored fingerprints are known to be of it."""

PATTERNS: Mapping[str, str]
"""Patterns of the core that columns are searched with, in the syntax of Rust's regex.

`searched` is what a search asks for, in its arguments.
"""

EXTERNAL: tuple[str, ...]
"""The kinds of failure that the agent does not cause."""

VOLATILE_RESULT_KEYS: tuple[str, ...]
"""The keys whose values are new in every result, unless a team says otherwise."""

class ArrowStream(Protocol):
    """A table that gives its columns as a stream of Arrow, such as a frame of Polars."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream (PyCapsule)."""

class Table:
    """Columns of one length, which leave as Arrow."""

    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the columns as a stream of Arrow (PyCapsule), without a copy of the texts."""

class Policy:
    """The declarations of a team, compiled once."""

    def __init__(
        self,
        tools: Mapping[str, tuple[Sequence[str], Sequence[str], bool]],
        masks: Sequence[tuple[str, str]],
        volatile_keys: Set[str],
        telling_keys: Set[str],
    ) -> None:
        """Compile `Tool` by name, patterns and their placeholders, and the keys of results.

        Raises:
            ValueError: where a pattern is refused.
        """

    def fingerprinted(self, turns: ArrowStream) -> Table:
        """Return the columns that turns are compared by.

        Args:
            turns: kind, name, subtask, arguments, result, error, error_type, location, trace_hash,
                text, response, talks_on (texts), failed (bool), tests_failed, tests_total (int),
                coverage (float, percent).

        Returns:
            tests_failed, tests_total, coverage, failed, error_type, error, error_kind, location,
            trace_hash, call, outcome, signature, response, talks_on.

        Raises:
            TypeError: where a column has another type.
            ValueError: where a column is missing.
        """

    def masked(self, text: str, *, error: bool = False) -> str:
        """Return a text without its volatile parts; of an error also without its places."""

    def answer(self, result: str, *, counters: bool = True) -> str:
        """Return a result as it is compared; with `counters`, without counts of calls."""

    def prompt_words(self, text: str) -> str | None:
        """Return the words of a message, without volatile parts and numbers; None without words."""

def figures(text: str) -> tuple[int | None, int | None, float | None]:
    """Return failed tests, all tests, and percent covered, as the text of a run tells them."""

def failed_tests(text: str) -> tuple[str | None, str | None]:
    """Return the file and the names (sorted, joined with commas) of failed tests in a text."""

def pattern_fault(pattern: str) -> str | None:
    """Return why a pattern of a mask is refused; None for a good one."""

def matches_nothing(pattern: str) -> bool:
    """Return whether a good pattern matches an empty text."""

def changes(tool: str) -> bool:
    """Return whether a tool changes something, by its name."""

def searches(tool: str) -> bool:
    """Return whether a tool searches, by its name."""

def reads(tool: str) -> bool:
    """Return whether a tool only looks at something, by its name."""

def pauses(tool: str) -> bool:
    """Return whether a tool does nothing but wait, by its name."""

def watches(tool: str) -> bool:
    """Return whether a tool looks again at something that goes on, by its name."""

def makes(tool: str | None, arguments: str | None) -> bool:
    """Return whether a call sends or makes something."""

def is_redacted(text: str) -> bool:
    """Return whether a text is the placeholder of a removed one."""

def says_nothing(error: str) -> bool:
    """Return whether a text only says that there was an error, for example after redaction."""

def says_failed(result: str, tool: str | None, arguments: str | None) -> bool:
    """Return whether the result of a call says that it failed."""

def kind_of_failure(text: str) -> str | None:
    """Return the kind of a failure by its type or text; None where nothing but a fault is told."""

def type_of_failure(text: str) -> str | None:
    """Return the first type of error that a text names."""

CUT_OFF: str
"""The problem of a JSON document whose end is missing."""

Limits: TypeAlias = tuple[int | None, int | None, int | None]
"""How much of a request is read: spans, bytes of a span, levels of JSON in a span."""

class OverBoundsError(ValueError):
    """The request exceeds a bound; the text says which."""

class UndecodableError(ValueError):
    """The text is not an export request; the text says why."""

class Spans(Table):
    """Decoded spans in columns (`SPAN_SCHEMA`), which leave as Arrow, and what is wrong."""

    problems: list[tuple[str, str, bool, bool]]
    """Parts that could not be read: where, why, whether it is no OTLP, whether it is one span."""
    cut: list[int]
    """Attributes lost by each span that lost any."""
    logged: int
    """How many are no spans but events of log records."""
    size: int
    """The bytes that they take in memory."""

    @staticmethod
    def joined(every: Sequence[Spans]) -> Spans:
        """Return the spans of some after each other, without what is wrong."""

class LogRecords(Table):
    """Decoded log records in columns, which leave as Arrow.

    The columns are time_ns and observed_ns as digits, event_name, body and attributes as JSON,
    trace_id and span_id in hex, fault as words or None (texts), and the place of their source in
    `sources` (int).
    """

    sources: list[tuple[int, str | None]]
    """What records share: the place of their resource in `resources`, the name of their scope."""
    resources: list[str]
    """The attributes of the resources, as JSON."""

def decode_protobuf(
    data: bytes,
    place: str,
    *,
    piece: tuple[int, int, int] | None = None,
    is_whole: bool = True,
    limits: Limits | None = None,
) -> Spans:
    """Return the spans of a request, without the interpreter's lock; bad data raises nothing.

    Args:
        data: the request.
        place: the name of the source, for problems.
        piece: the part of it that is read, as `protobuf_pieces` gives it.
        is_whole: whether it ends as it should; of one that does not, somebody else tells so.
        limits: how much is read; None for all.

    Raises:
        OverBoundsError: where it exceeds a limit.
    """

def decode_protobuf_logs(data: bytes, *, limits: Limits | None = None) -> LogRecords | None:
    """Return the records of a request of logs; None where it cannot be decoded.

    Raises:
        OverBoundsError: where it exceeds a limit.
    """

def protobuf_pieces(data: bytes, bytes_min: int) -> list[tuple[int, int, int]]:
    """Cut a request between its ResourceSpans into pieces of `bytes_min` bytes or some more.

    Returns:
        For each the first byte, the byte after the last, and the number of the first
        ResourceSpans. A request that is no protobuf is one piece.
    """

def decode_json(data: bytes, place: str, *, limits: Limits | None = None) -> Spans:
    """Return the spans of a complete request in JSON, without the interpreter's lock.

    Raises:
        UndecodableError: where it is no export request.
        OverBoundsError: where it exceeds a limit.
    """

def decode_json_document(data: bytes, name: str, line: int, *, problem: str | None = None) -> Spans:
    """Return the spans of a document, one request or an array of requests, as far as it is JSON.

    Bad data raises nothing. `line` is the number of its first line in the source `name`, and
    `problem` says why its end is missing, where it is known.
    """

def decode_json_logs(data: bytes, *, limits: Limits | None = None) -> LogRecords:
    """Return the records of a request of logs in JSON.

    Raises:
        UndecodableError: where it is no export request.
        OverBoundsError: where it exceeds a limit.
    """

def begins_json(head: bytes) -> bool:
    """Return whether a text begins as a JSON object or array does."""

def with_whole_escapes(data: bytes) -> bytes:
    r"""Return JSON with U+FFFD for each half of a surrogate pair (`\ud83d`).

    JavaScript writes them where it cuts a string in the middle of an emoji; no reader takes them.
    """

def begins_protobuf(head: bytes) -> bool:
    """Return whether bytes begin like an export request: with non-empty ResourceSpans."""

COLUMNS: tuple[tuple[str, str], ...]
"""The columns of counted turns, in order: names, and formats as `struct` has them."""

COLUMNS_SEEN: int
"""How many of them, from the first on, rules see."""

ROW_BYTES: int
"""The size of the numbers of one turn: the columns that rules see, and padding."""

PLACES: Mapping[str, Sequence[str]]
"""The names of kinds, statuses, cuts, speakers and resets; but for kinds, places count from 1."""

COUNTED_FROM: tuple[str, ...]
"""The columns of turns (`TURN_SCHEMA`) that codes, marks and counts are made from, in order."""

class Counting:
    """How to count, compiled once."""

    def __init__(
        self,
        seconds: Sequence[int],
        messages: str,
        messages_kept: int,
        by_decision: bool,
        converging: Sequence[tuple[str, str, str | None]],
        price_of: Callable[[str, str], tuple[float, float, float, float, float] | None]
        | None = None,
    ) -> None:
        """Compile settings.

        Args:
            seconds: idle_s, poll_wait_s, pending_wait_s, run_pause_s, run_rest_s.
            messages: which are a person's: new, all or none.
            messages_kept: the last different messages with which a new one is compared.
            by_decision: whether messages resolve no gate.
            converging: phases, their metrics, and for an author's own: lower or higher.
            price_of: the prices of a million tokens of a model in a tier of the service, "" if
                none is said, as `Prices.by_kind` has them; it is asked once for each.

        Raises:
            ValueError: where a word is none of these.
        """

    def counted(self, turns: ArrowStream) -> Table:
        """Return `COLUMNS` of ordered turns of whole tasks.

        The phase before, the speaker and the reset are there as names too, with `_text`.

        Args:
            turns: task, and `COUNTED_FROM`.

        Raises:
            TypeError: where a column has another type.
            ValueError: where a column is missing.
        """

    def asked(self, turns: ArrowStream, needs: Needs, tasks: Set[str]) -> tuple[Table, set[int]]:
        """Return these columns of the tasks in which a rule may fire, and of other tasks.

        Args:
            turns: as for `counted`.
            needs: what the rules need.
            tasks: the names of the other tasks.

        Returns:
            The columns, with the `place` of each turn, and the places of the rules that may fire.

        Raises:
            TypeError: where a column has another type.
            ValueError: where a column is missing.
        """

class Needs:
    """What rules need of a turn to fire at it, and the lanes that they look back on."""

    def __init__(
        self,
        lanes: Sequence[tuple[Sequence[str], str | None, str, Sequence[str], str, int]],
        bounds: Sequence[tuple[int, int, Sequence[Sequence[tuple[str, Sequence[str], int]]], int]],
    ) -> None:
        """Compile rules.

        Args:
            lanes: of each the kinds, the column that each has a lane of (None for the task), the
                mark of turns left out, the columns that a turn must have, the column that ends it
                where it changes, and on how many turns a result depends.
            bounds: of each form the place of its rule and of its lane, the ways in which it may
                fire: tests (again, has, reaches), their columns, and the least value; and how long
                (ns) a turn or a pause is at least at which it may.

        Raises:
            ValueError: where a name is none of a column, or a test is none.
        """

class LiveWatch:
    """How the turns of live tasks are counted, held and asked about, compiled once."""

    def __init__(
        self,
        counting: Counting,
        names: tuple[Sequence[str], Sequence[str], Sequence[str]],
        needs: Needs,
        limits: tuple[int, ...],
    ) -> None:
        """Compile settings and rules.

        Args:
            counting: how to count.
            names: the columns of a turn, those of them that loops keep, and the kinds of turn with
                outputs that rules read.
            needs: what the rules need.
            limits: horizon, spread of steps, and what is long (ns); turns that may move, steps,
                failures and traces kept, and turns that are settled at once.

        Raises:
            ValueError: where a name is none of a column.
        """

    def take(
        self,
        turns: Sequence[tuple[object, ...]] | ArrowStream,
        names: Sequence[str],
        held: Sequence[LiveTurns],
        gone: Sequence[tuple[int, tuple[str | None, ...]]],
        watched: Sequence[int],
    ) -> list[tuple[int, int, bool, int | None, int, int]]:
        """Let tasks take turns, drop those that are gone, and count what follows.

        Where nothing happens, a calm task settles what can no longer move.

        Args:
            turns: the new turns of all of them.
            names: of the tasks.
            held: their turns.
            gone: places of tasks, and turns that they no longer have.
            watched: places of tasks of which there are always news.

        Returns:
            The news of tasks at which something may have happened, or that are to settle turns: its
            place, how many turns came too late, whether one that is gone is not held or settled,
            and the place of the first that is not as it was, among those that may move; None if
            nothing happens. Then how many of these there were, and how many can no longer move.

        Raises:
            ValueError: where a turn is of none of these tasks.
        """

class LiveTurns:
    """The turns that are held of one task, in order; the settled ones come first."""

    settled: int
    """How many are settled."""
    is_calm: bool
    """Whether nothing is known to have happened at those that may move."""
    traces: list[str]
    """The first traces with turns here."""

    def __len__(self) -> int: ...
    def settled_ns(self, watch: LiveWatch) -> int:
        """Return the time before which turns that end come too late."""

    def rest(self) -> None:
        """Hold the turns in fewer bytes until the next ones come, or may move."""

    def may_move(self, keys: Sequence[tuple[str | None, ...]], watch: LiveWatch) -> bool:
        """Return whether all turns of these keys (`TURN_KEY`) are held and may move."""

    def look(self, begin: int, watch: LiveWatch) -> tuple[list[int], list[tuple[int, str]]]:
        """Return what happens from a turn on that may move.

        Returns:
            The places of rules that may fire, and the places of resets among all turns, and their
            reasons.
        """

    def numbers(self, begin: int) -> bytes:
        """Return the columns that rules see, in `ROW_BYTES` for each turn from one on."""

    def texts(self, begin: int) -> list[str | None]:
        """Return the outputs that rules read, of each turn from one on."""

    def evidence(self, at: int) -> tuple[object, ...]:
        """Return what loops keep of the turn at a place among all, and what was counted at it.

        These are epoch, resets_seen, turn, tokens of its agent given and written, tokens of its
        task given and written, and phase_before.
        """

    def settled_whole(self, count: int) -> int:
        """Return how many of the first turns may be settled of so many, with steps as a whole."""

    def settle(self, count: int, watch: LiveWatch) -> tuple[int, int]:
        """Settle the first turns; return epoch and resets_seen of the last of them."""

def code_of(text: str) -> int:
    """Return the code that a text has in every column of codes."""

def chant_of(text: str) -> tuple[int, int]:
    """Return how often a text says its last words in a row, and how many characters these are."""

def round_words(text: str) -> str | None:
    """Return a message without ids and numbers of rounds; None if it has few words."""

class FieldReader:
    """Reads spans by the table of dialects, compiled once.

    It remembers the last histories of some conversations, so that a message that each request
    repeats is read once and is one object.
    """

    def __init__(self, own: str | None = None, *, table: str | None = None) -> None:
        """Read by a table in TOML, the shipped one unless another is given.

        `own` are the keys of a user, which are asked first: a dialect with name, kinds and fields,
        as JSON.

        Raises:
            ValueError: where the table is none, or names a field or a kind that does not exist.
        """

    def fields(self, rows: Sequence[SpanRow]) -> list[SpanFields]:
        """Return the fields of each span, whose columns are those of `SPAN_SCHEMA`."""

    def ties(self, spans: ArrowStream) -> Table:
        """Return `session`, `task` and `task_parent` of spans, without the interpreter's lock.

        A connection may be the session of a trace that begins with it.

        Args:
            spans: the columns `parent_span_id`, `attributes` and `events` of `SPAN_SCHEMA`.
        """

    def reading(self, row: SpanRow) -> tuple[int | None, list[tuple[str, str, str]], list[str]]:
        """Return what a span is read as.

        First the number of the row of `DialectTable.rows` that says what it is; then each field
        with its key and its value as text; then the attributes that no field is read from.
        """

def call_in_event(events: str) -> tuple[str | None, str | None, bool | None]:
    """Return a call's arguments and result in events (JSON), and whether that says it failed."""

def arguments_of(text: str) -> str | None:
    """Return a call's arguments in canonical form, without the wrappers of frameworks."""

def result_of(text: str) -> tuple[str | None, bool | None]:
    """Return a call's result without wrappers, and whether it says that the call failed."""

def spoken(
    role: str, texts: list[str]
) -> tuple[list[tuple[str, str | None]], list[str | None], list[str]]:
    """Return a message's calls (name, arguments), results and other texts, all from its texts."""

ANCESTORS_MAX: int
"""The spans above a span that are asked for what it inherits."""

Shapes: TypeAlias = list[tuple[tuple[str | None, str, list[str], bool], int]]
"""Shapes (scope, name, keys, whether a dialect knows them) and their spans, the most first."""

Seen: TypeAlias = tuple[tuple[int, int, int, int, int, int, int], Shapes, Shapes]
"""How much was understood.

First turns, parts, agents, structure, unread (spans), incomplete (traces), differing (tokens); then
the shapes of spans that were not understood, and of the other ones without a turn.
"""

def turns_of(
    spans: ArrowStream, reader: FieldReader, policy: Policy, join_services: bool, threads: int
) -> tuple[Table, list[tuple[str, str]], Seen]:
    """Make the turns of whole traces, without the interpreter's lock.

    Args:
        spans: the columns of `SPAN_SCHEMA`.
        reader: how the spans are read.
        policy: how the turns are compared.
        join_services: whether services share the ids of their sessions.
        threads: how many threads share the work; the turns are the same.

    Returns:
        The turns, neither ordered nor numbered, in the columns of `TURN_SCHEMA` but for `turn` and
        `order_ns`; traces and spans whose parents form a circle; and how much was understood.

    Raises:
        TypeError: where a column holds something else.
        ValueError: where a column is missing.
    """

_Key: TypeAlias = tuple[str | None, ...]
_Move: TypeAlias = tuple[str, str, str, list[_Key], int, bool]
News: TypeAlias = tuple[list[tuple[object, ...]], list[tuple[str, _Key]], list[_Move]]
"""New turns, turns that are gone with the task that had them, and moves between tasks."""

class Buffer:
    """The traces at work: spans in as they arrive, turns out that are new, changed or gone.

    `may_move` is called with the moves that spans bring, and returns which of them may be made.
    """

    dropped: int
    """The traces that went to make room for others."""

    def __init__(
        self,
        reader: FieldReader,
        policy: Policy,
        join_services: bool,
        columns: Sequence[str],
        chars_max: int,
    ) -> None:
        """Hold spans of at most `chars_max` characters; `columns` are those of a turn, in order."""

    def __len__(self) -> int: ...
    def take(self, spans: Sequence[SpanRow], above: Sequence[SpanRow], may_move: _Consent) -> News:
        """Take spans that ended; those `above` are open and only give what the others inherit."""

    def rest(self, may_move: _Consent) -> News:
        """Return the turns that waited for spans that will no longer come."""

    def again(self, names: Sequence[str], may_move: _Consent) -> News:
        """Return the turns of held traces as if all of them were news."""

    def holds(self, names: Sequence[str]) -> bool:
        """Return whether all spans of these traces are held, and are few enough to tell again."""

    def understood(self) -> Seen:
        """Return how much of the spans was understood, of those so far."""

    def join(self, names: Mapping[str, str]) -> None:
        """Learn the names of sessions that several services share, by their other names."""

    def joined(self) -> list[tuple[str, str]]:
        """Return these names, each after the other one."""

    def take_joined_anew(self) -> dict[str, str]:
        """Return those that came since the last call."""

_Consent: TypeAlias = Callable[[list[_Move]], Sequence[bool]]
