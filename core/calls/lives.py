"""Names of the lives of routers and servers: the instant of the start, in hexadecimal."""

from core.nouns.instant import Instant


def life_of(start: Instant) -> str:
    """Return the name of a life."""
    return f"{start:x}"


def is_older(life: str, known: str) -> bool:
    """Return whether a life began before another one, as far as clocks tell; False for a name that is none."""
    try:
        return int(life, 16) < int(known, 16)
    except ValueError:
        return False
