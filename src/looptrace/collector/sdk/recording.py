"""Recording by hand of an agent's work for which no framework writes spans.

Each is a context manager and a decorator, of plain functions and of coroutines:

    with phase("fix"), attempt("login-page") as tried:
        with turn("run_tests", {"path": "a.py"}) as call:
            call.result = run_tests("a.py")
        tried.status, tried.completed_work = "in_progress", "form"

An exception that passes through is recorded on the span and raised again.
"""

import json  # the base installation, in an agent's process, lacks msgspec
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import wraps
from inspect import iscoroutinefunction
from types import TracebackType
from typing import ParamSpec, Self, TypeVar, cast

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

P = ParamSpec("P")
T = TypeVar("T")


class Recording:
    """A span that is open while its block, or the function that it decorates, runs.

    It is a context manager, plain or `async`, and a decorator of functions and coroutines; each
    call is a span of its own. An exception that passes through is recorded and raised again.
    """

    name = "looptrace"

    def __init__(self, **attributes: AttributeValue | None) -> None:
        self._attributes = {k: v for k, v in attributes.items() if v is not None}
        self._block: AbstractContextManager[Span] | None = None
        self._span: Span = trace.INVALID_SPAN

    def __enter__(self) -> Self:
        tracer = trace.get_tracer(SCOPE)
        block = tracer.start_as_current_span(self.name, attributes=self._attributes)
        self._span, self._block = block.__enter__(), block
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        block, self._block = self._block, None
        if block is None:
            raise RuntimeError(f"{type(self).__name__} was left without being entered")
        for name, value in self._final_attributes().items():
            self._span.set_attribute(name, value)
        block.__exit__(error_type, error, traceback)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__exit__(error_type, error, traceback)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Decorate a function or a coroutine; each call is a span of its own."""

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            with self._copy() as recording:
                value = function(*args, **kwargs)
                recording.note_result(value)
                return value

        @wraps(function)
        async def await_(*args: P.args, **kwargs: P.kwargs) -> object:
            with self._copy() as recording:
                value = await cast("Awaitable[object]", function(*args, **kwargs))
                recording.note_result(value)
                return value

        return cast("Callable[P, T]", await_) if iscoroutinefunction(function) else call

    def note_result(self, value: object) -> None:
        """Handle the result of a decorated function; only a turn records it."""

    def _copy(self) -> Self:
        fresh = type(self).__new__(type(self))
        fresh.__dict__.update(self.__dict__)
        return fresh

    def _final_attributes(self) -> dict[str, AttributeValue]:
        return {}


class turn(Recording):  # noqa: N801 - it is used as a word, like `open`.
    """A call of a tool: its name, its arguments, and its `result`, which the block sets.

    Arguments and result are recorded unchanged if they are text, else as JSON (with `str` for
    values that JSON lacks); None records nothing. The result of a decorated function is recorded.
    """

    def __init__(self, tool: str, arguments: object = None, *, call_id: str | None = None) -> None:
        super().__init__(
            **{
                semconv.GEN_AI_OPERATION_NAME: "execute_tool",
                semconv.GEN_AI_TOOL_NAME: tool,
                semconv.GEN_AI_TOOL_CALL_ID: call_id,
                semconv.GEN_AI_TOOL_CALL_ARGUMENTS: _text(arguments),
            }
        )
        self.name = f"execute_tool {tool}"
        self.result: object = None

    def note_result(self, value: object) -> None:
        """Record the result of a decorated function."""
        self.result = value

    def _final_attributes(self) -> dict[str, AttributeValue]:
        result = _text(self.result)
        return {} if result is None else {semconv.GEN_AI_TOOL_CALL_RESULT: result}


class attempt(Recording):  # noqa: N801
    """An attempt at a task, with `status`, `blockers` and `completed_work`.

    The block may set these three; `status` is one of `pending`, `in_progress`, `blocked`, `done`,
    and any other raises ValueError when the block ends. `parent` is the task of which this one is a
    part, and `kind` the kind of task, for overrides in the settings.
    """

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
            **{semconv.TASK_ID: task, semconv.TASK_PARENT_ID: parent, semconv.TASK_KIND: kind}
        )
        self.status = status
        self.blockers = tuple(blockers)
        self.completed_work = completed_work

    def _final_attributes(self) -> dict[str, AttributeValue]:
        if self.status not in STATUSES:
            raise ValueError(f"status is {self.status!r}; it must be one of {', '.join(STATUSES)}")
        attributes: dict[str, AttributeValue] = {semconv.TASK_STATUS: self.status}
        if self.blockers:
            attributes[semconv.BLOCKERS] = self.blockers
        if self.completed_work is not None:
            attributes[semconv.COMPLETED_WORK] = self.completed_work
        return attributes


class phase(Recording):  # noqa: N801
    """A phase of the work; everything recorded within belongs to it."""

    def __init__(self, name: str) -> None:
        super().__init__(**{semconv.PHASE: name})
        self.name = f"phase {name}"


class iteration(Recording):  # noqa: N801
    """An iteration of an orchestrator that lets an agent try again and again."""

    def __init__(self, name: str | int) -> None:
        super().__init__(**{semconv.ITERATION: str(name)})
        self.name = f"iteration {name}"


class handoff(Recording):  # noqa: N801
    """A request to another agent; everything recorded within is that agent's."""

    def __init__(self, to: str, request: str | None = None) -> None:
        messages = [{"role": "user", "parts": [{"type": "text", "content": request}]}]
        super().__init__(
            **{
                semconv.GEN_AI_OPERATION_NAME: "invoke_agent",
                semconv.GEN_AI_AGENT_NAME: to,
                semconv.GEN_AI_INPUT_MESSAGES: None if request is None else json.dumps(messages),
            }
        )
        self.name = f"invoke_agent {to}"


class agent(handoff):  # noqa: N801
    """The whole run of an agent, in a session; everything recorded within belongs to it."""

    def __init__(self, name: str, *, session: str | None = None, task: str | None = None) -> None:
        super().__init__(name)
        ids = {semconv.GEN_AI_CONVERSATION_ID: session, semconv.TASK_ID: task}
        self._attributes |= {key: value for key, value in ids.items() if value is not None}


def progress(*, metrics: Mapping[str, float] | None = None, **figures: float) -> None:
    """Record figures of progress, as a span of its own.

    The figures are `tests_failed`, `tests_total`, `coverage` (percent), and the counts
    `files_created`, `dependencies_added`, `code_written`. `metrics` are your own figures, on which
    phases can converge by the settings.

    Raises:
        TypeError: if a figure has another name.
    """
    if unknown := figures.keys() - set(FIGURES):
        raise TypeError(
            f"there is no figure {', '.join(sorted(unknown))}; the figures are {FIGURES}"
        )
    attributes = {f"{semconv.PROGRESS_PREFIX}{name}": value for name, value in figures.items()}
    attributes |= {f"{semconv.METRIC_PREFIX}{k}": value for k, value in (metrics or {}).items()}
    trace.get_tracer(SCOPE).start_span("progress", attributes=attributes).end()


def intervened(decision: str | None = None, note: str | None = None) -> None:
    """Record on the current span that a person stepped in, which resets the counters of its task.

    `decision` is one of those of `AgentGate.resolve`, and `note` is the person's text.
    """
    values = {semconv.DECISION: decision, semconv.NOTE: note}
    attributes = {name: value for name, value in values.items() if value is not None}
    trace.get_current_span().add_event(semconv.INTERVENTION_EVENT, attributes)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str)
