"""What a world can do to a plane: the words in which faults are written, so that a fault need not know its world.

Whoever begins something ends it too, also when it is cancelled on the way: a fault is a coroutine with a `finally`. A deed
is done whole or not at all: who is cancelled while it waits for one has done nothing. One that lasts returns a handle that
`calm` ends; where several do the same to the same thing, the last one to end ends it.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NoReturn

from msgspec import Struct

from bus.port import Bus
from core.fact import Event
from core.messages.base import Message
from core.nouns.ids import DatasetName, LogName, RegionName
from runtime.data.emulated_world import EmulatedDisk
from runtime.wiring import Plan, Unit
from scenarios.accounting.witness import Witness
from scenarios.schema.outcome import Outcome

WRITE_SECONDS_MAX = 180.0
"""For which a batch is waited for that is to be struck."""


class CannotCause(Exception):
    """This world has no means to cause that."""


class PlaneFailed(Exception):
    """A process died of what must not happen: whoever waits for an answer may wait for ever."""


class Link(Struct, frozen=True):
    """Between these endpoints and those, by their names on the bus; a `*` at the end stands for any rest."""

    ones: tuple[str, ...] = ("*",)
    others: tuple[str, ...] = ("*",)
    is_one_way: bool = False
    """Only what the first say to the others."""


class Disturbance(Struct, frozen=True):
    """What happens to messages on a link."""

    drop: float = 0.0
    """Share that is lost."""
    repeat: float = 0.0
    """Share that arrives twice."""
    repeat_seconds: float = 0.05
    """The second comes up to so much later."""
    repeats_in_order: bool = False
    """It comes exactly so much later, so that all comes again in its order."""
    delay: float = 0.0
    """Share that is late."""
    delay_seconds: float = 0.5
    """By up to so much."""
    reorders: bool = False
    """What one says to one hearer may overtake what it said before."""


class Misfortune:
    """The deeds of a world. Each of these raises CannotCause where the world has no means for it."""

    world = "this world"
    """What it is called in texts."""
    plan: Plan
    units: Sequence[Unit]

    async def calm(self, handle: object) -> None:
        """End one thing that lasts, which returned this."""
        assert callable(handle), handle
        ended = handle()
        if inspect.isawaitable(ended):
            await ended

    # Processes.

    async def kill(self, unit: Unit) -> None:
        """As by kill -9; it stays dead until `revive`."""
        self._cannot("kill a process")

    async def kill_writing(self, unit: Unit, fate: str, *, sort: type[Event] = Event) -> bool:
        """The same of a keeper, between the write and the fsync of its next batch with an event of this sort, which is then `lost`, `torn` or
        `kept`; if that is not said, before anybody is told of it, whatever is left of it then. Returns whether it wrote any
        within three minutes; if not, nothing was done.
        """
        self._cannot("kill a keeper between a write and its fsync")

    async def revive(self, unit: Unit) -> None:
        """Let it be started again. No harm if it lives."""
        self._cannot("start a process again")

    async def pause(self, unit: Unit, *, is_at_once: bool = False) -> object:
        """As by SIGSTOP: it does nothing, and what is said to it waits. It ends with the life that was paused, too. A world
        may wait a moment for one at which the process is in the middle of something, unless it is to be at once.
        """
        self._cannot("pause a process")

    async def hang(self, unit: Unit, *, decides: bool) -> None:
        """The process stands still, as by SIGSTOP, or decides without end. Returns once its supervisor has ended it for that; whoever is
        cancelled before lets a process that stands still go on.
        """
        self._cannot("hang a process")

    async def start_second(self, unit: Unit) -> str:
        """Start another process that keeps the same log, as by mistake. Returns what it died of; empty: it lives on."""
        self._cannot("start a second keeper")

    # The bus.

    async def disturb(self, link: Link, disturbance: Disturbance) -> object:
        """Disturb a link until it is calmed; several disturbances add up."""
        self._cannot("disturb messages")

    async def cut(self, link: Link) -> object:
        """Let nothing pass until it is calmed. Whoever is cut from itself is cut from the bus."""
        self._cannot("cut a link")

    async def stop_bus(self) -> object:
        """The server is gone until it is calmed."""
        self._cannot("stop the bus")

    async def say_raw(self, message: Message, spoil: int) -> None:
        """Say a message so many bits of which were flipped (drawn from `spoil`) that it is none any more, to whoever hears
        such messages.
        """
        self._cannot("spoil messages")

    # Disks and clocks.

    async def fill_disk(self, log: LogName) -> object:
        """No room for another batch, nor for a snapshot, until it is calmed."""
        self._cannot("fill a disk")

    async def slow_disk(self, log: LogName, seconds: float) -> object:
        """Each batch takes so much longer to be durable, one that is under way too, until it is calmed."""
        self._cannot("slow a disk")

    async def fail_sync(self, log: LogName, fate: str) -> bool:
        """The next batch cannot be made durable; its keeper dies of that, and finds it `lost` or `kept`. Returns whether
        there was any within three minutes.
        """
        self._cannot("fail an fsync")

    async def flip_byte(self, log: LogName, place: float) -> int:
        """One byte of a durable row rots, `place` of the way through the log. Returns the row's sequence; 0: there is none."""
        self._cannot("flip a byte")

    async def mend_byte(self, log: LogName, sequence: int) -> None:
        """The row is put back from a copy."""
        self._cannot("mend a byte")

    async def verify(self, log: LogName) -> int:
        """The first sequence at which the log is broken; 0: it is sound."""
        self._cannot("verify a log")

    async def last_death(self, unit: Unit) -> str:
        """What a process died of by itself since which it has not come up; empty if it lives."""
        self._cannot("tell what a process died of")

    async def start_old_build(self, unit: Unit) -> str:
        """Start an older build of a keeper on a copy of its log that a newer one has written to. Returns what it died of."""
        self._cannot("start an old build")

    async def step_clock(self, unit: Unit, seconds: float) -> None:
        """The wall clock of its machine jumps. A host reads it once, at its start."""
        self._cannot("step a clock")

    async def skew_clock(self, unit: Unit, share: float) -> object:
        """Its clock gains so much (0.01: a second in a hundred) from its next start on, until it starts calmed."""
        self._cannot("skew a clock")

    # Nodes: those that one worker serves.

    async def power_off(self, worker: Unit) -> None:
        """The worker and its tasks are gone at once; nothing is remembered but what its disk has. `revive` starts it."""
        self._cannot("cut the power of nodes")

    async def freeze(self, worker: Unit) -> object:
        """The worker and its tasks stand still until they are calmed, and go on where they stood. A worker that dies
        meanwhile cannot be started before that.
        """
        self._cannot("freeze nodes")

    async def slow_tasks(self, worker: Unit, factor: float) -> object:
        """What is started there takes so many times as long, until it is calmed."""
        self._cannot("slow a GPU")

    async def fail_tasks(self, worker: Unit, exit_code: int, node: int | None = None) -> int:
        """All that runs there dies with this exit code. Returns how many shares that were."""
        self._cannot("fail tasks")

    async def break_nodes(self, worker: Unit, exit_code: int) -> object:
        """All that is started there dies at once with this exit code, until it is calmed."""
        self._cannot("break nodes")

    async def ail_nodes(self, worker: Unit, what: str) -> object:
        """A look at the hardware of its nodes finds this wrong with all of them, until it is calmed."""
        self._cannot("make hardware ill")

    # Data.

    async def slow_data(self, source: RegionName, target: RegionName, permille: int) -> object:
        """Copies from one region to another move at so many thousandths of their rates, until it is calmed; 0: not at all."""
        self._cannot("slow copies of data")

    async def corrupt_data(self, source: RegionName, target: RegionName, copies: int) -> None:
        """The next copies from one region to another arrive with another hash."""
        self._cannot("spoil copies of data")

    async def fill_data_disk(self, region: RegionName) -> object:
        """Nothing can be copied to a region, until it is calmed."""
        self._cannot("fill the disk of a data service")

    def _cannot(self, deed: str) -> NoReturn:
        raise CannotCause(f"{self.world} cannot {deed}")


