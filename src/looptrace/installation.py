"""How looptrace is installed: the one place to change on the day of its first release.

`make docs` writes both constants into all pages and examples. This module imports nothing.
"""

SOURCE = "."  # A checkout; "looptrace" where a package index has it.
REVISION = "main"  # What a pipeline takes of a copy on GitHub; then the tag of the release.


def install_command(extra: str = "") -> str:
    """Return the command that installs looptrace with an extra, in the folder of its source."""
    return f"pip install '{SOURCE}[{extra}]'" if extra else f"pip install {SOURCE}"


def how_to_install(extra: str) -> str:
    """Return the command with the folder to run it in, as errors name it."""
    return install_command(extra) + (" in a checkout of looptrace" if SOURCE == "." else "")
