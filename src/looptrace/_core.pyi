"""The compiled core: what is the same, decided once for files and for live spans.

Texts are strings without half surrogate pairs. A fault of the core is a `RuntimeError` that costs
the call, never the process.
"""

from collections.abc import Mapping, Sequence, Set

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
