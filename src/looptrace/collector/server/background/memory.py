"""The memory of a server's process: what was freed goes back to the system."""

import ctypes
import sys
from typing import Any

# The parameters M_MMAP_THRESHOLD, M_MMAP_MAX and M_ARENA_MAX of glibc's allocator, and their
# values. By default, once a block of some MiB was freed, others as large are cut out of memory that
# is kept: 100 bodies of 15 MiB left 40 MiB. The system allows a process 65,530 mappings. By default
# each thread cuts from an arena of its own, up to eight for a core, and each keeps what it freed.
_ALLOCATOR = {-3: 64 * 1024, -4: 16_384, -8: 2}


def return_memory() -> None:
    """Have glibc return each large block to the system when it is freed, and keep few arenas."""
    if set_option := _of_glibc("mallopt"):
        for option, value in _ALLOCATOR.items():
            set_option(option, value)


def trim_memory() -> None:
    """Return the free pages between small blocks to the system, too, which takes milliseconds."""
    if trim := _of_glibc("malloc_trim"):
        trim(0)


def _of_glibc(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
