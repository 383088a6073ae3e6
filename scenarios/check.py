"""What a check is: asked at the end of a run, and told on the way what it wants to hear, says what should not be."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from core.messages.base import Message
from scenarios.schema.parts import Part

if TYPE_CHECKING:
    from scenarios.play.run import Run

Overhear = Callable[[str, Message], None]
"""Told by whom a message is said, and which, before it is on its way."""


class Check(Part, frozen=True):
    """Something that must be so."""

    sees_through: ClassVar[bool] = False
    """Whether it looks at messages, disks or nodes, which only a world that can be seen through shows."""

    def begin(self, run: "Run") -> None:
        """Before the first arrival: for a check that listens."""

    async def in_calm(self, run: "Run") -> list[str]:
        """The same, while the plane still runs: for a check that asks it something, or tries what it can do.

        What is submitted here is not in the run's figures.
        """
        return []

    async def at_end(self, run: "Run") -> list[str]:
        """What should not be, in sentences; the plane has calmed down, or its time is over, and it may have been stopped."""
        return []
