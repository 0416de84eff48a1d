"""When spans come to a server: all the time, in bursts, or no longer."""

# Spans that came without a pause have ended after this long.
QUIET_S = 0.5
# Exporters send what they gathered, so that spans come in bursts: they have ended after a pause so
# many times as long as that between bursts, which is forgotten after so many seconds.
PAUSES, REMEMBERED_S = 1.5, 10.0


class Arrivals:
    """The time at which spans came last, and the pause between bursts."""

    def __init__(self) -> None:
        self._came_s: float | None = None
        self._pause_s = self._paused_s = 0.0  # how long it was, and when

    def note(self, now_s: float) -> None:
        """Note that spans came."""
        pause_s = now_s - (now_s if self._came_s is None else self._came_s)
        if pause_s * PAUSES > self._pause_s or now_s - self._paused_s > REMEMBERED_S:
            self._pause_s, self._paused_s = pause_s, now_s
        self._came_s = now_s

    def have_ended(self, now_s: float) -> bool:
        """Return whether no spans came for longer than usual."""
        quiet_s = max(QUIET_S, PAUSES * self._pause_s)
        return self._came_s is None or now_s - self._came_s >= quiet_s
