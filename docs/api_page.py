"""Makes docs/api.md: every public name with its signature and sentence, from the sources."""

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
`help(NAME)` shows the whole text of each, with its fields, and the types of arguments.
`looptrace` and `looptrace.collector` need the base installation, but `open`, `analyze`, what they
return, and the other modules need `looptrace[analyzer]`. A time in `…_ns` is nanoseconds since
1970, one in `…_s` seconds.
"""
# Modules for authors of rules, who read the sources.
_LISTED = tuple(name for name in PUBLIC if name.startswith("looptrace.rules."))

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
Function = ast.FunctionDef | ast.AsyncFunctionDef
_RAISED = re.compile(r"^ *(?P<error>[A-Z]\w+): ", re.MULTILINE)
_CALLED = "__call__"
_OWN = re.compile(r"def __init__\((?:self, |\s+self,(?=\n)|self(?=\)))")


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


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    shown: dict[tuple[str, str], str] = {}
    for name in PUBLIC:
        about = (ast.get_docstring(module_of(name).tree) or "").partition("\n\n")[0]
        parts.append(f"## {name}\n\n{about}\n")
        if name in _LISTED:
            parts.append(f"The names in `__all__` of {_link(name)}, which explains them.\n")
            continue
        of_names = {public: definition(name, public) for public in public_names(name)}
        same = [
            f"`{first}.{public}`"
            for public, (origin, _) in of_names.items()
            if (first := shown.setdefault((origin, public), name)) != name
        ]
        if same:
            parts.append(f"It has {', '.join(same)}, too.\n")
        own = [each for each in of_names.items() if shown[each[1][0], each[0]] == name]
        parts += [_entry(origin, node, public) for public, (origin, node) in own]
    return "\n".join(parts)


def _link(module: str) -> str:
    path = f"{module.replace('.', '/')}.py"
    return f"[{path.rpartition('/')[2]}](../src/{path})"


def _entry(module: str, node: Definition, name: str) -> str:
    """Return a name with its sentence: a function as it is called, a class with its members."""
    if isinstance(node, Function):
        code = ["```python", _header(module, node), "```", ""]
        return "\n".join([f"### {name}", "", *code, _summary(node), ""])
    if not isinstance(node, ast.ClassDef):
        return "\n".join(
            [f"### {name}", "", "```python", module_of(module).source(node), "```", ""]
        )
    fields = [
        f"`{each}`" for item in _fields(node) if not (each := _targets(item)[0]).startswith("_")
    ]
    # Other pages list the columns, the fields of reports, and the settings.
    is_listed = fields and not module.startswith("looptrace.analyzer")
    listed = [f"Fields: {', '.join(fields)}.", ""] if is_listed else []
    methods = [_member(each) for each in _methods(node) if _summary(each)]
    lines = [*_made(module, node), _summary(node), "", *listed, *methods]
    return "\n".join([f"### {name}", "", *lines, *([""] * bool(methods))])


def _made(module: str, node: ast.ClassDef) -> list[str]:
    """Return how a class is called that has a constructor of its own; nothing for an error."""
    if any("Error" in ast.unparse(base) for base in node.bases):
        return []
    headers = [
        _header(module, each)
        for each in node.body
        if isinstance(each, Function) and each.name == "__init__"
    ]
    return [
        line
        for header in headers
        for line in (
            "```python",
            _OWN.sub(f"{node.name}(", header).removesuffix(" -> None"),
            "```",
            "",
        )
    ]


def _fields(node: ast.ClassDef) -> Iterator[ast.AnnAssign]:
    return (each for each in _statements(node.body) if isinstance(each, ast.AnnAssign))


def _member(method: Function) -> str:
    """Return a method with the names of its arguments, or a property, with its sentence."""
    if any(ast.unparse(each) == "property" for each in method.decorator_list):
        return f"- `{method.name}`: {_summary(method)}"
    return f"- `{method.name}({_arguments(method)})`: {_summary(method)}"


def _arguments(function: Function) -> str:
    """Return the names of a function's arguments, as it is called; `=…` may be left out."""
    given = function.args
    optional = len(given.args) - len(given.defaults)
    names = [f"{each.arg}{'=…' * (at >= optional)}" for at, each in enumerate(given.args)]
    plain = [each for each in names if each not in {"self", "cls"}]
    rest = [f"*{given.vararg.arg}"] if given.vararg else []
    keywords = [
        f"{each.arg}{'=…' * (default is not None)}"
        for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    named = [f"**{given.kwarg.arg}"] if given.kwarg else []
    return ", ".join([*plain, *rest, *keywords, *named])


def _summary(node: Function | ast.ClassDef) -> str:
    """Return the first sentence of a docstring, with the errors that are raised."""
    about, _, errors = (ast.get_docstring(node) or "").partition("Raises:\n")
    sentence = " ".join(about.partition("\n\n")[0].split())
    raised = ", ".join(f"`{error}`" for error in dict.fromkeys(_RAISED.findall(errors)))
    return f"{sentence} Raises {raised}." if raised else sentence


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    for item in node.body:
        if isinstance(item, Function) and (not item.name.startswith("_") or item.name == _CALLED):
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
