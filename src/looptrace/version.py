"""The version of what is installed; `pyproject.toml` alone says it.

It is read when somebody asks for it, because reading it takes more than an agent's start may.
"""

from importlib.metadata import version

__version__ = version("looptrace")
