"""What can be done to a simulated plane: anything, at any await, from a seed."""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from bus.catalogue import subject_of
from bus.errors import BusError
from bus.faults import Faults, between
from bus.simulated import SimulatedNetwork
from core.codec import decode_event
from core.events.queue import WorkloadAwarded
from core.fact import Event
from core.messages.base import Message
from core.nouns.ids import LogName, RegionName
from core.nouns.instant import SECOND, seconds
from core.nouns.limits import RESTART_DELAY_MIN, UNANSWERED_MAX
from runtime.data.emulated_world import DataWorld
from runtime.dispatch.turns import Pace
from runtime.errors import HostError
from runtime.virtual_loop import VirtualLoop
from runtime.wiring import Unit, log_kept_by
from scenarios.accounting.mail_watch import MailWatch
from scenarios.worlds.function_books import NodesBook
from scenarios.worlds.interface import WRITE_SECONDS_MAX, Disturbance, Link, Misfortune
from scenarios.worlds.malformed_bytes import spoiled
from scenarios.worlds.nodes import TroubledNodes
from scenarios.worlds.overlapping import Lasting
from scenarios.worlds.simulated.disks import SYNC_SECONDS, Disks
from scenarios.worlds.simulated.strike_times import Moments
from scenarios.worlds.simulated.unit import SimulatedUnit
from store.errors import LogError
from store.memory import MemoryReader
from store.memory_disk import Fate

WRITING_SHARE = 0.3
"""Of the deaths of keepers, those that wait for a batch under way: so short that few of their callbacks fall into it."""
WRITING_SECONDS_MAX = 5.0
"""For which they wait."""
SYNC_LOOK_SECONDS = 0.02
"""Between looks whether a keeper has died of its batch: less than it needs to come back."""


