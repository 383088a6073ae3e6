"""The world of real processes: a plane as `mizzen up` keeps it, each process behind a way to the bus that can be cut.

What happened is read from the logs' files: the witness sees them grow, and once more, whole, when the plane has stopped.
What this machine has no honest means for is not caused: the batches that a kill -9 leaves behind are the kernel's choice, TCP
loses nothing, clocks and disks are everybody's, and emulated tasks lie on disk and outlive their worker.
"""

import asyncio
import os
import random
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from bus.catalogue import subject_of
from bus.errors import BusError
from bus.nats import NatsConnection
from bus.port import Bus
from bus.server import URL_VARIABLE
from core.fact import Event
from core.messages.base import Message
from core.messages.queue import ListWorkloads, WorkloadsListed
from core.nouns.ids import LogName
from core.nouns.instant import Nanoseconds, seconds
from runtime.images import load_image
from runtime.logs import LEVEL_VARIABLE
from runtime.plane import PROCESSES, PlaneError, PlaneProcesses
from runtime.wiring import Plan, Unit, bus_name_of, log_kept_by, units_of
from scenarios.accounting.witness import Witness
from scenarios.schema.outcome import Outcome
from scenarios.worlds.interface import WRITE_SECONDS_MAX, CannotCause, Disturbance, Link, World
from scenarios.worlds.malformed_bytes import spoiled
from scenarios.worlds.overlapping import Lasting
from scenarios.worlds.processes import unit_main
from scenarios.worlds.processes.deferred_bus import LateBus
from scenarios.worlds.processes.doomed_process import come_to_nothing
from scenarios.worlds.processes.file_activity import has_grown
from scenarios.worlds.processes.proxies import Proxies
from scenarios.worlds.processes.proxy import Delay
from scenarios.worlds.processes.unit_log import UnitLog
from scenarios.worlds.processes.unit_main import HANGS
from scenarios.worlds.simulated.disks import FROM_THE_FUTURE
from store.damage import copy_with_event, flip_byte
from store.sqlite import facts_in
from store.sqlite_file import path_of
from store.sqlite_reader import SqliteReader

ASK: Nanoseconds = seconds(2)
AGAIN_SECONDS = 0.1
START_SECONDS_MAX = 60.0
"""For a plane to come up. It takes a few seconds; a machine that is busy beyond measure may need many."""
LOOK_SECONDS = 0.5
"""Between looks at the logs' files."""
HELD_BACK_SECONDS, HEARD_SECONDS = 0.25, 0.5
"""For which a keeper is not heard that is to die in the middle of a write; then it is heard for a
while, if it has written nothing."""
WRITING_SECONDS = 0.01
"""A write begins and is durable within so long, mostly: one that is struck in the middle of it is struck at any time of these."""
UNANSWERED: Nanoseconds = seconds(15)
"""A process that has not answered for so long hangs; on a machine that is busy beyond measure a loop may be late by some seconds."""
MISFITS = "misfits"
"""In the plane's directory, where processes live that should not: their logs, and what they wrote."""


