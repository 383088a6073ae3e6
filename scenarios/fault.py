"""What a fault is: a coroutine over the deeds of a world, whose chance is drawn from the seed and its place in the scenario.

A fault that is taken out of a scenario changes nothing of the others' draws. It undoes what it did when it is cancelled:
that is how misfortune ends.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from core.nouns.ids import LogName, RegionName
from runtime.wiring import Unit, bus_name_of, log_kept_by
from scenarios.schema.fleet import FleetSpec, units_meant
from scenarios.schema.parts import Endpoints, FieldError, Part, Range, Times, unknown
from scenarios.schema.tenants import Tenants
from scenarios.worlds.interface import Disturbance, Link, World

if TYPE_CHECKING:
    from scenarios.controller import Controllers
    from scenarios.users import Users


USERS = "client.*"
"""Everybody outside the plane, on the bus."""


class Stage(Struct):
    """What a fault strikes, one occurrence of it."""

    world: World
    users: "Users"
    dice: random.Random
    """Of this occurrence alone."""
    span: float
    """Seconds of the load."""
    fleet: FleetSpec
    controllers: "Controllers"
    tenants: Tenants = {}
    """That the scenario has."""
    problems: list[str] = []
    """What the fault itself saw that should not be."""
    has_struck: bool = True
    """Unset by a fault for as long as it still waits for something that it could strike; so one that never came is not
    counted.
    """

    def draw(self, amount: Range) -> float:
        """A number of this range."""
        return self.dice.uniform(amount[0], amount[1]) if isinstance(amount, tuple) else amount

    async def wait(self, amount: Range) -> None:
        """Sleep for a drawn number of seconds."""
        await self.world.sleep(self.draw(amount))

    async def last(self, amount: Range | None) -> None:
        """Sleep for a drawn number of seconds; or, without one, until misfortune ends."""
        await self.world.sleep(10 * self.span + 1e6 if amount is None else self.draw(amount))

    @asynccontextmanager
    async def lasting(self, deed: Awaitable[object]) -> AsyncIterator[None]:
        """Do what lasts, and end it with the context."""
        handle = await deed
        try:
            yield
        finally:
            await self.world.calm(handle)

    async def undo(self, made: Callable[[], Awaitable[list[str]]]) -> None:
        """Undo an operator's request, and begin again if the end of the faults interrupts the undoing.

        An undoing may wait for as long as the plane is dead, and then the interruption would leave the request standing for ever.
        """
        try:
            self.problems += await made()
        except asyncio.CancelledError:
            self.problems += await made()
            raise

    def one_of(self, units: Sequence[Unit]) -> Unit:
        """One of them, drawn."""
        return units[self.dice.randrange(len(units))]


class Fault(Part, frozen=True):
    """One sort of misfortune."""

    is_misfortune: ClassVar[bool] = True
    """Whether anything goes wrong with it: what users and operators may do at any time is none."""
    after_seconds: Range | None = None
    """After the first arrival could come; at any time of the load, if this is not said."""
    times: Times = 1
    """Each time drawn anew."""

    async def strike(self, stage: Stage) -> None:
        """Happen once, its time having come. Raises CannotCause."""
        raise NotImplementedError

    def problem(
        self, fleet: FleetSpec, units: Sequence[Unit], path: tuple[str | int, ...]
    ) -> FieldError | None:
        """What the types cannot say is wrong with it on this fleet."""
        return None

    @property
    def controller(self) -> str:
        """The controller that it strikes, if it is to strike just one."""
        return ""

    @property
    def of_tenants(self) -> tuple[str, ...]:
        """Tenants whom it names."""
        return ()

    def when(self, span: float) -> Range:
        """Seconds after the first arrival could come."""
        return (0.0, span) if self.after_seconds is None else self.after_seconds


class UnitFault(Fault, frozen=True):
    """A misfortune of one process, drawn among those that are meant."""

    role: str = ""
    region: str = ""
    member: str = ""

    def among(self, units: Sequence[Unit]) -> list[Unit]:
        """All whom such a misfortune can strike."""
        return list(units)

    def meant(self, units: Sequence[Unit]) -> list[Unit]:
        """All whom this one may strike."""
        return units_meant(self.among(units), self.role, self.region, self.member)

    def problem(
        self, fleet: FleetSpec, units: Sequence[Unit], path: tuple[str | int, ...]
    ) -> FieldError | None:
        """That it means nobody."""
        if self.meant(units):
            return None
        return FieldError(path, nobody(self.among(units), self.role, self.region, self.member))


class KeeperFault(UnitFault, frozen=True):
    """A misfortune of one keeper, or of its log."""

    def among(self, units: Sequence[Unit]) -> list[Unit]:
        """The queue and the stores."""
        return [unit for unit in units if log_kept_by(unit) is not None]

    def drawn(self, stage: Stage) -> tuple[Unit, LogName]:
        """One of those that are meant, and the log that it keeps."""
        keeper = stage.one_of(self.meant(stage.world.units))
        log = log_kept_by(keeper)
        assert log is not None, keeper
        return keeper, log


class WorkerFault(UnitFault, frozen=True):
    """A misfortune of the nodes that one worker serves."""

    def among(self, units: Sequence[Unit]) -> list[Unit]:
        """The workers."""
        return [unit for unit in units if unit.role == "worker"]

    def drawn(self, stage: Stage) -> Unit:
        """One of those that are meant."""
        return stage.one_of(self.meant(stage.world.units))


class RegionFault(Fault, frozen=True):
    """A misfortune of a place in one region, drawn if none is named."""

    region: str = ""

    def problem(
        self, fleet: FleetSpec, units: Sequence[Unit], path: tuple[str | int, ...]
    ) -> FieldError | None:
        """That there is no such region."""
        if not self.region or units_meant(units, region=self.region):
            return None
        return FieldError((*path, "region"), nobody(units, "", self.region, ""))

    def drawn(self, stage: Stage) -> RegionName:
        """The region that is struck."""
        names = stage.world.plan.region_names()
        return RegionName(self.region) if self.region else names[stage.dice.randrange(len(names))]


def nobody(units: Sequence[Unit], role: str, region: str, member: str) -> str:
    """That there is no such process, and what there is instead."""
    roles = sorted({unit.role for unit in units})
    if role and role not in roles:
        return f"there is no role `{role}`; there are {', '.join(roles)}"
    regions = sorted({unit.region for unit in units if unit.region})
    if region and region not in regions:
        return f"there is no region `{region}`; there are {', '.join(regions)}"
    if role and region and not units_meant(units, role, region):
        placed = sorted({unit.region for unit in units_meant(units, role) if unit.region})
        if not placed:
            return f"a `{role}` is of no region"
        return f"region `{region}` has no `{role}`; there is one in {', '.join(placed)}"
    members = sorted({unit.member for unit in units_meant(units, role, region) if unit.member})
    return f"there is no {role or 'process'} `{member}`; there are {', '.join(members) or 'none with a name'}"


def nameless(units: Sequence[Unit], names: Sequence[str], path: tuple[str | int, ...]) -> FieldError | None:
    """The first name that no endpoint on the bus has, or begins with where it ends with a `*`."""
    known = [*(bus_name_of(unit) for unit in units), USERS]
    for number, name in enumerate(names):
        is_known = name in known or (name.endswith("*") and any(one.startswith(name[:-1]) for one in known))
        if not is_known:
            return FieldError((*path, number), unknown(name, known, what="endpoints"))
    return None


def outside(units: Sequence[Unit], inside: Sequence[Unit]) -> tuple[str, ...]:
    """What all others are called on the bus, users too."""
    within = set(inside)
    return (*(bus_name_of(unit) for unit in units if unit not in within), USERS)


class LinkFault(Fault, frozen=True):
    """A misfortune of messages between endpoints, by their names on the bus: `queue`, `store.eu`, `agent.eu.*`."""

    ones: Endpoints = ("*",)
    others: Endpoints = ("*",)
    one_way: bool = False
    for_seconds: Range | None = None
    """Until misfortune ends, if this is not said."""

    def problem(
        self, fleet: FleetSpec, units: Sequence[Unit], path: tuple[str | int, ...]
    ) -> FieldError | None:
        """That a name is nobody's."""
        return nameless(units, self.ones, (*path, "ones")) or nameless(units, self.others, (*path, "others"))

    @property
    def controller(self) -> str:
        """The controller that it strikes, if it is to strike just one."""
        return ""

    def when(self, span: float) -> Range:
        """From the first arrival on, if nothing else is said."""
        return 0.0 if self.after_seconds is None else self.after_seconds

    def disturbance(self) -> Disturbance:
        """What happens to messages."""
        raise NotImplementedError

    async def strike(self, stage: Stage) -> None:
        """Disturb the link for a while."""
        link = Link(self.ones, self.others, self.one_way)
        async with stage.lasting(stage.world.disturb(link, self.disturbance())):
            await stage.last(self.for_seconds)
