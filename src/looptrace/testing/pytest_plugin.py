"""The plug-in of pytest: a marker that checks a test's agent, and the fixture of its spans.

pytest imports this module in every project where looptrace is installed, so that it imports
nothing more before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest

from looptrace.errors import LooptraceError
from looptrace.testing import assert_no_loops

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

_MARKER = "looptrace"
_FIXTURE = "looptrace_spans"
_ABOUT = (
    'looptrace(fail_on="finding", settings=None, select=(), ignore=(), baseline=None): fail the '
    "test if its agent loops; the arguments are those of looptrace.testing.assert_no_loops."
)


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker."""
    config.addinivalue_line("markers", _ABOUT)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let a marked test have the fixture before all others, whose agents may run already."""
    if (
        isinstance(item, pytest.Function)
        and item.get_closest_marker(_MARKER)
        and _FIXTURE not in item.fixturenames
    ):
        item.fixturenames.insert(0, _FIXTURE)


@pytest.fixture
def looptrace_spans() -> Iterator[InMemorySpanExporter]:
    """Capture the spans that end while the test runs; joins the tracer provider that is set."""
    # Only here, because a test run that needs no spans should not wait for it.
    from looptrace.testing.capture import captured  # noqa: PLC0415

    with captured() as exporter:
        yield exporter


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Check what a marked test did, once it has passed by itself."""
    result = yield
    marker = item.get_closest_marker(_MARKER)
    if marker is not None and isinstance(item, pytest.Function):
        if _FIXTURE not in item.funcargs:
            pytest.fail("looptrace: the marker came too late; set it on the test.", pytrace=False)
        exporter = cast("InMemorySpanExporter", item.funcargs[_FIXTURE])
        failure = ""
        try:
            assert_no_loops(exporter.get_finished_spans(), *marker.args, **marker.kwargs)
        except (AssertionError, LooptraceError) as error:
            failure = f"looptrace: {error}"
        # Here, so that pytest does not show the error that it comes from as well.
        if failure:
            pytest.fail(failure, pytrace=False)
    return result
