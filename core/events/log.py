"""Events that any log may hold: about the log itself."""

from core.fact import Event


class LogOpened(Event, frozen=True, tag="log-opened"):
    """A keeper opened its log. The first fact of every term."""

    log_id: str
    term: int
    fleet: str
    build: str
    """The version that will write what follows."""
    settings: dict[str, int] = {}
    """The limits that sway decisions, by name: spans in nanoseconds, counts. A replay knows by them what held."""


ABOUT_CLOCKS = "clock"


class ClockAccepted(Event, frozen=True, tag="clock-accepted"):
    """An operator let the log go on, though its time and the clock of its keeper's machine are far apart."""

    machine_at: int
    """The machine's wall time, in nanoseconds."""
    ahead: int
    """Nanoseconds by which the log's time is ahead of that; negative: behind."""

    @property
    def about(self) -> str:
        """The same for all of them, so that a keeper finds the newest when it starts."""
        return ABOUT_CLOCKS


EVENTS: tuple[type[Event], ...] = (LogOpened, ClockAccepted)
