"""Makes docs/api.md: every public name, with its signature and docstring, read from the sources."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"

# What a user may import: the names in `__all__` of these.
PUBLIC = (
    "looptrace",
    "looptrace.collector",
    "looptrace.collector.files",
    "looptrace.testing",
    "looptrace.middleware.advisor",
    "looptrace.analyzer",
    "looptrace.analyzer.settings",
    "looptrace.analyzer.testing",
    "looptrace.rules.contract",
    "looptrace.rules.needs",
    "looptrace.rules.turns",
    "looptrace.rules.vocabulary",
    "looptrace.queries",
)
_HEAD = """# The Python API

<!-- Made from the docstrings by `make docs`; edit them there. -->

Only these names are public, imported from these modules; all else may change in any release.
`help(NAME)` shows the whole text of each, and the types of fields that stand here by name only.
`looptrace` and `looptrace.collector` need the base installation, but `open`, `analyze`, what they
return, and the other modules need `looptrace[analyzer]`. A time in `…_ns` is nanoseconds since
1970, one in `…_s` seconds.
"""
# Modules for authors of rules, who read the sources: their names and sentences only.
_LISTED = ("looptrace.rules.needs", "looptrace.rules.turns", "looptrace.rules.vocabulary")
# Classes with more fields than this are shown with the names of their fields only.
_TYPED_FIELDS_MAX = 12

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
Function = ast.FunctionDef | ast.AsyncFunctionDef
_RAISED = re.compile(r"^ *(?P<error>[A-Z]\w+): ", re.MULTILINE)
_SHOWN_DUNDERS = ("__init__", "__call__")


@dataclass(frozen=True, slots=True)
class Module:
    """A source file: its text in lines, and its syntax tree."""

    lines: list[str]
    tree: ast.Module

    def source(self, node: ast.stmt) -> str:
        """Return the lines of a statement, with the comments above and beside it."""
        first = node.lineno
        while self.lines[first - 2].lstrip().startswith("#"):
            first -= 1
        return inspect.cleandoc("\n".join(self.lines[first - 1 : node.end_lineno]))


@cache
def module_of(name: str) -> Module:
    """Read the module of this dotted name."""
    path = SOURCES.joinpath(*name.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = path.read_text(encoding="utf-8")
    return Module(text.split("\n"), ast.parse(text))


def public_names(module: str) -> list[str]:
    """Return the names in `__all__` of a module."""
    for node in module_of(module).tree.body:
        if isinstance(node, ast.Assign) and _targets(node) == ["__all__"]:
            names: list[str] = ast.literal_eval(node.value)
            return names
    raise LookupError(f"{module} has no __all__")


def definition(module: str, name: str) -> tuple[str, Definition]:
    """Return where a name is defined, following imports, and the statement that defines it.

    Raises:
        LookupError: if the module neither defines nor imports the name.
    """
    for node in _statements(module_of(module).tree.body):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return definition(node.module, alias.name)
        elif isinstance(node, Definition) and name in _targets(node):
            return module, node
    raise LookupError(f"{module} does not define {name}")


def signature(module: str, node: Definition) -> list[str]:
    """Return the code that a user needs: of a class its fields and public methods."""
    if isinstance(node, Function):
        return [_header(module, node)]
    if not isinstance(node, ast.ClassDef):
        return module_of(module).source(node).split("\n")
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    lines = [f"class {node.name}({bases})" if bases else f"class {node.name}"]
    for item in _statements(node.body):
        if isinstance(item, ast.AnnAssign) and not _targets(item)[0].startswith("_"):
            lines += [f"    {line}" for line in _field(module, item).split("\n")]
    for method in _methods(node):
        header = _property(method) if _is_property(method) else _header(module, method)
        lines += [f"    {line}" for line in header.split("\n")]
    return lines


def _field(module: str, item: ast.AnnAssign) -> str:
    """Return a field; of a setting its type and default, because its page has the rest."""
    text = module_of(module).source(item)
    if "setting(" not in text and "Annotated[" not in text:
        return text
    plain = _Plain().visit(ast.parse(ast.unparse(item)))
    return ast.unparse(plain)


class _Plain(ast.NodeTransformer):
    """Leaves of an annotated type the type, and of a setting its default."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if ast.unparse(node.value) == "Annotated" and isinstance(node.slice, ast.Tuple):
            return node.slice.elts[0]
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return node.args[0] if ast.unparse(node.func) == "setting" and node.args else node


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    shown: dict[tuple[str, str], str] = {}
    for name in PUBLIC:
        about = (ast.get_docstring(module_of(name).tree) or "").partition("\n\n")[0]
        parts.append(f"## {name}\n\n{about}\n")
        if name in _LISTED:
            parts += [*(_listed(*definition(name, each), each) for each in public_names(name)), ""]
            continue
        for public in public_names(name):
            origin, node = definition(name, public)
            first = shown.setdefault((origin, public), name)
            same = f"### {public}\n\nThe same as `{first}.{public}`.\n"
            parts.append(_entry(origin, node, public) if first == name else same)
    return "\n".join(parts)


