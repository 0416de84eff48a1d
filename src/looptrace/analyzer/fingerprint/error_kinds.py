"""Kinds of failure that rules tell apart; the core names the kind (`core/data/failures.toml`)."""

from __future__ import annotations

# A wait that fails by it has only not ended yet.
RAN_OUT = "timeout"
# A framework hides what went wrong.
UNTOLD = "untold"
# The agent may mend these by its own edits: a login, a missing module, a server on its own machine.
MENDABLE = ("authentication", "dependency")
OWN_SERVER = r"(?i)\blocalhost\b|\b127\.0\.0\.1\b|\b0\.0\.0\.0\b|\[?::1\b"
