"""Tables of a TOML file as msgspec Structs, made from the dataclasses that hold their values.

A setting is declared once, at its field, by `setting` or `required` of the rules' contract: its
type, default, bounds and sentence. Lengths of texts and lists are in the type, as a `Meta`. A field
without a sentence is not a setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, defstruct, structs

from looptrace.analyzer.settings.toml_reader import Errors, Keys, Node, SettingsError, all_of, shown
from looptrace.analyzer.text.names import SECRET
from looptrace.analyzer.text.near_names import did_you_mean
from looptrace.rules.contract import SettingError

_T = TypeVar("_T")
_META = ("ge", "le", "min_length", "max_length", "description", "extra")


def table_of(name: str, *owners: type, kinds: Mapping[str, Any] | None = None) -> type[Struct]:
    """Return the table whose keys are the settings of dataclasses.

    `kinds` has the types of those keys that are narrower than their fields.
    """
    return struct(name, [column for owner in owners for column in columns_of(owner, kinds or {})])


def columns_of(owner: type, kinds: Mapping[str, Any] = MappingProxyType({})) -> list[Any]:
    """Return the settings of a dataclass as fields of a Struct: name, type, default."""
    hints = get_type_hints(owner, include_extras=True)
    columns = []
    for item in _declared(owner):
        kind = hints[item.name]
        if item.name in kinds:
            narrower: Any = kinds[item.name]
            kind = Annotated[narrower, *kind.__metadata__]
        columns.append(_column(item, _described(item, kind)))
    return columns


@cache
def names_of(owner: type) -> tuple[str, ...]:
    """Return the names of the settings of a dataclass."""
    return tuple(item.name for item in _declared(owner))


def _declared(owner: type) -> list[Field[Any]]:
    return [item for item in fields(owner) if "doc" in item.metadata]


def struct(name: str, columns: list[Any]) -> type[Struct]:
    """Return a table with these keys and no others."""
    return defstruct(name, columns, kw_only=True, forbid_unknown_fields=True)


def numbers_of(owner: type) -> list[Any]:
    """Return the numbers of a rule as fields of a Struct: name, type and default."""
    return [
        (item.name, _described(item, type(item.default)), item.default) for item in _declared(owner)
    ]


def _described(item: Field[Any], kind: Any) -> Any:
    """Return the type of a setting with its bounds and its sentence; a file has no null."""
    (stated,) = (member for member in _members(kind) if member is not NoneType)
    bounds = {name: item.metadata[name] for name in ("ge", "le") if name in item.metadata}
    return Annotated[stated, Meta(**bounds, description=item.metadata["doc"])]


def _column(item: Field[Any], kind: Any) -> Any:
    """Return a field of a Struct; a default that a file cannot express is left out."""
    if item.default is MISSING:
        return item.name, kind
    if item.default in (None, ""):
        return item.name, kind | UnsetType, UNSET
    return item.name, kind, item.default


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of a table: its type without annotations, its default, its sentence, its bounds."""

    name: str
    kind: Any
    default: Any
    about: Mapping[str, Any]

    @property
    def doc(self) -> str:
        """Its meaning, in a sentence."""
        return str(self.about["description"])

    @property
    def bounds(self) -> str:
        """Its allowed values, in a few words."""
        if self.kind is bool:
            return "true or false"
        if get_origin(self.kind) is Literal:
            return f"one of {', '.join(map(str, get_args(self.kind)))}"
        if get_origin(self.kind) is tuple:
            return f"{self.about.get('min_length', 0)} to {self.about['max_length']} entries"
        return f"{self.about['ge']} to {self.about['le']}"

    @property
    def inner(self) -> list[Setting]:
        """The settings of the table, or of each table in the list; none of a plain value."""
        tables = [
            member
            for member in (self.kind, *get_args(self.kind))
            if _is_table(described(member)[0])
        ]
        return settings_in(described(tables[0])[0]) if tables else []


def settings_in(table: type[Struct]) -> list[Setting]:
    """Return the keys of a table in their order."""
    return [
        Setting(item.encode_name, kind, item.default, about)
        for item in structs.fields(table)
        for kind, about in [described(item.type)]
    ]


def described(kind: Any) -> tuple[Any, dict[str, Any]]:
    """Return the type within annotations, and the bounds and the sentence that they have."""
    about: dict[str, Any] = {}
    if get_origin(kind) is Annotated:
        kind, *metas = get_args(kind)
        declared = [(name, getattr(meta, name)) for meta in metas for name in _META]
        about = {name: value for name, value in declared if value is not None}
    stated = [member for member in _members(kind) if member not in (NoneType, UnsetType)]
    if len(stated) == 1 and stated != [kind]:
        kind, inner = described(*stated)
        about = inner | about
    return kind, about


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def stated(node: Node, table: Struct) -> dict[str, Any]:
    """Return the values of those keys of a table that the file has."""
    every = dict(zip(table.__struct_encode_fields__, table.__struct_fields__, strict=True))
    return {key: getattr(table, every[key]) for key in node.value}


def made(node: Node, maker: Callable[..., _T], values: Mapping[str, Any]) -> _T:
    """Return the object that is made of the values of a table.

    Raises:
        SettingsError: if the maker refuses them, at the settings that its messages name.
    """
    try:
        return maker(**values)
    except SettingError as error:
        raise all_of(_refused(node, text) for text in error.texts) from error


