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


EVENTS: tuple[type[Event], ...] = (LogOpened,)
