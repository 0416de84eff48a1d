"""A server withdraws the promise of a learned limit itself, and says so wherever people look."""

import json
import threading
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import msgspec
import pytest

from looptrace.analyzer.detect.spared_tasks import is_spared
from looptrace.analyzer.settings.sections import Settings, load
from looptrace.analyzer.tuning.drift import promise_key, promises
from looptrace.collector.server.background.promise_tester import PromiseTester, spared_runs
from looptrace.collector.store import reader, writer
from looptrace.collector.store.layout import AUDIT_FILE, PROMISES_FILE
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.promises.withdrawn import (
    WithdrawnPromise,
    policy_in,
    read_promises,
    renew,
    withdraw,
)
from tests.collector.erasure.test_asked import ask, serving
from tests.collector.store.stored import spans_of
from tests.commands import run
from tests.otlp import Trace, tool_call
from tests.reliability.serving import OK, until
from tests.reliability.test_webhook_network import serving as receiving

SETTINGS = """
[outcomes]
attribute = "looptrace.task.outcome=solved"
test_every_s = 1

[[overrides]]
task_kind = "sql"
rules.consecutive_errors.max_errors = 4
rules.consecutive_errors.ladder = [
    { attempts = 1, action = "gate", lost_percent = 5.0, spared_percent = 50 },
]
"""


def failing(number: int, failures: int, outcome: str = "solved") -> Trace:
    """Return a run of a kind of task, all of whose calls but the first and the last fail."""
    trace = Trace(f"s{number}", service="shop")
    for call in range(failures + 2):
        is_failure = 0 < call <= failures
        failed = {"error.type": "Error", "error.message": f"unlike {number} and {call}"}
        ended = {"looptrace.task.outcome": outcome} if call > failures else {}
        trace.span(
            f"execute_tool t{call}",
            attributes=tool_call(f"t{call}", json.dumps({"n": number * 100 + call}))
            | {"looptrace.task.kind": "sql", **ended, **(failed if is_failure else {})},
            status="error" if is_failure else "ok",
        )
    return trace


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return settings with a learned limit that spares half of the tasks."""
    path = tmp_path / "looptrace.toml"
    path.write_text(SETTINGS)
    return load(path)


def key_in(settings: Settings) -> str:
    """Return the key of the only promise."""
    ((override, rule),) = promises(settings.policy.rule_set)
    return promise_key(override, rule)


def test_spared_runs_are_those_whose_outcome_is_known(tmp_path: Path, settings: Settings) -> None:
    """A run that a gate may have stopped says nothing, and neither does one without an outcome."""
    store, ((_, rule),) = tmp_path / "store", promises(settings.policy.rule_set)
    runs = [*(failing(n, 6) for n in range(12)), *(failing(n, 6, "unknown") for n in range(12, 15))]
    writer.ingest(spans_of(*runs), store, settings.policy)
    names = [f"s{number}@shop" for number in range(15)]
    found = spared_runs(store, settings)
    assert {each.task for each in found} == {name for name in names if is_spared(name, rule)}
    assert {each.task for each in found if each.solved} <= {*names[:12]}
    assert {each.gate_rule for each in found} == {"consecutive_errors"}


def fails(error: Exception) -> None:
    """Let the thread end with an error of the store."""
    raise error


@pytest.fixture
def withdrawn_at(tmp_path: Path, settings: Settings) -> Path:
    """Return a store in which a tester has withdrawn the promise."""
    store, told = tmp_path / "store", threading.Event()
    writer.ingest(spans_of(*(failing(n, 6) for n in range(20))), store, settings.policy)
    tester = PromiseTester(store, settings, fails, told.set)
    tester.start()
    until(told.is_set)
    assert tester.close(30)
    return store


def test_a_withdrawn_limit_only_warns_whoever_writes_to_the_store(
    withdrawn_at: Path, settings: Settings
) -> None:
    """The file of the settings stays as it was, and an ingest does not make a gate of it again."""
    (withdrawn,) = read_promises(withdrawn_at).withdrawn
    assert (withdrawn.key, withdrawn.rule) == (key_in(settings), "consecutive_errors")
    assert "it promised 5 %" in withdrawn.why
    assert [*promises(policy_in(withdrawn_at, settings.policy).rule_set)] == []
    assert '"what":"promise withdrawn"' in (withdrawn_at / AUDIT_FILE).read_text()
    with reader.open_gates(withdrawn_at) as gates:
        assert any(gate.status == "open" for gate in gates.gates())
    done = writer.ingest(spans_of(failing(100, 6)), withdrawn_at, settings.policy)
    assert done.gates_open == 0
    with reader.open_gates(withdrawn_at) as gates:
        assert "promise_withdrawn" not in {event.type for _, event in gates.events()}


def test_calibrate_writes_the_warning_and_clears_the_note(
    withdrawn_at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sources that know of no outcome must not make a gate of it again."""
    monkeypatch.chdir(withdrawn_at.parent)
    outcome = {"session": "s1", "solved": False}
    Path("outcomes.jsonl").write_text(json.dumps(outcome))
    command = ["calibrate", "store", "--outcomes", "outcomes.jsonl", "--lost", "5%"]
    told = run(*command)
    assert "the server withdrew the promise on" in told.stdout
    assert read_promises(withdrawn_at).withdrawn
    told = run(*command, "--write")
    assert told.exit_code == 0, told.output
    (override,) = load("looptrace.toml").policy.rule_set.overrides
    rule = override.rules["consecutive_errors"]
    assert rule is not None
    assert [rung.action for rung in rule.ladder] == ["warn"]
    assert read_promises(withdrawn_at).withdrawn == ()