def _listed(module: str, node: Definition, name: str) -> str:
    """Return a name with its sentence, or with its value where it has no docstring."""
    if isinstance(node, Function):
        names = [each.arg for each in node.args.args]
        arguments = ", ".join([*names, *([f"*{node.args.vararg.arg}"] if node.args.vararg else [])])
        return f"- `{name}({arguments})`: {_summary(node)}"
    if isinstance(node, ast.ClassDef):
        return f"- `{name}`: {_summary(node)}"
    lines = module_of(module).source(node).split("\n")
    about = " ".join(line.removeprefix("# ") for line in lines if line.startswith("#"))
    sentence = about.partition(". ")[0].rstrip(".")
    return f"- `{name}`: {sentence}." if about else f"- `{lines[-1]}`"


def _entry(module: str, node: Definition, name: str) -> str:
    texts = [""]
    if isinstance(node, Function | ast.ClassDef) and ast.get_docstring(node):
        texts = [f"{_summary(node)}\n"]
    if isinstance(node, ast.ClassDef):
        called = (each for each in _methods(node) if not _is_property(each))
        methods = [f"- `{each.name}`: {text}" for each in called if (text := _summary(each))]
        texts += [*methods, *([""] if methods else [])]
    code = _shown(module, node)
    block = ["```python", *code, "```", ""] if code else []
    return "\n".join([f"### {name}", "", *block, *texts])


def _shown(module: str, node: Definition) -> list[str]:
    """Return the signature; none of an error, and of a class with many fields their names."""
    if not isinstance(node, ast.ClassDef):
        return signature(module, node)
    if node.name.endswith("Error") or any("Error" in ast.unparse(each) for each in node.bases):
        return []
    fields = [
        *(_targets(item)[0] for item in _statements(node.body) if isinstance(item, ast.AnnAssign)),
        *(each.name for each in _methods(node) if _is_property(each)),
    ]
    if len(fields) <= _TYPED_FIELDS_MAX:
        return signature(module, node)
    public = ", ".join(each for each in fields if not each.startswith("_"))
    wrapped = textwrap.wrap(public, 90, initial_indent="    # ", subsequent_indent="    # ")
    headers = [_header(module, each) for each in _methods(node) if not _is_property(each)]
    methods = [f"    {line}" for header in headers for line in header.split("\n")]
    return [signature(module, node)[0], *wrapped, *methods]


def _summary(node: Function | ast.ClassDef) -> str:
    """Return the first sentence of a docstring, with the errors that are raised."""
    about, _, errors = (ast.get_docstring(node) or "").partition("Raises:\n")
    sentence = " ".join(about.partition("\n\n")[0].split())
    raised = ", ".join(f"`{error}`" for error in dict.fromkeys(_RAISED.findall(errors)))
    return f"{sentence} Raises {raised}." if raised else sentence


def _is_property(method: Function) -> bool:
    return any(ast.unparse(each) == "property" for each in method.decorator_list)


def _property(method: Function) -> str:
    """Return a property as a field, with its docstring as the comment."""
    kind = ast.unparse(method.returns) if method.returns else ""
    return f"{method.name}: {kind}  # {_summary(method).rstrip('.')}"


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    for item in node.body:
        if isinstance(item, Function) and (
            not item.name.startswith("_") or item.name in _SHOWN_DUNDERS
        ):
            yield item


def _header(module: str, node: Function) -> str:
    """Return the lines of a function before its docstring, without the colon."""
    lines = module_of(module).lines
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    code = "\n".join(lines[first - 1 : node.body[0].lineno - 1])
    return textwrap.dedent(code).rstrip().partition("  # noqa")[0].removesuffix(":")


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those for type checkers included."""
    for node in body:
        if isinstance(node, ast.If):
            yield from node.body
        else:
            yield node


def _targets(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    return [node.name] if isinstance(node, Function | ast.ClassDef) else []
