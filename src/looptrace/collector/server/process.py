"""What a server sets for its whole process: threads, garbage collector, memory and open files."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

if sys.platform != "win32":
    import resource

# Request threads get the interpreter back after at most this long.
_SWITCH_S = 0.001
# The thresholds of the garbage collector. A look at all objects stops every thread, for 0.2 s with
# a few thousand tasks, and by default there is one every three seconds. Hardly any object is in a
# circle: 2,330 of 840,000 were garbage after a minute of 2,000 spans/s with the collector off.
_GC_THRESHOLDS = (5_000, 20, 100)

# The parameters M_MMAP_THRESHOLD and M_MMAP_MAX of glibc's allocator, and their values. By default,
# once a block of some MiB was freed, others as large are cut out of memory that is kept: 100 bodies
# of 15 MiB left 40 MiB. The system allows a process 65,530 mappings.
_ALLOCATOR = {-3: 64 * 1024, -4: 16_384}


@contextmanager
def quick_to_answer() -> Iterator[None]:
    """Keep threads and the garbage collector from delaying answers."""
    switch_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.freeze()
    try:
        yield
    finally:
        sys.setswitchinterval(switch_s)
        gc.set_threshold(*thresholds)
        gc.unfreeze()  # Objects that are still frozen at the end of a process look like a leak.


def return_memory() -> None:
    """Have glibc return each large block to the system when it is freed."""
    if sys.platform == "linux" and (set_option := getattr(ctypes.CDLL(None), "mallopt", None)):
        for option, value in _ALLOCATOR.items():
            set_option(option, value)


def allow_files() -> None:
    """Raise the limit of connections and files to the most that the user allows."""
    if sys.platform != "win32":
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
