"""JSON of a type is decoded on any thread."""

import ast
import subprocess
import sys

from tests.paths import ROOT

SRC = ROOT / "src" / "looptrace"
# Each class is new to all threads when they begin.
AT_ONCE = """
import sys
from dataclasses import make_dataclass
from threading import Barrier, Thread
from typing import Optional

from looptrace.typed_json import decoded

sys.setswitchinterval(1e-6)
NAMES = [f"f{place}" for place in range(20)]
for _ in range(50):
    kind = make_dataclass("Kind", [(name, Optional[list[dict[str, int]]]) for name in NAMES])
    body = "{" + ",".join(f'"{name}":[{{"a":1}}]' for name in NAMES) + "}"
    barrier, values = Barrier(6), []

    def run():
        barrier.wait()
        values.append(decoded(body, kind))

    threads = [Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [kind(*[[{"a": 1}]] * len(NAMES))] * 6
"""


def test_threads_that_decode_a_new_class_at_once_live() -> None:
    """With `msgspec.json.decode(body, type=kind)` the process ends by a signal."""
    done = subprocess.run([sys.executable, "-c", AT_ONCE], check=False, capture_output=True)

    assert (done.returncode, done.stderr) == (0, b"")


def test_types_are_decoded_in_one_place() -> None:
    """Another place would find out a class without the lock."""
    calls = [
        f"{path.relative_to(SRC)}:{call.lineno}"
        for path in sorted(SRC.rglob("*.py"))
        if "json.decode" in (text := path.read_text("utf-8"))
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("json.decode")
        if any(keyword.arg == "type" for keyword in call.keywords)
    ]

    assert calls == []