class World(Misfortune, ABC):
    """A plane in one world, from its start to its end."""

    @abstractmethod
    async def start(self) -> None:
        """Start every process, and wait until the plane is up."""

    async def close_plane(self) -> None:
        """End the plane in order, where what is to be checked is what it left behind."""

    @abstractmethod
    async def stop(self) -> None:
        """End everything, also what has not quite begun."""

    @abstractmethod
    def now(self) -> float:
        """Seconds, from anywhere."""

    def facts_now(self) -> float:
        """The same on the clock by which the witness is told when facts became durable."""
        return self.now()

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Wait."""

    @abstractmethod
    def user(self, name: str) -> Bus:
        """An endpoint for somebody outside the plane."""

    can_be_seen_through = False
    """Whether messages can be overheard, and disks and nodes looked at, from outside the plane."""
    failures: Sequence[tuple[Unit, BaseException]]
    """Processes that died of what must not happen."""

    def mistakes(self) -> list[str]:
        """The same in words."""
        return [f"{unit.name} died of {failure!r}" for unit, failure in self.failures]

    @abstractmethod
    async def account(self, outcome: Outcome) -> None:
        """Put into the outcome what only the world knows: kills, messages, the digest."""

    @abstractmethod
    async def dead(self) -> list[str]:
        """Names of the processes that do not run."""

    @abstractmethod
    async def replay_problems(self, witness: Witness) -> list[str]:
        """Logs that are not whole, and keepers that have something else than their logs fold to."""

    def spool_problems(self) -> list[str]:
        """What ran twice, or on devices that are not there, or still runs, as far as the world can see that."""
        return []

    def mail_problems(self) -> list[str]:
        """What mailboxes took out of order, or let wait too long, as far as the world can see that."""
        return []

    def overhear(self, kinds: Sequence[type[Message]], overhear: Callable[[str, Message], None]) -> None:
        """Be told of every such message by whom it is said, before it is on its way, where the world can see that."""

    def watch_calls(self, begun: Callable[[bytes, str], None]) -> None:
        """Be told of each call that an emulated executor begins, by its arguments and its server, where the world can see that."""

    def messages(self) -> int:
        """How many were delivered so far, heads and beats not counted. Only where messages can be overheard."""
        self._cannot("count messages")

    def durable(self, log: LogName) -> int:
        """How many facts of a log are durable at this moment. Only where messages can be overheard."""
        self._cannot("say what is durable at this moment")

    def data_disk(self, region: RegionName) -> EmulatedDisk:
        """Return the disk of a region's data service. Only where disks can be looked at."""
        self._cannot("look at the disk of a data service")

    def put_data(self, region: RegionName, dataset: DatasetName) -> None:
        """Have an operator put a dataset's files in a region, where the world emulates its disk."""

    def look(self, log: LogName) -> None:
        """Let the witness see what of a log is durable by now, where it does not see that at once."""

    @abstractmethod
    async def is_quiet(self) -> bool:
        """Whether every process lives, and nothing is pending, running, held or lost."""
