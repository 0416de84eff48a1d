"""What a server changes in its process while it runs."""

import gc
import sys

from looptrace.collector.server.process import quick_to_answer


def test_a_server_rarely_looks_at_all_objects_and_leaves_the_process_as_it_was() -> None:
    """Each look stops all threads; a process that serves for a while gets its own settings back."""
    before = gc.get_threshold(), sys.getswitchinterval(), gc.get_freeze_count()
    with quick_to_answer():
        young, middle, old = gc.get_threshold()
        assert young * middle * old >= 10_000_000
        assert sys.getswitchinterval() < before[1]
    assert (gc.get_threshold(), sys.getswitchinterval(), gc.get_freeze_count()) == before
