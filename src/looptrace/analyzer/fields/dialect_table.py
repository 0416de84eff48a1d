"""The table of dialects: what a span is, and which attributes its fields stand in (dialects.toml).

At run time this module imports only the standard library and `bounded_dict`, because an agent's
process uses it too.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from looptrace.bounded_dict import BoundedDict

if TYPE_CHECKING:
    from looptrace.analyzer.schema.span_fields import SpanKind

# Fields that a dialect may have keys for, and what they mean.
FIELDS = {
    "task": "Id of the task.",
    "task_parent": "Id of the task above it.",
    "task_kind": "Kind of the task, in its author's word.",
    "phase": "Phase of the task.",
    "phase_start_ns": "Its start, in nanoseconds since 1970.",
    "iteration": "Number or name of a round of the task.",
    "status": "How an attempt ended: done, blocked and the like.",
    "blockers": "What blocks the attempt.",
    "completed_work": "What the attempt completed.",
    "tests_failed": "Failed tests.",
    "tests_total": "All tests.",
    "coverage": "Coverage of the code by tests, in percent.",
    "files_created": "New files.",
    "dependencies_added": "New dependencies.",
    "code_written": "New code.",
    "session": "Id of the session or conversation.",
    "payer": "Id of the session whose budget pays, if it is that of a caller.",
    "connection": "Id of a connection: the session of a trace that has no other.",
    "user_id": "Id of the agent's user.",
    "agent": "Name of the agent.",
    "tool": "Name of the tool.",
    "model": "Name of the model.",
    "call_id": "Id of a call, to find its result.",
    "arguments": "Arguments of a call.",
    "result": "Result of a call.",
    "error_type": "Type of a failure; a call with one failed.",
    "error": "Message of a failure; alone it does not say that the call failed.",
    "level": "Level of the span; one such as `error` says that it failed.",
    "is_error": "Whether the call failed.",
    "success": "Whether the call succeeded.",
    "given": "Messages to the model.",
    "answer": "Messages or text from the model.",
    "answer_calls": "Calls beside the model's answer.",
    "finish_reason": "Why the model stopped.",
    "service_tier": "Tier of the service that answered, such as batch or flex.",
    "compacted": "Whether the conversation was compacted before.",
    "input_tokens": "All tokens of the input.",
    "output_tokens": "All tokens of the output.",
    "cached_tokens": "Input tokens from a cache.",
    "cache_write_tokens": "Input tokens put into a cache.",
    "reasoning_tokens": "Output tokens of thought.",
    "total_tokens": "Tokens of input and output together.",
    "differing_tokens": "Tokens of a run less those of its responses.",
}
# What a producer may write.
WRITTEN = ("calls", "results", "messages", "tokens", "errors", "session", "agent")
# A span of this kind is known, and no turn by itself.
STRUCTURE = "structure"
# A span of this kind is no turn, whatever other dialects say.
FRAME = "frame"
# A call if no known span lies within it, else structure.
STEP = "step"
# A span of this kind only tells more about the call around it, whatever other dialects say.
PART = "part"
# A response, also where its producer writes nothing of an answer.
REQUEST = "request"
KINDS = ("tool", "model", REQUEST, "agent", STEP, STRUCTURE, FRAME, PART)
# What a producer counts in another way: parts beside their whole, or each response of a run with
# those before it.
WHOLES = ("input", "output", "run")
# The dialect of a user's own keys, and the kinds of spans that a name makes them.
OWN = "own"
_NAMED = ("tool", "model")
# Names of spans and scopes whose match with a pattern is kept. Names may hold ids.
_NAMES_KEPT = 4_096

# The kind of a span, and the dialect that names it. Known spans that are no turns have no kind.
Said: TypeAlias = "tuple[SpanKind | None, str]"
UNKNOWN: Said = (None, "")


@dataclass(frozen=True, slots=True)
class KindRow:
    """A row of `kinds`: a span for which all conditions hold is of this kind."""

    kind: str  # of `KINDS`, or of `WHOLES`
    key: str = ""  # an attribute that is there
    part: str = ""  # of its JSON object, if it is one
    values: tuple[str, ...] = ()  # patterns of the attribute or the part; none if any may be
    name: tuple[str, ...] = ()  # patterns of the span's name, as in shells
    scope: tuple[str, ...] = ()  # patterns of its instrumentation scope
    lacks: str = ""  # an attribute that is not there
    lone: bool = False  # structure instead, where a known span lies within it

    @property
    def condition(self) -> str:
        """The conditions in words."""
        key = f"{self.key}#{self.part}" if self.part else self.key
        of_key = [f"`{key}`" + (f" = {_words(self.values)}" if self.values else "")]
        patterns = (("name", self.name), ("scope", self.scope))
        of_names = [f"{name} {_words(given)}" for name, given in patterns if given]
        lacks = [f"no `{self.lacks}`"] if self.lacks else []
        return ", ".join((of_key if key else []) + lacks + of_names)

    @property
    def given(self) -> dict[str, Any]:
        """The row as a table has it, without what it does not have."""
        key = f"{self.key}#{self.part}" if self.part else self.key
        texts = {"kind": self.kind, "key": key, "name": self.name, "scope": self.scope}
        plain = {k: v[0] if isinstance(v, tuple) and len(v) == 1 else v for k, v in texts.items()}
        return {k: v for k, v in plain.items() if v} | ({"is": self.values} if self.values else {})

    def is_named(self, name: str, scope: str | None) -> bool:
        """Return whether the conditions on the span's name and scope hold."""
        return _fits(name, self.name) and _fits(scope or "", self.scope)

    def fits(self, attributes: Mapping[str, Any]) -> bool:
        """Return whether the condition on the attributes holds."""
        if self.lacks in attributes:
            return False
        if not self.key:
            return True
        value = attributes.get(self.key)
        value = _part(value, self.part) if self.part else value
        return value is not None and value != "" and _fits(str(value), self.values)


