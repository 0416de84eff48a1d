"""The actions that a finding may ask for; imports only what an agent's process has."""

from typing import Literal, get_args

# From the mildest to the strongest.
Action = Literal["warn", "retry_later", "pivot", "force_next", "unblock_authority", "gate"]
ACTIONS: tuple[Action, ...] = get_args(Action)
