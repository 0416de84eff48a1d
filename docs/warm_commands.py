"""Runs the commands of pages in forks of a process that has imported everything already.

`serve` waits for commands, and `python warm_commands.py SOCKET ARGUMENTS` has one run with its own
folder, environment, input and output. Most of the time of a command is that of its imports.
"""

import json
import os
import socket
import sys
from pathlib import Path

_MESSAGE_BYTES_MAX = 1 << 20
_FAILED = 3  # As of a command that crashed.


def serve(path: str) -> None:
    """Wait for commands on a socket; never returns."""
    # Only here, because the other side is to start fast.
    from importlib import import_module  # noqa: PLC0415
    from pkgutil import walk_packages  # noqa: PLC0415

    import looptrace  # noqa: PLC0415

    for module in walk_packages(looptrace.__path__, "looptrace."):
        # Middleware imports frameworks, which are not here.
        if not (
            module.name.endswith(("__main__", "pytest_plugin")) or ".middleware." in module.name
        ):
            import_module(module.name)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{path}.new")
        server.listen()
        # Whoever sees the path may connect.
        Path(f"{path}.new").rename(path)
        while True:
            connection = server.accept()[0]
            if os.fork() == 0:
                os._exit(_run(connection))
            connection.close()
            while _reap():
                pass


def _reap() -> int:
    try:
        return os.waitpid(-1, os.WNOHANG)[0]
    except ChildProcessError:  # All are done.
        return 0


def _run(connection: socket.socket) -> int:
    """Run one command as `python -m looptrace` would; send its exit code."""
    from looptrace.__main__ import main  # noqa: PLC0415

    data, files, _, _ = socket.recv_fds(connection, _MESSAGE_BYTES_MAX, 3)
    arguments, folder, environment = json.loads(data)
    for number, file in enumerate(files):
        os.dup2(file, number)
    # The old ones may know of their files what does not hold for these.
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        for number, mode in enumerate("rww")
    )
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["looptrace", *arguments]
    code: object = _FAILED
    try:
        main()
        code = 0
    except SystemExit as error:
        code = error.code or 0
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        connection.sendall(str(code).encode())
    return 0


def _ask(path: str, arguments: list[str]) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        message = json.dumps([arguments, str(Path.cwd()), dict(os.environ)]).encode()
        socket.send_fds(connection, [message], [0, 1, 2])
        return int(connection.recv(_MESSAGE_BYTES_MAX) or _FAILED)


if __name__ == "__main__":
    sys.exit(_ask(sys.argv[1], sys.argv[2:]))
