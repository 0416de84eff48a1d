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

These names are public, and only these, imported from the modules named here. Everything else may
change in any release. `looptrace` and `looptrace.collector` need the base installation alone, but
for `open`, `analyze` and what they return; these and the other modules need `looptrace[analyzer]`.
A time in `…_ns` is nanoseconds since 1970, one in `…_s` seconds.
"""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
Function = ast.FunctionDef | ast.AsyncFunctionDef
_RAISED = re.compile(r"(?P<error>\w+): (?P<why>.+(?:\n {8,}.+)*)")
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
            lines += [f"    {line}" for line in module_of(module).source(item).split("\n")]
    for method in _methods(node):
        lines += [f"    {line}" for line in _header(module, method).split("\n")]
    return lines


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for name in PUBLIC:
        about = inspect.cleandoc(ast.get_docstring(module_of(name).tree) or "")
        parts.append(f"## {name}\n\n{about}\n")
        parts += [_entry(*definition(name, public), public) for public in public_names(name)]
    return "\n".join(parts)


def _entry(module: str, node: Definition, name: str) -> str:
    code = "\n".join(signature(module, node))
    texts = [_docstring(node)] if isinstance(node, Function | ast.ClassDef) else []
    if isinstance(node, ast.ClassDef):
        texts += [
            f"`{method.name}`: {text}" for method in _methods(node) if (text := _docstring(method))
        ]
    return "\n\n".join([f"### {name}", f"```python\n{code}\n```", *filter(None, texts)]) + "\n"


def _docstring(node: Function | ast.ClassDef) -> str:
    """Return a docstring as Markdown, with its errors in one paragraph."""
    text = ast.get_docstring(node) or ""
    about, _, errors = text.partition("Raises:\n")
    raised = [f"- `{match['error']}` {match['why']}" for match in _RAISED.finditer(errors)]
    return "\n".join([about.strip(), *(["\nRaises:\n"] if raised else []), *raised])


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