class ProcessesWorld(World):
    """A plane in one directory, which has no other's logs."""

    world = "processes"

    def __init__(
        self,
        plan: Plan,
        seed: int,
        directory: Path,
        witness: Witness,
        told: Callable[[str], None] = lambda _: None,
    ) -> None:
        """The directory has the fleet file (runtime/plane.py). `told` is told of deeds, in a few words for people."""
        self.plan = plan
        self.directory = directory
        self.units = units_of(plan)
        self.failures: list[tuple[Unit, BaseException]] = []
        self.kills = 0
        self.found_at: Path | None = None
        """Where commands in another terminal may find the plane while it runs."""
        self.plane = PlaneProcesses(
            plan,
            directory / "fleet.yaml",
            directory,
            died=self._died,
            variables=self._variables,
            unanswered_max=UNANSWERED,
            command_line=unit_main.__name__,
        )
        self._witness = witness
        self._told = told
        self._units = {unit.name: unit for unit in self.units}
        self._logs = {name: UnitLog(directory / PROCESSES / f"{name}.log") for name in self._units}
        self._proxies = Proxies(self.units, seed)
        self._users: list[LateBus] = []
        self._connection: NatsConnection | None = None
        self._killed: set[str] = set()
        """Whose next death was ordered."""
        self._hung: set[str] = set()
        """Processes that hang until the supervisor ends them."""
        self.hangs_ended = 0
        self._pauses: dict[str, Lasting[None]] = {}
        """By name, those of this life."""
        self._held_back = asyncio.Lock()
        self._dice = random.Random(f"strike/{seed}")
        self._watching: asyncio.Task[None] | None = None
        self._dead_at_end: list[str] | None = None

    # A world.

    async def start(self) -> None:
        """Start every process, and wait until the queue knows of all nodes. Raises PlaneError, and BusError without a server."""
        await self._proxies.start()
        await self.plane.start()
        if self.found_at is not None:
            self.plane.write_how_to_reach_it(self.found_at)
        self._connection = await NatsConnection.connect(self.plane.url, self.plan.fleet, "client.world")
        for user in self._users:
            user.lead_to(self._connection)
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                await self._until_up(self._connection.endpoint("client.world"))
        except TimeoutError:
            raise PlaneError(
                f"the plane did not come up in {START_SECONDS_MAX:.0f} s; {self.directory / PROCESSES} says why"
            ) from None
        self._watching = asyncio.get_running_loop().create_task(self._watch(), name="world/watch")

    async def close_plane(self) -> None:
        """Every process tells its last words; then the witness sees all that is left."""
        self._dead_at_end = await self.dead()
        await self._close()
        for log in self._logs.values():
            log.read()
        for name in self._witness.logs:
            self.look(name)

    async def stop(self) -> None:
        """No process is left, nor anything that one of them started."""
        await self._close()

    def now(self) -> float:
        """Of this machine."""
        return time.monotonic()

    def facts_now(self) -> float:
        """The wall clock, as keepers read it."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait for real."""
        await asyncio.sleep(seconds)

    def user(self, name: str) -> Bus:
        """On a connection of the world's own, which no proxy is in the way of."""
        user = LateBus(name)
        self._users.append(user)
        if self._connection is not None:
            user.lead_to(self._connection)
        return user

    async def is_quiet(self) -> bool:
        """By the logs' files."""
        if await self.dead():
            return False
        witness = self._witness
        for log in witness.logs:
            self.look(log)
        if any(not row.phase.is_terminal for row in witness.queue.workloads.rows.values()):
            return False
        regions = [witness.region(region).capacity for region in self.plan.region_names()]
        return not any(
            region.holdings or region.promises or any(row.is_lost for row in region.workers.values())
            for region in regions
        )

    async def account(self, outcome: Outcome) -> None:
        """What the run's outcome wants to know of the world."""
        outcome.kills = self.kills
        outcome.figures["hangs_ended"] = float(self.hangs_ended)
        digest = blake2b(digest_size=16)
        for log in self._witness.logs:
            async with self._reading(log) as reader:
                digest.update((await reader.head()).hash)
        outcome.digest = digest.hexdigest()

    async def dead(self) -> list[str]:
        """Those that have no process, or have not said that they are up, and those that stand still."""
        if self._dead_at_end is not None:
            return self._dead_at_end
        for log in self._logs.values():
            log.read()
        return [name for name in self._units if not self._is_up(name) or self._pauses.get(name)]

    async def replay_problems(self, witness: Witness) -> list[str]:
        """By the files, and by what keepers said when they stopped."""
        found = []
        for unit in self.units:
            log = log_kept_by(unit)
            if log is None:
                continue
            async with self._reading(log) as reader:
                verified = await reader.verify()
                if verified.broken_at:
                    found.append(f"log {log} is broken at {verified.broken_at}: {verified.problem}")
                    continue
                image, _, _ = await load_image(reader, log)
            digest = image.digest()
            said = self._logs[unit.name].stopped.get(log, "nothing")
            if said != digest:
                found.append(f"{log} folds to {digest}, and its keeper said {said} when it stopped")
            if witness.images[log].digest() != digest:
                found.append(f"log {log} does not replay to what became durable in it")
        return found

    def look(self, log: LogName) -> None:
        """All that is durable in its file and was not seen."""
        witness = self._witness
        witness.see(facts_in(self.directory, log, witness.facts[log] + 1))

    # Misfortune: processes.

    async def kill(self, unit: Unit) -> None:
        """By kill -9, at whatever it does just then."""
        name = unit.name
        self._killed.add(name)
        if await self.plane.supervisor.hold(name):
            self.kills += 1
            self._told(f"{name} killed")
        self._forget_pauses(name)

    async def kill_writing(self, unit: Unit, fate: str, *, sort: type[Event] = Event) -> bool:
        """By kill -9 once it has begun to write what it can tell nobody: its words are held back meanwhile, and lost with it.

        What that leaves of the batch is nobody's choice.
        """
        if fate:
            raise CannotCause(
                "what a kill -9 leaves of batches that are under way is nobody's choice in real processes"
            )
        if sort is not Event:
            raise CannotCause("what is in a batch that is under way is not seen in real processes")
        self._check_bus()
        log, (said,) = log_kept_by(unit), self._proxies.ways(Link((bus_name_of(unit),), is_one_way=True))
        assert log is not None, unit
        path = path_of(self.directory, log, ".sqlite-wal")
        until = self.now() + WRITE_SECONDS_MAX
        while self.now() < until:
            async with self._held_back:  # One after the other, or somebody would always hold it back.
                said.cut()
                try:
                    is_up = unit.name not in await self.dead()
                    if is_up and await has_grown(path, HELD_BACK_SECONDS):
                        await asyncio.sleep(self._dice.uniform(0.0, WRITING_SECONDS))
                        await self.kill(unit)
                        said.lose()
                        return True
                finally:
                    said.heal()
                await asyncio.sleep(HEARD_SECONDS)
        return False

    async def revive(self, unit: Unit) -> None:
        """Once nobody else keeps it down."""
        self.plane.supervisor.release(unit.name)

    async def pause(self, unit: Unit, *, is_at_once: bool = False) -> object:
        """By SIGSTOP; SIGCONT comes once nobody else has paused it. Who has no process just now is not paused."""
        name = unit.name
        if not self.plane.supervisor.pid_of(name):
            return lambda: None

        def stop_or_go_on() -> None:
            self.plane.supervisor.leave_alone(name, is_left_alone=bool(pauses))
            self.plane.supervisor.send(name, signal.SIGSTOP if pauses else signal.SIGCONT)

        pauses = self._pauses.setdefault(name, Lasting(stop_or_go_on))
        return pauses.begin(None)

    async def hang(self, unit: Unit, *, decides: bool) -> None:
        """By SIGSTOP, or by a signal whose handler has no end."""
        name, supervisor = unit.name, self.plane.supervisor
        pid = supervisor.pid_of(name)
        if not pid:
            return
        self._hung.add(name)
        self._told(f"{name} hangs")
        supervisor.send(name, HANGS if decides else signal.SIGSTOP)
        try:
            while supervisor.pid_of(name) == pid:
                await asyncio.sleep(AGAIN_SECONDS)
        except asyncio.CancelledError:
            if supervisor.pid_of(name) == pid:
                supervisor.send(name, signal.SIGCONT)
            raise

    async def start_second(self, unit: Unit) -> str:
        """On the same directory."""
        return await self._refused(unit, self.directory)

    async def start_old_build(self, unit: Unit) -> str:
        """On a copy of the log, whose newest fact is of a type that nobody here knows."""
        log = log_kept_by(unit)
        assert log is not None, unit
        elsewhere = self._misfit_directory(unit)
        copy_with_event(self.directory, log, elsewhere, FROM_THE_FUTURE)
        return await self._refused(unit, elsewhere)

    # Misfortune: the bus.

    async def disturb(self, link: Link, disturbance: Disturbance) -> object:
        """Bytes can be late; what TCP promises stays so."""
        if disturbance.drop or disturbance.repeat or disturbance.reorders:
            raise CannotCause(
                "processes talk over TCP, which does not lose, repeat or reorder what it carries"
            )
        self._check_bus()
        delay = Delay(disturbance.delay, disturbance.delay_seconds)
        ways = self._proxies.ways(link)
        for way in ways:
            way.delays.append(delay)

        def undo() -> None:
            for way in ways:
                way.delays.remove(delay)

        return undo

    async def cut(self, link: Link) -> object:
        """From the bus, and so from everybody."""
        self._check_bus()
        ways = self._proxies.ways(link)
        for way in ways:
            way.cut()

        def undo() -> None:
            for way in ways:
                way.heal()

        return undo

    async def stop_bus(self) -> object:
        """The server, by kill -9. It comes back at its old address."""
        self._check_bus()
        await self.plane.stop_bus()
        self._told("bus stopped")
        return self.plane.start_bus

    async def say_raw(self, message: Message, spoil: int) -> None:
        """Through the server."""
        assert self._connection is not None, "the plane is up"
        self._connection.deliver_raw(subject_of(self.plan.fleet, message), spoiled(message, spoil))

    # Misfortune: disks.

    async def flip_byte(self, log: LogName, place: float) -> int:
        """While its keeper is dead."""
        keeper = next(unit for unit in self.units if log_kept_by(unit) == log)
        if self.plane.supervisor.pid_of(keeper.name):
            raise CannotCause(f"a byte of {log} is flipped only while its keeper is dead")
        self.look(log)  # Nothing that is not seen is damaged: the witness wants to read on.
        durable = self._witness.facts[log]
        if not durable:
            return 0
        sequence = min(durable, 1 + int(place * durable))
        flip_byte(self.directory, log, sequence)
        return sequence

    async def mend_byte(self, log: LogName, sequence: int) -> None:
        """Flip it back."""
        flip_byte(self.directory, log, sequence)

    async def verify(self, log: LogName) -> int:
        """Every row, from the first on."""
        async with self._reading(log) as reader:
            return (await reader.verify()).broken_at

    async def last_death(self, unit: Unit) -> str:
        """As it told of it in its file."""
        self._logs[unit.name].read()
        return self._logs[unit.name].death

    # Helpers: from start to end.

    async def _until_up(self, bus: Bus) -> None:
        """The queue answers, and has heard of every region's nodes; every process has said that it is up."""
        while True:
            with suppress(BusError):
                listed = await bus.ask(ListWorkloads(), ASK)
                assert isinstance(listed, WorkloadsListed), listed
                if set(listed.regions) == set(self.plan.region_names()) and not await self.dead():
                    return
            await asyncio.sleep(AGAIN_SECONDS)

    async def _watch(self) -> None:
        """The witness sees facts soon after they are durable, and not only at the end: a violation ends the run."""
        while True:
            for log in self._witness.logs:
                self.look(log)
            await asyncio.sleep(LOOK_SECONDS)

    async def _close(self) -> None:
        """In order, and once more does no harm."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])
        for name in sorted(self._pauses):
            self.plane.supervisor.send(name, signal.SIGCONT)
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        await self.plane.stop(ends_tasks=True)
        await self._proxies.stop()
        if watching is not None and not watching.cancelled():
            watching.result()

    def _died(self, name: str, exit_code: int) -> None:
        """A process is no more; who was not killed by us said why, and it had better be something that may be."""
        if name not in self._logs:
            return  # The server of the bus, which is started again as they are.
        was_killed = name in self._killed and exit_code == -signal.SIGKILL
        has_hung = name in self._hung and exit_code in (-signal.SIGABRT, -signal.SIGKILL)
        self.hangs_ended += has_hung
        self._killed.discard(name)
        self._hung.discard(name)
        self._forget_pauses(name)
        log = self._logs[name]
        log.ended(was_killed=was_killed or has_hung, exit_code=exit_code)
        if log.mistake:
            self.failures.append((self._units[name], RuntimeError(log.mistake)))
            log.mistake = ""

    def _forget_pauses(self, name: str) -> None:
        """They were of the life that has ended: what ends one of them must not end one of the next life's."""
        self._pauses.pop(name, Lasting[None]()).forget()
        self.plane.supervisor.leave_alone(name, is_left_alone=False)

    def _is_up(self, name: str) -> bool:
        return bool(self.plane.supervisor.pid_of(name)) and self._logs[name].is_up

    @asynccontextmanager
    async def _reading(self, log: LogName) -> AsyncIterator[SqliteReader]:
        reader = SqliteReader(self.directory, log)
        try:
            yield reader
        finally:
            await reader.close()

    def _variables(self, unit: Unit) -> Mapping[str, str]:
        """Its own way to our server, and a level at which it says what we need to know."""
        level = "debug" if os.environ.get(LEVEL_VARIABLE) == "debug" else "info"
        if self.plane.server is None:
            return {LEVEL_VARIABLE: level}
        return {LEVEL_VARIABLE: level, URL_VARIABLE: self._proxies.url_of(unit, self.plane.url)}

    def _check_bus(self) -> None:
        if self.plane.server is None:
            raise CannotCause(f"the server that {URL_VARIABLE} names is somebody else's")

    async def _refused(self, unit: Unit, directory: Path) -> str:
        """Start a process beside those that are supervised, by mistake. Returns what it died of; empty: it came up."""
        wrote = self._misfit_directory(unit)
        return await come_to_nothing(self.plane.words_of(unit, directory), self.plane.url, wrote)

    def _misfit_directory(self, unit: Unit) -> Path:
        directory = self.directory / MISFITS / f"{unit.name}-{secrets.token_hex(4)}"
        directory.mkdir(parents=True)
        return directory
