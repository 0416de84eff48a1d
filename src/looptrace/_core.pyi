"""The compiled core: what is the same, decided once for files and for live spans.

Texts are strings without half surrogate pairs. A fault of the core is a `RuntimeError` that costs
the call, never the process.
"""

from collections.abc import Mapping, Sequence, Set
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

    def fingerprint(self, turn: tuple[object, ...]) -> tuple[object, ...]:
        """Return what one turn is compared by: the values, and the order, of `fingerprinted`."""

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
    ) -> None:
        """Compile settings.

        Args:
            seconds: idle_s, poll_wait_s, pending_wait_s, run_pause_s, run_rest_s.
            messages: which are a person's: new, all or none.
            messages_kept: the last different messages with which a new one is compared.
            by_decision: whether messages resolve no gate.
            converging: phases, their metrics, and for an author's own: lower or higher.

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

class TaskCounts:
    """The counts of one task up to a turn, which can be pickled."""

    def copy(self) -> TaskCounts:
        """Return a copy that is counted on separately."""

    def count(self, turn: tuple[object, ...], order_ns: int, how: Counting) -> CountedTurn:
        """Count the next turn, by its fields (`COUNTED_FROM`) and its place in the order."""

    def settle(self) -> None:
        """Forget what is only needed for turns that may still move."""

class CountedTurn:
    """A turn with its codes, marks and counts; the columns of `rules/turns.py`, and these."""

    busy_ns: int
    check: int
    chant_times: int
    compacted: int
    cut: int
    end_ns: int
    epoch: int
    errors: int
    iteration: int
    kind: int
    measured: int
    outcome: int
    overdue_ns: int
    reminded: int
    resets_seen: int
    reset: int
    speaker: int
    steps: int
    talks_on: int
    transitions_seen: int
    tries_since_progress: int
    turn: int
    turns_since_best: int
    visits: int
    input_tokens_sum: int
    input_tokens_total: int
    output_tokens_sum: int
    output_tokens_total: int
    enters: bool
    external: bool
    failed: bool
    silent: bool
    twin: bool
    twin_external: bool
    twin_failure: bool
    twin_search: bool
    twin_signature: bool
    phase_before_text: str | None

    def numbers(self) -> bytes:
        """Return the columns that rules see, in `ROW_BYTES`."""

    def compare_with(self, numbers: bytearray) -> None:
        """Compare the turn with all turns of these numbers but the last, which is itself.

        Unknown codes are compared, too: `again` leaves them out.
        """

    def again(self, *columns: str) -> bool:
        """Return whether an earlier turn is known to equal this one in all these columns."""

def code_of(text: str) -> int:
    """Return the code that a text has in every column of codes."""

def chant_of(text: str) -> tuple[int, int]:
    """Return how often a text says its last words in a row, and how many characters these are."""

def is_brief(answer: str | None) -> bool:
    """Return whether an answer is a sentence or two, without code."""

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

    def ties(
        self, attributes: Sequence[str], events: Sequence[str]
    ) -> list[tuple[str | None, str | None, str | None, str | None]]:
        """Return session, task, task above it and connection of spans, given their JSON."""

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