class SimulatedDeeds(Misfortune, ABC):
    """The deeds of the simulated world."""

    loop: VirtualLoop
    network: SimulatedNetwork
    pace: Pace | None
    mail: list[MailWatch]
    store: Disks
    data: DataWorld
    all: list[SimulatedUnit]
    kills: int
    hangs_ended: int
    kills_mid_award: int
    """Of kills while a batch was written, those in which it had an award."""
    new_log_id: Callable[[], str]

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.seed = seed
        self.moments = Moments(loop, seed)
        self._bus_stops: Lasting[None] = Lasting(self._stop_or_start_bus)
        self._dark: Counter[Unit] = Counter()
        """Losses of power of workers' machines that last."""

    @abstractmethod
    def process(self, unit: Unit) -> SimulatedUnit:
        """The process that a unit is."""

    @abstractmethod
    def book(self, unit: Unit) -> NodesBook:
        """What functions may use beside a function server."""

    @abstractmethod
    def reader(self, log: LogName) -> MemoryReader:
        """Reads a log, with or without its keeper."""

    # Misfortune: processes.

    async def kill(self, unit: Unit) -> None:
        """At whatever await it is, mostly in the middle of something; also while it starts."""
        one, log = self.process(unit), log_kept_by(unit)
        if one.downs and not one.is_there:
            self._kill(one)  # It is dead, and waits for nothing but those who keep it down.
        elif log is not None and self.moments.dice(unit.name).random() < WRITING_SHARE:
            await self._until_unsynced(unit, log, WRITING_SECONDS_MAX)
            self._kill(one)
        else:
            await self.moments.strike(unit.name, lambda: self._kill(one))

    async def kill_writing(self, unit: Unit, fate: str, *, sort: type[Event] = Event) -> bool:
        """While its newest batch waits for the disk."""
        log = log_kept_by(unit)
        assert log is not None, unit
        if not await self._until_unsynced(unit, log, WRITE_SECONDS_MAX, sort):
            return False
        self.kills_mid_award += self._writes(log, WorkloadAwarded)
        self._kill(self.process(unit), fate)
        return True

    def _writes(self, log: LogName, sort: type[Event]) -> bool:
        return any(isinstance(decode_event(row.event), sort) for row in self.store.under_way(log))

    async def _until_unsynced(
        self, unit: Unit, log: LogName, seconds_max: float, sort: type[Event] = Event
    ) -> bool:
        """Until some moment between the write of the next batch with such an event and its sync; False, if there is none for so long."""
        share = self.moments.dice(unit.name).random()
        try:
            async with asyncio.timeout(seconds_max):
                while True:
                    await self.store.next_write(log)
                    await asyncio.sleep(share * (SYNC_SECONDS + self.store.slowness(log)))
                    if self._writes(log, sort):  # Else somebody else struck it.
                        return True
        except TimeoutError:
            return False

    def _kill(self, one: SimulatedUnit, fate: str = "") -> Callable[[], None]:
        """Returns what lets it live again, for whoever cannot do so by `revive`."""
        self.kills += 1
        one.downs += 1
        one.kill(fate)
        return lambda: self._revive(one)

    async def revive(self, unit: Unit) -> None:
        """Once nobody else keeps it down; after a loss of power with all that is on its machine."""
        if self._dark[unit]:
            self._dark[unit] -= 1
            for one in self._on_machine_of(unit):
                self._revive(one)
        else:
            self._revive(self.process(unit))

    def _revive(self, one: SimulatedUnit) -> None:
        one.downs = max(0, one.downs - 1)
        one.start_soon()

    async def pause(self, unit: Unit, *, is_at_once: bool = False) -> object:
        """Its callbacks wait, and so does what is said to it; once it goes on, all that waited comes at once."""
        one = self.process(unit)
        if is_at_once or not one.is_there:
            return one.pause()
        return await self.moments.strike(unit.name, one.pause)

    async def hang(self, unit: Unit, *, decides: bool) -> None:
        """To stand still and to decide without end are the same here: no callback of the process runs."""
        one = self.process(unit)
        if not one.is_there:
            return
        life, go_on = one.life, one.pause()
        try:
            await asyncio.sleep(UNANSWERED_MAX / SECOND)
        finally:
            go_on()
        if one.life == life:
            self.hangs_ended += 1
            one.kill()
            one.start_soon(RESTART_DELAY_MIN)

    async def start_second(self, unit: Unit) -> str:
        """On the same disk, or on one of its own, as the dice say."""
        log = log_kept_by(unit)
        assert log is not None, unit
        disks = self.store if self.moments.dice(unit.name).random() < 0.5 else self.store.blank()
        return await self._refused(unit, disks)

    async def start_old_build(self, unit: Unit) -> str:
        """On a copy of the log, whose newest fact is of a type that nobody here knows."""
        log = log_kept_by(unit)
        assert log is not None, unit
        return await self._refused(unit, self.store.copy_with_newer_fact(log))

    async def _refused(self, unit: Unit, disks: Disks) -> str:
        second = SimulatedUnit(_Elsewhere(self, disks), unit)
        try:
            await second.start()
        except (BusError, HostError, LogError) as refusal:
            return f"{type(refusal).__name__}: {refusal}"
        finally:
            opened = second.open
            second.kill("kept")
            if opened is not None:
                await opened.close()  # Its log too, for it may have come up on the first one's disk.
        return ""

    # Misfortune: the bus.

    async def disturb(self, link: Link, disturbance: Disturbance) -> object:
        """On top of whatever strikes the link already."""
        faults = Faults(
            drop_probability=disturbance.drop,
            repeat_probability=disturbance.repeat,
            repeat_delay=seconds(disturbance.repeat_seconds),
            repeats_in_order=disturbance.repeats_in_order,
            extra_delay_probability=disturbance.delay,
            extra_delay=seconds(disturbance.delay_seconds),
            is_reordering=disturbance.reorders,
        )
        handle = self.network.disturb(between(link.ones, link.others, link.is_one_way), faults)
        return lambda: self.network.calm(handle)

    async def cut(self, link: Link) -> object:
        """Nothing passes, nor arrives that is on its way."""
        cut = self.network.cut(link.ones, link.others, link.is_one_way)
        return lambda: self.network.heal(cut)

    async def stop_bus(self) -> object:
        """With all that is on its way. When it is back, all find it at once."""
        return self._bus_stops.begin(None)

    def _stop_or_start_bus(self) -> None:
        if self._bus_stops and self.network.is_up:
            self.network.down()
        elif not self._bus_stops and not self.network.is_up:
            self.network.up()

    async def say_raw(self, message: Message, spoil: int) -> None:
        """Bit by bit, until nobody can take it for a message."""
        self.network.deliver_raw(subject_of(self.plan.fleet, message), spoiled(message, spoil))

    # Misfortune: disks and clocks.

    async def fill_disk(self, log: LogName) -> object:
        """For batches and for snapshots. Its keeper goes on when there is room."""
        return self.store.fill(log)

    async def slow_disk(self, log: LogName, seconds: float) -> object:
        """The slowest of several counts."""
        return self.store.slow(log, seconds)

    async def fail_sync(self, log: LogName, fate: str) -> bool:
        """Once."""
        keeper = next(one for one in self.all if log_kept_by(one.unit) == log)
        deaths, until = len(keeper.deaths), self.loop.time() + WRITE_SECONDS_MAX
        end = self.store.fail_sync(log, Fate(fate))
        try:
            while self.loop.time() < until:
                await asyncio.sleep(SYNC_LOOK_SECONDS)
                if any(death.startswith("AppendFailed") for death in keeper.deaths[deaths:]):
                    return True
            return False
        finally:
            end()

    async def flip_byte(self, log: LogName, place: float) -> int:
        """The lowest bit of the first byte of a row's event."""
        return self.store.flip(log, place)

    async def mend_byte(self, log: LogName, sequence: int) -> None:
        """Flip it back."""
        self.store.mend(log, sequence)

    async def verify(self, log: LogName) -> int:
        """Every row, from the first on."""
        return (await self.reader(log).verify()).broken_at

    async def last_death(self, unit: Unit) -> str:
        """As its process would have logged it."""
        return self.process(unit).last_death

    async def step_clock(self, unit: Unit, seconds: float) -> None:
        """Its next host reads it."""
        self.process(unit).clock_step += round(seconds * SECOND)

    async def skew_clock(self, unit: Unit, share: float) -> object:
        """Its next host lives by it; several add up."""
        return self.process(unit).skews.begin(share)

    # Misfortune: nodes.

    async def power_off(self, worker: Unit) -> None:
        """With all that runs there, at once: others may lose theirs at the same instant."""
        self.kills += 1
        self._dark[worker] += 1
        for one in self._on_machine_of(worker):
            one.downs += 1
            one.lose_power()

    async def freeze(self, worker: Unit) -> object:
        """The worker with its tasks; each goes on once nobody else has frozen it, nor paused the worker."""
        ends = [one.freeze() for one in self._on_machine_of(worker)]

        def thaw() -> None:
            for end in ends:
                end()

        return thaw

    async def slow_tasks(self, worker: Unit, factor: float) -> object:
        """The slowest of several counts."""
        return self._nodes(worker).slow.begin(factor)

    async def fail_tasks(self, worker: Unit, exit_code: int, node: int | None = None) -> int:
        """All at once."""
        return self._nodes(worker).fail_all(exit_code, node)

    async def break_nodes(self, worker: Unit, exit_code: int) -> object:
        """With the exit code of whoever broke them last."""
        return self._nodes(worker).broken.begin(exit_code)

    async def ail_nodes(self, worker: Unit, what: str) -> object:
        """The newest is what a look finds."""
        return self._nodes(worker).ills.begin(what)

    async def slow_data(self, source: RegionName, target: RegionName, permille: int) -> object:
        """The newest word counts; the end of each restores the link."""
        self.data.slow_link(source, target, permille)
        return lambda: self.data.restore_link(source, target)

    async def corrupt_data(self, source: RegionName, target: RegionName, copies: int) -> None:
        """As many as are said."""
        self.data.corrupt_link(source, target, copies)

    async def fill_data_disk(self, region: RegionName) -> object:
        """Copies under way fail."""
        self.data.fill_disk(region)
        return lambda: self.data.free_disk(region)

    def _on_machine_of(self, worker: Unit) -> list[SimulatedUnit]:
        """The worker, and the function server beside it where there is one."""
        server = replace(worker, role="function_server")
        return [self.process(worker), *(one for one in self.all if one.unit == server)]

    def _nodes(self, worker: Unit) -> TroubledNodes:
        spool = self.process(worker).spool
        assert spool is not None, worker
        return spool


class _Elsewhere:
    """The same world with other disks: what a second process sees that was started elsewhere."""

    def __init__(self, world: SimulatedDeeds, disks: Disks) -> None:
        self.plan, self.loop, self.network = world.plan, world.loop, world.network
        self.data = world.data
        self.seed = world.seed
        self.decides_twice = False
        self.pace, self.mail = world.pace, world.mail
        self.store = disks
        self.new_log_id, self.book = world.new_log_id, world.book
        self.now: Callable[[], float] = world.loop.time

    def crash_log(self, log: LogName, fate: str) -> None:
        """Whatever it wrote elsewhere is of no interest."""

    def fail(self, unit: Unit, failure: BaseException) -> None:
        """It was not to live."""