_Rows: TypeAlias = "list[tuple[KindRow, str]]"  # each with its dialect


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the spans of a producer say what they are, and the keys of each field."""

    name: str
    producer: str = ""
    version: str = ""  # that was read
    source: tuple[str, ...] = ()  # where the keys were looked up
    kinds: tuple[KindRow, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named_by_span: bool = False  # an agent has the name of its span
    name_prefixes: tuple[str, ...] = ()  # are written around names in names of spans
    name_suffixes: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()  # of `WRITTEN`, what a trace of it shows; its example has it all
    unread: tuple[str, ...] = ()  # of `WRITTEN`, what it writes and looptrace does not read
    beside: tuple[KindRow, ...] = ()  # how usage is counted, of `WHOLES`
    own_keys: bool = False  # its keys are common words, and are read from its own spans alone
    common: bool = False  # programs write such spans also within calls
    # What stands for an agent's name and is none, with the one scope that writes it, if there is.
    nobody: tuple[Mapping[str, str], ...] = ()
    no_session: tuple[str, ...] = ()  # patterns of what stands for a session and is none


class DialectTable:
    """Dialects in the order in which they are asked, with what follows from them.

    The shipped ones are read when they are asked for: the compiled core has its own.
    """

    def __init__(self, own: Dialect | None = None) -> None:
        """Ask the user's own keys first, if there are some, and then the shipped dialects."""
        self.own = own
        self._relevant: BoundedDict[tuple[tuple[str, ...], str, str | None], _Rows]
        self._relevant = BoundedDict(_NAMES_KEPT)

    @cached_property
    def dialects(self) -> tuple[Dialect, ...]:
        """The dialects in their order."""
        return _shipped() if self.own is None else (self.own, *_shipped())

    @cached_property
    def rows(self) -> _Rows:
        """What spans are, each with its dialect."""
        return [(row, dialect.name) for dialect in self.dialects for row in dialect.kinds]

    @cached_property
    def markers(self) -> frozenset[str]:
        """The attributes that say what a span is."""
        return frozenset(row.key for row, _ in self.rows if row.key)

    @cached_property
    def named_by_span(self) -> frozenset[str]:
        """The dialects in which an agent has the name of its span."""
        return frozenset(d.name for d in self.dialects if d.named_by_span)

    def __repr__(self) -> str:
        """Return the user's own keys; the others belong to the code."""
        return f"DialectTable({self.own})"

    def __eq__(self, other: object) -> bool:
        """Return whether the other table has the same dialects."""
        return isinstance(other, DialectTable) and self.own == other.own

    def __hash__(self) -> int:
        """Return a hash: a process has few tables."""
        return hash(self.own is None)

    def with_own(
        self, kinds: Iterable[KindRow], fields: Mapping[str, tuple[str, ...]]
    ) -> DialectTable:
        """Return the table with a user's own keys, which are asked first.

        A span with an own key for the name of a tool or a model is one, unless a row says more.
        """
        return DialectTable(Dialect(OWN, kinds=(*kinds, *rows_of_names(fields)), fields=fields))

    def kind_of(self, attributes: Mapping[str, Any], name: str, scope: str | None) -> Said:
        """Return the kind of a span and the dialect that names it; `UNKNOWN` if none does."""
        row, dialect = _first(self._rows_for(tuple(attributes), name, scope), attributes)
        return _kind(row), dialect

    def _rows_for(self, keys: tuple[str, ...], name: str, scope: str | None) -> _Rows:
        """Return the rows that spans with these attributes, name and scope may fit."""
        asked = (keys, name, scope)
        if (rows := self._relevant.get(asked)) is None:
            present = {"", *keys}
            rows = [
                (row, dialect)
                for row, dialect in self.rows
                if row.key in present and row.is_named(name, scope)
            ]
            self._relevant[asked] = rows
        return rows

    def name_in(self, span_name: str) -> str:
        """Return the name of the tool or the agent in the name of its span."""
        return self._name_extras.sub("", span_name)

    def keys_of(self, name: str) -> tuple[str, ...]:
        """Return the keys of a field, in every dialect."""
        return tuple(chain.from_iterable(d.fields.get(name, ()) for d in self.dialects))

    @cached_property
    def _name_extras(self) -> re.Pattern[str]:
        before = "|".join(_regex(text) for d in self.dialects for text in d.name_prefixes)
        after = "|".join(_regex(text) for d in self.dialects for text in d.name_suffixes)
        return re.compile(f"^(?i:{before})|(?:{after})$")