def _refused(node: Node, text: str) -> SettingsError:
    name, _, why = text.partition(" ")
    at = node.at(name.rpartition(".")[2])
    return at.error(f"{at.name} {why}")


def checked(top: Node, kind: Any, errors: Errors) -> tuple[Node, Any]:
    """Return the file without the values that are wrong, and its value as this type.

    Raises:
        SettingsError: if nothing can be left out of it.
    """
    node = replace(top, value=deepcopy(top.value))
    while True:
        try:
            return node, convert(node.value, kind)
        except ValidationError:
            culprits = list(_culprits(node, kind))
        for error, _ in culprits:
            errors.add(error)
        for _, keys in culprits:
            if not keys:
                errors.check()
            errors.leave_out(node.value, keys)


def _culprits(node: Node, kind: Any) -> Iterator[tuple[SettingsError, Keys]]:
    """Yield the errors of the innermost values that are wrong, with the keys to leave out.

    A required value cannot be left out of its table, and no entry out of a list, whose other
    entries would have other numbers: the table or the list is.
    """
    kind, about = described(_meant(node, kind))
    wrong = [*_wrong_keys(node, kind), *_wrong_count(node, kind, about)]
    required = (
        {item.encode_name for item in structs.fields(kind) if item.required}
        if _is_table(kind)
        else set()
    )
    for inner, inner_kind in _inner(node, kind):
        try:
            convert(inner.value, inner_kind)
        except ValidationError:
            is_fixed = isinstance(node.value, list) or inner.keys[-1] in required
            wrong += [
                (error, node.keys if is_fixed and keys == inner.keys else keys)
                for error, keys in _culprits(inner, inner_kind)
            ]
    yield from wrong or [(_wrong_value(node, kind, about), node.keys)]


def _meant(node: Node, kind: Any) -> Any:
    """Return of a text or a table that which a value is meant as; any other type as it is."""
    one_of = _members(described(kind)[0])
    if len(one_of) == 1:
        return kind
    is_table = isinstance(node.value, dict)
    return next(each for each in one_of if _is_table(each) == is_table)


def _wrong_value(node: Node, kind: Any, about: Mapping[str, Any]) -> SettingsError:
    if get_origin(kind) is Literal:
        meant = did_you_mean(node.value, get_args(kind))
        return node.error(f"{node.name} is {shown(node.value)}. {meant}")
    what = "" if about.get("extra") == SECRET else f"is {shown(node.value)}; it "
    return node.error(f"{node.name} {what}must be {_allowed(kind, about)}.")


def _wrong_keys(node: Node, kind: Any) -> Iterator[tuple[SettingsError, Keys]]:
    """Yield the errors of a table with unknown keys, or without required ones."""
    if not (_is_table(kind) and isinstance(node.value, dict)):
        return
    items = {item.encode_name: item for item in structs.fields(kind)}
    where = f" in {node.name}" if node.keys else ""
    for key in (key for key in node.value if key not in items):
        at, meant = node.at(key), did_you_mean(key, items)
        yield at.error(f"there is no {shown(key)}{where}. {meant}"), at.keys
    owner = node.name if node.keys else "the file"
    entry = "an entry of " if node.keys and isinstance(node.keys[-1], int) else ""
    for key, item in items.items():
        if item.required and key not in node.value:
            allowed = _allowed(*described(item.type))
            yield node.error(f"{entry}{owner} has no {key}; it must be {allowed}."), node.keys


def _wrong_count(
    node: Node, kind: Any, about: Mapping[str, Any]
) -> Iterator[tuple[SettingsError, Keys]]:
    """Yield the errors of a list or table with too many entries, too few, or wrong names."""
    if type(node.value) is not {tuple: list, dict: dict}.get(get_origin(kind)):
        return
    count, least, most = len(node.value), about.get("min_length", 0), about.get("max_length")
    if not least <= count <= (most or count):
        why = f"{node.name} has {count} entries; it may have {least} to {most}."
        yield node.error(why), node.keys
    if get_origin(kind) is dict:
        _, name = described(get_args(kind)[0])
        least, most = name["min_length"], name["max_length"]
        for key in node.value:
            if not least <= len(key) <= most:
                why = f"a name in {node.name} has {len(key)} characters; it must have"
                yield node.at(key).error(f"{why} {least} to {most}."), (*node.keys, key)


def _inner(node: Node, kind: Any) -> list[tuple[Node, Any]]:
    """Return the values within a table or a list, with their types."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(node.value, list) and origin is tuple:
        return [(node.at(index), arguments[0]) for index in range(len(node.value))]
    if isinstance(node.value, dict) and origin is dict:
        return [(node.at(key), arguments[1]) for key in node.value]
    if isinstance(node.value, dict) and _is_table(kind):
        kinds = {item.encode_name: item.type for item in structs.fields(kind)}
        return [(node.at(key), kinds[key]) for key in node.value if key in kinds]
    return []


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _allowed(kind: Any, about: Mapping[str, Any]) -> str:
    """Return in words what a value must be."""
    if kind in (int, float):
        whole = "whole " if kind is int else ""
        return f"a {whole}number between {about['ge']} and {about['le']}"
    if kind is str:
        return f"a text of {about['min_length']} to {about['max_length']} characters"
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if get_origin(kind) is tuple:
        return "a list"
    return "true or false" if kind is bool else "a table"
