"""What the holder of a token may do, by role."""

from collections.abc import Set
from typing import Literal, get_args

from looptrace.collector.api_paths import ERASURES_PATH, STREAM_PATH

Role = Literal["agent", "viewer", "decider", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
MEANING: dict[Role, str] = {
    "agent": "sends spans and follows its gates",
    "viewer": "looks at everything",
    "decider": "looks at everything and decides on gates",
    "admin": "does everything",
}

# They need no token.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
_READ = frozenset({"GET", "HEAD"})
# What agents send: OTLP, and the stream that tells of gates.
_SENT = ("/v1/traces", "/v1/logs", "/v1/metrics")
_HEARD = STREAM_PATH
# Agents and people ask there by POST, which changes nothing unless `--allow-resolve` lets it.
_MCP = "/mcp"
_LOOKING: Set[Role] = {"viewer", "decider", "admin"}


def roles_for(method: str, path: str) -> Set[Role]:
    """Return the roles that may make a request.

    Whatever changes something and is not named here is for those who decide.
    """
    if path.startswith(_HEARD):
        return {*ROLES}
    if path.startswith(ERASURES_PATH):
        return {"admin"}
    if path in _SENT:
        return {"agent", "admin"}
    if path.startswith(_MCP):
        return {*ROLES}
    return _LOOKING if method in _READ else {"decider", "admin"}


def refusal(role: Role, allowed: Set[Role]) -> str:
    """Return why a request of a role is refused, and which role may make it."""
    others = " or ".join(_named(each) for each in ROLES if each in allowed)
    return f"this token is that of {_named(role)}, who {MEANING[role]}; it takes that of {others}"


def _named(role: Role) -> str:
    return f"{'an' if role[0] in 'aeiou' else 'a'} {role}"