def rows_of_names(fields: Mapping[str, tuple[str, ...]]) -> tuple[KindRow, ...]:
    """Return the rows by which a span is what it names: a tool, a model."""
    return tuple(KindRow(kind, key) for kind in _NAMED for key in fields.get(kind, ()))


def split(key: str) -> tuple[str, str | None]:
    """Split a key into an attribute (or a prefix of flat keys, with `*` or `**`) and its part."""
    attribute, _, part = key.partition("#")
    if not part and key.endswith("*"):
        return key.rstrip("*"), "*"
    return attribute, part or None


def _regex(text: str) -> str:
    """Return what stands around a name as a regular expression; `*` stands for any text."""
    return re.escape(text).replace(r"\*", ".*")


def _first(rows: _Rows, attributes: Mapping[str, Any]) -> tuple[KindRow | None, str]:
    """Return the first row of a turn or an agent, else the first of structure, and its dialect.

    A dialect says what a span is by its first row that fits.
    """
    structure: tuple[KindRow | None, str] = (None, "")
    settled: set[str] = set()  # dialects that have said it
    for row, dialect in rows:
        if dialect in settled or not row.fits(attributes):
            continue
        if row.kind != STRUCTURE:
            return row, dialect
        settled.add(dialect)
        structure = structure if structure[0] else (row, dialect)
    return structure


def _kind(row: KindRow | None) -> SpanKind | None:
    if row is None or row.kind in (STRUCTURE, FRAME):
        return None
    kind = "model" if row.kind == REQUEST else row.kind
    return cast("SpanKind", STEP if row.lone else kind)


def _part(value: object, path: str) -> object:
    """Return a part of a JSON object, at the end of names with dots; None if there is none."""
    names = path.split(".")
    if isinstance(value, str) and names[0] in value:
        try:
            value = json.loads(value)
        except ValueError:
            return None
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def kind_row(given: Mapping[str, Any], kinds: Sequence[str] = KINDS) -> KindRow:
    """Return the row of a table `{key, is, name, scope, kind}`."""
    if given["kind"] not in kinds:
        raise ValueError(f"no such kind: {given['kind']}; there are {', '.join(kinds)}")
    key, _, part = given.get("key", "").partition("#")
    values, name, scope = (_listed(given.get(k, [])) for k in ("is", "name", "scope"))
    lacks, lone = given.get("lacks", ""), given.get("lone", False)
    return KindRow(given["kind"], key, part, values, name, scope, lacks, lone)


def _listed(given: object) -> tuple[str, ...]:
    return tuple(map(str, given if isinstance(given, list | tuple) else [given]))


def _words(given: Iterable[str]) -> str:
    return " or ".join(f"`{text}`" for text in given)


@lru_cache(maxsize=_NAMES_KEPT)
def _fits(text: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(text, pattern) for pattern in patterns)


def _dialect(given: dict[str, Any]) -> Dialect:
    lists = ("source", "name_prefixes", "name_suffixes", "writes", "unread", "nobody", "no_session")
    fields = {name: tuple(keys) for name, keys in given.pop("fields", {}).items()}
    if unknown := fields.keys() - set(FIELDS):
        raise ValueError(f"dialect {given['name']}: no such fields: {', '.join(sorted(unknown))}")
    kinds = tuple(map(kind_row, given.pop("kinds", ())))
    beside = tuple(kind_row({**row, "kind": row["of"]}, WHOLES) for row in given.pop("beside", ()))
    given |= {name: tuple(given[name]) for name in lists if name in given}
    return Dialect(kinds=kinds, fields=fields, beside=beside, **given)


@cache
def _shipped() -> tuple[Dialect, ...]:
    text = files(__package__).joinpath("dialects.toml").read_text(encoding="utf-8")
    return tuple(map(_dialect, tomllib.loads(text)["dialects"]))


def table_of_file(path: str | os.PathLike[str]) -> DialectTable:
    """Return the shipped table with the keys in `[attributes]` of a settings file.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is no TOML, or names a field or a kind that does not exist.
    """
    given = dict(tomllib.loads(Path(path).read_text("utf-8")).get("attributes", {}))
    rows = tuple(map(kind_row, given.pop("kinds", ())))
    fields = {name: _listed(keys) for name, keys in given.items()}
    if unknown := fields.keys() - set(FIELDS):
        raise ValueError(f"{path}: no such fields in [attributes]: {', '.join(sorted(unknown))}")
    return SHIPPED.with_own(rows, fields) if rows or fields else SHIPPED


SHIPPED = DialectTable()
