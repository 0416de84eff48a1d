"""Which answer of the server a token with services gets, route by route; others are refused."""

from collections.abc import Mapping
from enum import Enum, unique


@unique
class RouteScope(Enum):
    """How the answer of a route is kept to the services of a token."""

    NOTHING = "It has nothing of the store."
    LISTED = "Its handler leaves out what is of other services."
    SENT = "Its handler refuses the spans of other services."
    GATE = "The gate in the path is of the services."
    DECIDED_GATE = "So is it, and no budget of several tasks opened it."
    INCIDENT = "A gate of the incident in the path is of the services, and the others are left out."
    DECIDED_INCIDENT = "All of its gates are, and no budget of several tasks opened one."
    SILENCE = "The silence in the path is of a service."
    TASK_IN_PATH = "The task in the path is of the services."
    TASK_IN_QUERY = "The task in the query is of the services."
    NEVER = "It cannot be kept to services."


# By method and path. The page has the paths without `/v1`. A route that is not here is refused.
SEEN: Mapping[tuple[str, str], RouteScope] = {
    ("POST", "/v1/traces"): RouteScope.SENT,
    ("POST", "/v1/logs"): RouteScope.SENT,
    ("POST", "/v1/metrics"): RouteScope.NOTHING,
    ("POST", "/v1/forwarded/traces"): RouteScope.NEVER,
    ("POST", "/v1/forwarded/spending"): RouteScope.NEVER,
    ("GET", "/v1/gates/stream"): RouteScope.LISTED,
    ("POST", "/v1/gates/stream"): RouteScope.LISTED,
    ("POST", "/v1/gates/stream/{stream}"): RouteScope.LISTED,
    ("GET", "/v1/gates/metrics"): RouteScope.NEVER,
    ("GET", "/v1/gates"): RouteScope.LISTED,
    ("GET", "/v1/gates/{id}"): RouteScope.GATE,
    ("POST", "/v1/gates/{id}/resolve"): RouteScope.DECIDED_GATE,
    ("GET", "/v1/incidents"): RouteScope.LISTED,
    ("GET", "/v1/incidents/{id}"): RouteScope.INCIDENT,
    ("POST", "/v1/incidents/{id}"): RouteScope.INCIDENT,
    ("POST", "/v1/incidents/{id}/decide"): RouteScope.DECIDED_INCIDENT,
    ("GET", "/v1/silences"): RouteScope.LISTED,
    ("POST", "/v1/silences"): RouteScope.LISTED,
    ("DELETE", "/v1/silences/{id}"): RouteScope.SILENCE,
    ("GET", "/v1/tasks"): RouteScope.LISTED,
    ("GET", "/v1/tasks/{id:path}"): RouteScope.TASK_IN_PATH,
    ("GET", "/v1/warming"): RouteScope.LISTED,
    ("POST", "/v1/erasures"): RouteScope.NEVER,
    ("GET", "/v1/erasures/{id}"): RouteScope.NEVER,
    ("GET", "/openapi.json"): RouteScope.NOTHING,
    ("GET", "/healthz"): RouteScope.NOTHING,
    ("GET", "/readyz"): RouteScope.NOTHING,
    ("GET", "/metrics"): RouteScope.NEVER,
    ("GET", "/"): RouteScope.LISTED,
    # The link itself allows the decision; a sign-in adds nothing.
    ("GET", "/decide/{id}"): RouteScope.GATE,
    ("POST", "/decide/{id}"): RouteScope.DECIDED_GATE,
    ("GET", "/gates/{id}"): RouteScope.GATE,
    ("GET", "/gates/{id}/report"): RouteScope.GATE,
    ("GET", "/gates/{id}/resolve"): RouteScope.GATE,
    ("POST", "/gates/{id}/resolve"): RouteScope.DECIDED_GATE,
    ("GET", "/incidents"): RouteScope.LISTED,
    ("GET", "/incidents/{id}"): RouteScope.INCIDENT,
    ("POST", "/incidents/{id}"): RouteScope.INCIDENT,
    ("GET", "/incidents/{id}/decide"): RouteScope.INCIDENT,
    ("POST", "/incidents/{id}/decide"): RouteScope.DECIDED_INCIDENT,
    ("GET", "/incidents/{id}/exception"): RouteScope.NEVER,
    ("GET", "/silences"): RouteScope.NOTHING,
    ("POST", "/silences"): RouteScope.LISTED,
    ("GET", "/silences/{id}/end"): RouteScope.NOTHING,
    ("POST", "/silences/{id}/end"): RouteScope.SILENCE,
    ("GET", "/tasks"): RouteScope.LISTED,
    ("GET", "/task"): RouteScope.TASK_IN_QUERY,
    ("GET", "/task/turn"): RouteScope.TASK_IN_QUERY,
    ("GET", "/task/why"): RouteScope.TASK_IN_QUERY,
    ("GET", "/overview"): RouteScope.NEVER,
    ("GET", "/rules"): RouteScope.NOTHING,
    ("GET", "/settings"): RouteScope.NEVER,
    ("GET", "/webhooks"): RouteScope.NEVER,
    ("GET", "/webhooks/{name:path}/{act}"): RouteScope.NOTHING,
    ("POST", "/webhooks/{name:path}/test"): RouteScope.NEVER,
    ("POST", "/webhooks/{name:path}/replay"): RouteScope.NEVER,
    ("POST", "/webhooks/{name:path}/enable"): RouteScope.NEVER,
    ("GET", "/health"): RouteScope.NEVER,
    ("GET", "/changes"): RouteScope.NOTHING,
    ("GET", "/sign-in"): RouteScope.NOTHING,
    ("POST", "/sign-in"): RouteScope.NOTHING,
    ("POST", "/sign-out"): RouteScope.NOTHING,
    ("GET", "/assets/{digest}/{name}"): RouteScope.NOTHING,
}


def seen_on(method: str, path: str) -> RouteScope:
    """Return how the answer to a method on a route is kept to services."""
    return SEEN.get(("GET" if method == "HEAD" else method, path), RouteScope.NEVER)
