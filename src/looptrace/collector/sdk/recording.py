"""Recording by hand: what an agent does, where no framework writes spans of it.

Each is a context manager and a decorator, of plain functions and of coroutines:

    with phase("fix"), attempt("login-page") as tried:
        with turn("run_tests", {"path": "a.py"}) as call:
            call.result = run_tests("a.py")
        tried.status, tried.completed_work = "in_progress", "form"

An error that passes through is recorded on the span and goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from opentelemetry import trace
from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from looptrace import semconv

SCOPE = "looptrace.recording"
STATUSES = ("pending", "in_progress", "blocked", "done")
FIGURES = (
    *("tests_failed", "tests_total", "coverage"),
    *("files_created", "dependencies_added", "code_written"),
)

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound="Recording")


class Recording:
    """A span that is open while its block, or the function it decorates, runs."""

    name = "looptrace"

    def __init__(self, **attributes: AttributeValue | None) -> None:
        self._attributes = {k: v for k, v in attributes.items() if v is not None}
        self._block: AbstractContextManager[Span] | None = None
        self._span: Span = trace.INVALID_SPAN

    def __enter__(self: R) -> R:
        tracer = trace.get_tracer(SCOPE)
        block = tracer.start_as_current_span(self.name, attributes=self._attributes)
        self._span, self._block = block.__enter__(), block
        return self

    def __exit__(self, *error: Any) -> None:
        block, self._block = self._block, None
        if block is None:
            raise RuntimeError(f"{type(self).__name__} was left without being entered")
        for name, value in self._said().items():
            self._span.set_attribute(name, value)
        block.__exit__(*error)

    async def __aenter__(self: R) -> R:
        return self.__enter__()

    async def __aexit__(self, *error: Any) -> None:
        self.__exit__(*error)

    def __call__(self, function: F) -> F:
        """Decorate a function or a coroutine; each call is a span of its own."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._again() as again:
                return again.returned(function(*args, **kwargs))

        @wraps(function)
        async def await_(*args: Any, **kwargs: Any) -> Any:
            with self._again() as again:
                return again.returned(await function(*args, **kwargs))

        decorated: Any = await_ if iscoroutinefunction(function) else call
        return decorated  # type: ignore[no-any-return]

    def returned(self, value: Any) -> Any:
        """Take note of what a decorated function returned, and pass it on."""
        return value

    def _again(self: R) -> R:
        """Return a fresh one of the same, for one call of a decorated function."""
        fresh = type(self).__new__(type(self))
        fresh.__dict__.update(self.__dict__)
        return fresh

    def _said(self) -> dict[str, AttributeValue]:
        """Return what became known while the span was open."""
        return {}


class turn(Recording):  # noqa: N801 - it is used as a word, like `open`.
    """A call of a tool: its name, its arguments, and what it returned."""

    def __init__(self, tool: str, arguments: Any = None, *, call_id: str | None = None) -> None:
        super().__init__(
            **{
                semconv.GEN_AI_OPERATION_NAME: "execute_tool",
                semconv.GEN_AI_TOOL_NAME: tool,
                semconv.GEN_AI_TOOL_CALL_ID: call_id,
                semconv.GEN_AI_TOOL_CALL_ARGUMENTS: _text(arguments),
            }
        )
        self.name = f"execute_tool {tool}"
        self.result: Any = None

    def returned(self, value: Any) -> Any:
        """Record the result."""
        self.result = value
        return value

    def _said(self) -> dict[str, AttributeValue]:
        result = _text(self.result)
        return {} if result is None else {semconv.GEN_AI_TOOL_CALL_RESULT: result}


class attempt(Recording):  # noqa: N801
    """A try at a task, and how far it came: `status`, `blockers`, `completed_work`."""

    name = "attempt"

    def __init__(
        self,
        task: str,
        *,
        status: str = "in_progress",
        blockers: Iterable[str] = (),
        completed_work: str | None = None,
        parent: str | None = None,
        kind: str | None = None,
    ) -> None:
        super().__init__(
            **{
                semconv.TASK_ID: task,
                semconv.TASK_PARENT_ID: parent,
                semconv.TASK_KIND: kind,
            }
        )
        self.status = status
        self.blockers = tuple(blockers)
        self.completed_work = completed_work

    def _said(self) -> dict[str, AttributeValue]:
        if self.status not in STATUSES:
            raise ValueError(f"status is {self.status!r}; it must be one of {', '.join(STATUSES)}")
        said: dict[str, AttributeValue] = {semconv.TASK_STATUS: self.status}
        if self.blockers:
            said[semconv.BLOCKERS] = self.blockers
        if self.completed_work is not None:
            said[semconv.COMPLETED_WORK] = self.completed_work
        return said


class phase(Recording):  # noqa: N801
    """A phase of the work; everything recorded within belongs to it."""

    def __init__(self, name: str) -> None:
        super().__init__(**{semconv.PHASE: name})
        self.name = f"phase {name}"


class handoff(Recording):  # noqa: N801
    """A request to another agent; what is recorded within is that agent's."""

    def __init__(self, to: str, request: str | None = None) -> None:
        asked = [{"role": "user", "parts": [{"type": "text", "content": request}]}]
        super().__init__(
            **{
                semconv.GEN_AI_OPERATION_NAME: "invoke_agent",
                semconv.GEN_AI_AGENT_NAME: to,
                semconv.GEN_AI_INPUT_MESSAGES: None if request is None else json.dumps(asked),
            }
        )
        self.name = f"invoke_agent {to}"


class agent(handoff):  # noqa: N801
    """The whole run of an agent, in a session; everything recorded within is its own."""

    def __init__(self, name: str, *, session: str | None = None, task: str | None = None) -> None:
        super().__init__(name)
        said = {semconv.GEN_AI_CONVERSATION_ID: session, semconv.TASK_ID: task}
        self._attributes |= {key: value for key, value in said.items() if value is not None}


def progress(**figures: float) -> None:
    """Record progress: `tests_failed`, `tests_total`, `coverage`, or what was completed.

    Raises:
        TypeError: if a figure has another name than one of `FIGURES`.
    """
    if unknown := figures.keys() - set(FIGURES):
        raise TypeError(f"there is no figure {', '.join(sorted(unknown))}; there is {FIGURES}")
    said = {f"{semconv.PROGRESS_PREFIX}{name}": value for name, value in figures.items()}
    trace.get_tracer(SCOPE).start_span("progress", attributes=said).end()


def intervened(decision: str | None = None, note: str | None = None) -> None:
    """Record on the current span that a person stepped in, which resets what was counted."""
    said = {semconv.DECISION: decision, semconv.NOTE: note}
    known = {name: value for name, value in said.items() if value is not None}
    trace.get_current_span().add_event(semconv.INTERVENTION_EVENT, known)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str)
