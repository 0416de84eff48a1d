"""The compiled core: what is the same, decided once for files and for live spans.

Texts are strings without half surrogate pairs. A fault of the core is a `RuntimeError` that costs
the call, never the process.
"""

from collections.abc import Mapping, Sequence, Set
from typing import TypeAlias

SOURCE: str
"""A hash of the core's code and tables, by which stored fingerprints are known to be of it."""

PATTERNS: Mapping[str, str]
"""Patterns of the core that columns are searched with, in the syntax of Rust's regex.

Arguments: `waits`, `looks_at_file`, `reads_by_command`, `searched`. Texts that were cut:
`cut_mark`, with the groups of the mark.
"""

EXTERNAL: tuple[str, ...]
"""The kinds of failure that the agent does not cause."""

VOLATILE_RESULT_KEYS: tuple[str, ...]
"""The keys whose values are new in every result, unless a team says otherwise."""

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

    def fingerprinted(self, columns: Sequence[list[object]]) -> tuple[list[object], ...]:
        """Return the columns that turns are compared by.

        Args:
            columns: of one length, in this order: kind, name, subtask, arguments, result, error,
                error_type, location, trace_hash, text, response, talks_on (texts), failed (bool),
                tests_failed, tests_total (int), coverage (float, percent). Each but the first may
                hold None.

        Returns:
            tests_failed, tests_total, coverage, failed, error_type, error, error_kind, location,
            trace_hash, call, outcome, signature, response, talks_on.

        Raises:
            ValueError: where columns are missing or differ in length.
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

def is_unfinished(result: str) -> bool:
    """Return whether a result says that what was looked at has not ended."""

def is_redacted(text: str) -> bool:
    """Return whether a text is the placeholder of a removed one."""

def says_nothing(error: str) -> bool:
    """Return whether a text only says that there was an error, for example after redaction."""

def answers_no(text: str) -> bool:
    """Return whether a text is the exit code 1 of a command and nothing else."""

def says_failed(result: str, tool: str | None, arguments: str | None) -> bool:
    """Return whether the result of a call says that it failed."""

def kind_of_failure(text: str) -> str | None:
    """Return the kind of a failure by its type or text; None where nothing but a fault is told."""

def type_of_failure(text: str) -> str | None:
    """Return the first type of error that a text names."""

Limits: TypeAlias = tuple[int | None, int | None, int | None]
"""How much of a request is read: spans, bytes of a span, levels of JSON in a span."""

class OverBoundsError(ValueError):
    """The request exceeds a bound; the text says which."""

class Spans:
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

    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the columns as a stream of Arrow (PyCapsule), without a copy of the texts."""

class LogRecords:
    """Decoded log records in columns, which leave as Arrow.

    The columns are time_ns and observed_ns as digits, event_name, body and attributes as JSON,
    trace_id and span_id in hex (texts), and the place of their source in `sources` (int).
    """

    sources: list[tuple[int, str | None]]
    """What records share: the place of their resource in `resources`, the name of their scope."""
    resources: list[str]
    """The attributes of the resources, as JSON."""

    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the columns as a stream of Arrow (PyCapsule), without a copy of the texts."""

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

def begins_protobuf(head: bytes) -> bool:
    """Return whether bytes begin like an export request: with non-empty ResourceSpans."""