def test_a_promise_that_is_made_again_is_tested_from_then_on(tmp_path: Path) -> None:
    """The runs that broke it are known; one that was kept goes on with its runs."""
    renew(tmp_path, (), ("kept", "broken"), 1)
    withdraw(tmp_path, [WithdrawnPromise("broken", 2, "no_news", {}, "why")])
    withdraw(tmp_path, [WithdrawnPromise("broken", 3, "no_news", {}, "why")])
    assert len(read_promises(tmp_path).withdrawn) == 1
    renew(tmp_path, ("broken",), ("kept", "broken"), 4)
    noted = read_promises(tmp_path)
    assert (noted.withdrawn, noted.since_ns) == ((), {"kept": 1, "broken": 4})


def test_a_note_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """It says what to do."""
    (tmp_path / PROMISES_FILE).write_text("{")
    with pytest.raises(StoreError, match="delete it"):
        read_promises(tmp_path)


def test_a_server_withdraws_and_says_so_everywhere(tmp_path: Path) -> None:
    """Log, page, metrics and webhook; the limit warns at once, and after a kill, too."""
    store, said, config = tmp_path / "store", tmp_path / "said", tmp_path / "looptrace.toml"
    with receiving() as receiver:
        hook = f'[[webhooks]]\nname = "a"\nurl = "{receiver.url}"\nallow_private = ["127.0.0.1"]\n'
        config.write_text(f'{hook}format = "slack"\n{SETTINGS}')
        with serving(store, said, "--config", str(config)) as (address, _):
            for number in range(20):
                assert ask(address, "POST", "/v1/traces", failing(number, 6).request())[0] == OK

            def page(path: str) -> str:
                try:
                    with urlopen(f"http://{address}{path}") as answer:
                        return str(answer.read().decode())
                except OSError:  # It starts again.
                    return ""

            until(lambda: "looptrace_promises_withdrawn 1.0" in page("/metrics"))
            for path in ("/health", "/rules", "/overview"):
                assert "it promised 5 %" in until(partial(page, path))
            # What the limit had stopped goes on.
            until(lambda: ask(address, "GET", "/v1/gates?status=open")[1]["gates"] == [])
            until(lambda: any(b"is withdrawn" in body for body, _ in receiver.requests))
        assert "a promise is withdrawn" in said.with_suffix(".log").read_text()
    assert config.read_text().endswith(SETTINGS)
    note = msgspec.json.decode((store / PROMISES_FILE).read_bytes())
    assert [each["rule"] for each in note["withdrawn"]] == ["consecutive_errors"]
