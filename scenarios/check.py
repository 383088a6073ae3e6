"""What a check is: asked at the end of a run, and told on the way what it wants to hear, says what should not be."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol

from core.messages.base import Message
from core.nouns.ids import ShareKey
from scenarios.accounting.calls import CallsKept
from scenarios.accounting.witness import Witness
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.outcome import Outcome
from scenarios.schema.parts import Part
from scenarios.users import Users
from scenarios.worlds.interface import World

Overhear = Callable[[str, Message], None]
"""Told by whom a message is said, and which, before it is on its way."""


class Spec(Protocol):
    """A scenario, as far as checks read it (scenarios/scenario.py)."""

    @property
    def checks(self) -> "tuple[Check, ...]": ...
    @property
    def span(self) -> float: ...
    @property
    def fleet(self) -> FleetSpec: ...
    @property
    def tenants(self) -> Mapping[str, object]: ...


class Run(Protocol):
    """A run of a scenario, as far as checks read it (scenarios/play/run.py)."""

    world: World
    witness: Witness
    users: Users
    outcome: Outcome
    quiet_from: float | None
    shares: set[ShareKey]
    calls: CallsKept

    @property
    def spec(self) -> Spec: ...


class Check(Part, frozen=True):
    """Something that must be so."""

    sees_through: ClassVar[bool] = False
    """Whether it looks at messages, disks or nodes, which only a world that can be seen through shows."""

    def begin(self, run: Run) -> None:
        """Before the first arrival: for a check that listens."""

    async def in_calm(self, run: Run) -> list[str]:
        """The same, while the plane still runs: for a check that asks it something, or tries what it can do.

        What is submitted here is not in the run's figures.
        """
        return []

    async def at_end(self, run: Run) -> list[str]:
        """What should not be, in sentences; the plane has calmed down, or its time is over, and it may have been stopped."""
        return []
