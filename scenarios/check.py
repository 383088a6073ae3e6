"""What a check is: asked at the end of a run, and told on the way what it wants to hear, says what should not be."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from core.messages.base import Message
from scenarios.parts import Part

if TYPE_CHECKING:
    from scenarios.run import Run

Overhear = Callable[[str, Message], None]
"""Told by whom a message is said, and which, before it is on its way."""


class Check(Part, frozen=True):
    """Something that must be so."""

    def begin(self, run: "Run") -> None:
        """Before the first arrival: for a check that listens."""

    async def at_end(self, run: "Run") -> list[str]:
        """What should not be, in sentences; the plane has calmed down, or its time is over."""
        return []
