"""What a keeper has beyond a follower: its log, and the image of it."""

from msgspec import Struct

from core.images import Image
from runtime.keeping.clock_guard import ClockGuard
from store.port import Log


class Kept(Struct):
    """What a keeper has beyond a follower."""

    log: Log
    image: Image
    fleet: str
    build: str
    guard: ClockGuard | None = None
    """Compares the log's time with the machine's clock; None: nothing does."""
