"""Tests that fail where an agent loops, for pytest and any other runner.

With pytest, the marker `looptrace` checks the spans that a test's agent ends, and the fixture
`looptrace_spans` has them; both come with the installation. See docs/ci.md.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from looptrace.errors import InstallError
from looptrace.installation import how_to_install

if TYPE_CHECKING:  # pytest imports this package in every project where looptrace is installed.
    from opentelemetry.sdk.trace import ReadableSpan

    from looptrace.analyzer.settings import SettingsLike

__all__ = ["assert_no_loops"]


def assert_no_loops(
    traces: str | Path | Iterable[ReadableSpan],
    *,
    fail_on: Literal["finding", "gate"] = "finding",
    settings: SettingsLike | None = None,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    baseline: str | Path | None = None,
) -> None:
    """Fail where an agent loops, in traces that a path names or in spans of the SDK.

    `settings` are a file, a profile, the tables of `looptrace.toml` as a mapping, or `Settings`;
    None takes the file that is in the current directory, as the command line does. `select` and
    `ignore` name rules. `baseline` is a report that `looptrace analyze --format json` wrote, whose
    loops do not fail. With `fail_on="gate"` only a loop fails that would have stopped the agent.

    Raises:
        AssertionError: if there is a loop; its message names each.
        InputError: if there is nothing to check, a part cannot be read, or an argument is wrong.
        InstallError: if `looptrace[analyzer]` is not installed.
    """
    __tracebackhide__ = True  # pytest shows the line of the test alone.
    try:
        # Only here, because it takes a while.
        from looptrace.testing.checks import chosen_of, failure_of, loops_in  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("looptrace"):
            raise
        raise InstallError(
            f"assert_no_loops needs {error.name}, which is not installed; "
            f"install all it needs with: {how_to_install('analyzer')}"
        ) from error
    chosen = chosen_of(settings, select, ignore, os.environ)
    failure = failure_of(loops_in(traces, chosen, baseline), fail_on)
    if failure:
        raise AssertionError(failure)
