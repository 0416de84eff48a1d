"""`looptrace`, or `python -m looptrace`, is the command line."""

import atexit
import gc
import os
import sys
from io import TextIOWrapper

from looptrace.errors import LooptraceError
from looptrace.installation import how_to_install

EXIT_UNUSABLE = 2  # as for wrong usage
# A server's threads would each keep what they freed, in two arenas for each core and more; short
# commands are faster so.
_ALLOCATOR_OF_SERVERS = "narenas:2,dirty_decay_ms:100,muzzy_decay_ms:0"


def main() -> None:
    """Run the command line, or say what to install: an agent's process may lack its packages."""
    for stream in (sys.stdout, sys.stderr):
        # A character that a terminal cannot show must not end a command.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    atexit.register(_spare_last_search)
    gc.disable()  # until the command is imported: what imports make stays
    # NumPy would start a thread for each core, and nothing here multiplies large matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "serve" in sys.argv[1:]:  # The allocator of Polars reads this when it is loaded.
        os.environ.setdefault("_RJEM_MALLOC_CONF", _ALLOCATOR_OF_SERVERS)
    try:
        # Only here, because the base installation lacks its packages.
        from looptrace.cli.main import run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("looptrace"):
            raise
        print(
            f"looptrace: the command line needs {error.name}, which is not installed; "
            f"install it with: {how_to_install('analyzer')}",
            file=sys.stderr,
        )
        sys.exit(EXIT_UNUSABLE)
    except LooptraceError as error:  # A module among the rules has no rule.
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(EXIT_UNUSABLE)
    run()


def _spare_last_search() -> None:
    """Leave out the search for cycles at the end, which takes a sixth of a short run.

    The process frees its memory anyway. DuckDB's binding would say that its types were leaked.
    """
    if "_duckdb" in sys.modules:
        gc.unfreeze()
    else:
        gc.freeze()


if __name__ == "__main__":
    main()
