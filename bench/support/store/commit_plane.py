"""Agents as processes, one store, its log on disk, and a driver in the queue's and the broker's place: what `commit` drives.

The region has its nodes, and as much is held as the set-up says, before anybody starts. The queue's log is written before too:
every workload that will be placed is submitted and awarded there, and the store reads it as it reads the queue's. So the queue
costs nothing here; `start` measures the whole way from a submission.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from bus.errors import NobodyListens
from bus.nats import NatsConnection
from bus.port import Address, Bus
from bus.server import URL_VARIABLE, NatsServer
from core.codec import Parcel, decode_event, encode
from core.events.log import LogOpened
from core.events.queue import WorkloadAwarded, WorkloadSubmitted
from core.events.region import AttemptEnded, AwardDeclined, ClaimGranted, NodesJoined
from core.fact import Event
from core.messages.agents import (
    AgentFigures,
    AgentPresent,
    AgentsAnswered,
    AwardHandedBack,
    PlaceAward,
    PresenceWanted,
    SetAgents,
)
from core.messages.broker import ExecuteAward
from core.messages.logs import FactsTold
from core.messages.prices import PricesAnswered, SetPrices
from core.messages.store import RecordEnd
from core.nouns.agents import AgentSettings
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import (
    GLOBAL_LOG,
    AgentName,
    ClaimId,
    LogName,
    RegionName,
    WorkerName,
    WorkloadId,
    region_log,
)
from core.nouns.instant import Instant, seconds
from core.nouns.limits import SETTINGS
from core.nouns.mix import Mix, TypicalShape
from core.nouns.placement import Claim, Spread, View
from core.nouns.prices import Prices
from core.nouns.quantities import MILLI, Amount
from core.nouns.solved_from import SolvedFrom
from core.nouns.workload import EndCause, JobSpec, Kind, WorkloadSpec
from core.placing.partitions import full_of, turn_of
from core.pricing.shapes import mix_of
from runtime.plane import COMMAND_LINE, LOADED_ONCE
from runtime.supervision.supervisor import Process, Supervisor
from runtime.wiring import BUILD
from store.port import Row
from store.sqlite import SqliteStore

EAST = RegionName("east")
LOG = region_log(EAST)
FLEET = "bench"
GPU_TYPE = "H100"
GPUS, CPUS_MILLI, MEMORY = 8, 128_000, 2 << 40
NODES_A_WORKER, NODES_A_RACK, ZONES = 1_000, 16, 4
USED_SHARE = 0.85
MIX = (((1, 1), 45), ((1, 2), 15), ((1, 4), 15), ((1, 8), 15), ((2, 8), 6), ((4, 8), 3), ((8, 8), 1))
"""Tasks and GPUs of each, and how many workloads in a hundred are such: a tenth are gangs over nodes."""
ROWS_AT_ONCE = 4_096
COME_UP_SECONDS_MAX = 180.0
BEGUN_AT = 1_700_000_000 * seconds(1)


def job_of(tasks: int, gpus: int) -> JobSpec:
    """Of so many tasks, with CPUs and memory in proportion."""
    return JobSpec("main", tasks, Amount(gpus * MILLI, gpus * 12_000, gpus * (64 << 30)), GPU_TYPE)


class Load:
    """Which workloads there are, the same every time: number `n` is always the same job."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        jobs = [job_of(*shape) for shape, _ in MIX]
        weights = [weight for _, weight in MIX]
        self._jobs = dice.choices(jobs, weights, k=1 << 14)

    def mix(self) -> Mix:
        """Which tasks come, and how often."""
        counts: dict[TypicalShape, tuple[int, int]] = {}
        for job in self._jobs:
            shape = TypicalShape(job.need.gpu_milli // MILLI, cpu_milli=job.need.cpu_milli)
            count, memory = counts.get(shape, (0, 0))
            counts[shape] = count + job.tasks, memory + job.tasks * job.need.memory_bytes
        return mix_of(counts)

    def job(self, number: int) -> JobSpec:
        """Of one workload."""
        return self._jobs[number % len(self._jobs)]


def workload_of(number: int) -> WorkloadId:
    """The id of one workload."""
    return WorkloadId(f"w-{number}")


class LogWriter:
    """A log that is written before anybody keeps it, from its opening."""

    def __init__(self, log: LogName) -> None:
        self.log = log
        self.sequence = 0
        self.rows: list[Row] = []
        self.put(LogOpened("bench", 1, FLEET, BUILD, SETTINGS))

    def put(self, event: Event) -> None:
        """Append one fact."""
        self.sequence += 1
        at = BEGUN_AT + self.sequence
        self.rows.append(Row(self.sequence, at, "", "bench", event.about, encode(event)))

    async def write(self, directory: Path) -> None:
        """All of it."""
        log = await SqliteStore(directory).open(self.log, "bench")
        try:
            for first in range(0, len(self.rows), ROWS_AT_ONCE):
                await log.append(self.rows[first : first + ROWS_AT_ONCE], 1)
        finally:
            await log.close()


class Prepared:
    """Both logs, and what of them the driver must know."""

    def __init__(self, nodes: int, workloads: int, seed: int) -> None:
        self.load = Load(seed)
        self.held: list[int] = []
        """Numbers of the workloads that run before the first is asked for."""
        self.used = 0
        """GPUs held by them."""
        self.awarded: dict[int, int] = {}
        """The sequence of each workload's award."""
        self._region, self._queue = LogWriter(LOG), LogWriter(GLOBAL_LOG)
        self._fill(nodes)
        self._award(workloads)

    async def write(self, directory: Path) -> None:
        """Both."""
        await self._region.write(directory)
        await self._queue.write(directory)

    def _fill(self, nodes: int) -> None:
        """First node that has room, in order, until so much is held as there is to be."""
        for event in joins(nodes):
            self._region.put(event)
        number, target = 0, round(nodes * GPUS * USED_SHARE)
        free, at = [GPUS] * nodes, 0
        while self.used < target:
            number += 1
            job = self.load.job(number)
            gpus = job.need.gpu_milli // MILLI
            chosen: list[int] = []
            while len(chosen) < job.tasks:
                node = next(n for n in range(at, nodes) if free[n] >= gpus and n not in chosen)
                free[node] -= gpus
                chosen.append(node)
            while at < nodes and not free[at]:
                at += 1
            spread = Spread(tuple(sorted(chosen)), (1,) * job.tasks)
            self._region.put(
                ClaimGranted(workload_of(number), 1, claim_of(number, job, spread), is_merged=False)
            )
            self.held.append(number)
            self.used += gpus * job.tasks
        self.first = number + 1

    def _award(self, workloads: int) -> None:
        for number in range(1, self.first + workloads):
            spec = WorkloadSpec("bench", (self.load.job(number),))
            self._queue.put(WorkloadSubmitted(workload_of(number), number, spec, "bench"))
            self._queue.put(WorkloadAwarded(workload_of(number), 1, EAST, 0, ()))
            self.awarded[number] = self._queue.sequence


def joins(nodes: int, gpus: int = GPUS) -> Iterator[NodesJoined]:
    """The region's nodes."""
    total = Amount(gpus * MILLI, CPUS_MILLI, MEMORY)
    workers = -(-nodes // NODES_A_WORKER)
    for number in range(workers):
        first = number * NODES_A_WORKER
        count = min(NODES_A_WORKER, nodes - first)
        rack = number * -(-NODES_A_WORKER // NODES_A_RACK)
        zone = f"zone-{number * ZONES // workers}"
        group = NodeGroup(first, count, total, GPU_TYPE, rack, NODES_A_RACK, zone=zone)
        yield NodesJoined(WorkerName(f"w{number}"), Inventory(WorkerName(f"w{number}"), (group,)))


def claim_of(number: int, job: JobSpec, spread: Spread) -> Claim:
    """Of what was there before."""
    workload = workload_of(number)
    return Claim(
        ClaimId(f"{workload}.1"), EAST, AgentName("before"), workload, 1, 1, 3, Kind.TRAINING, (job,), (spread,), View(0)
    )  # fmt: skip


class CommitPlane:
    """The server, the store, the readers and the agents: all processes but the driver."""

    def __init__(self, directory: Path, agents: int) -> None:
        self.agents = [AgentName(f"a{number}") for number in range(agents)]
        self._directory = directory
        self._server = NatsServer({**os.environ}, directory / "nats")
        self._supervisor = Supervisor(directory / "processes", LOADED_ONCE)
        self._connection: NatsConnection | None = None

    async def start(self) -> Bus:
        """Everything; returns the driver's endpoint."""
        file = self._directory / "fleet.yaml"
        file.write_text(f"fleet: {FLEET}\nregions:\n  {EAST}: {{nodes: 1, gpu_type: {GPU_TYPE}}}\n")
        access = await self._server.start()
        environment: Mapping[str, str] = {**os.environ, URL_VARIABLE: access.url}
        logs = ("--directory", str(self._directory / "logs"))
        of_east = ("--region", EAST, "--fleet", str(file), "--supervised")
        units = [
            ("queue-reader", ("reader", *logs, "--fleet", str(file), "--supervised")),
            ("store", ("placement_store", "--no-reader", *logs, *of_east)),
            ("reader", ("reader", *logs, *of_east)),
            *((name, ("allocation_agent", "--member", name, *of_east)) for name in self.agents),
        ]
        for name, words in units:
            self._supervisor.start(Process(name, COMMAND_LINE, ("start", *words), environment))
        self._connection = await NatsConnection.connect(access.url, FLEET, "bench", timeout=seconds(30))
        return self._connection.endpoint("bench")

    def cpu_seconds(self) -> dict[str, float]:
        """What each process has used, by what it is."""
        found = {"driver": time.process_time(), "server": _cpu_seconds(self._server.pid)}
        for name in self._supervisor.names():
            role = "agents" if name in self.agents else "readers" if "reader" in name else name
            found[role] = found.get(role, 0.0) + _cpu_seconds(self._supervisor.pid_of(name))
        return found

    async def stop(self) -> None:
        """Everything."""
        if self._connection is not None:
            await self._connection.close()
        await self._supervisor.stop()
        await self._server.stop()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Seat:
    """The broker's and the queue's place: it knows which agents are there, hands awards to them, and hears the region's facts."""

    def __init__(self, bus: Bus, agents: list[AgentName]) -> None:
        self.bus, self.agents = bus, agents
        self.figures: dict[AgentName, AgentFigures] = {}
        """What agents told of themselves with their last beats; an agent that is there has told something."""
        self.settings = AgentSettings()
        """By which agents see the region."""
        self._revision = 0
        self._heard = 0
        """The sequence of the last fact that was heard."""
        self.missed = 0
        """Facts that were not heard: the machine is too slow for the load."""

    async def begin(self) -> None:
        """Until every agent is there."""
        await self.bus.listen(Address("log", (LOG,)), self._hear)
        await self.bus.listen(Address("broker", (EAST,)), self._hear_agent)
        deadline = time.monotonic() + COME_UP_SECONDS_MAX
        while len(self.figures) < len(self.agents):
            assert time.monotonic() < deadline, "not all agents come up"
            self.bus.say(PresenceWanted(EAST, 1))
            await asyncio.sleep(0.2)

    async def set_agents(self, settings: AgentSettings) -> None:
        """As an operator does."""
        message = SetAgents(EAST, settings, len(self.agents), self._revision, "bench")
        deadline = time.monotonic() + COME_UP_SECONDS_MAX
        while True:
            try:
                answer = await self.bus.ask(message, seconds(30))
                break
            except NobodyListens:
                assert time.monotonic() < deadline, "the store does not come up"
                await asyncio.sleep(0.2)
        assert isinstance(answer, AgentsAnswered), answer
        self.settings, self._revision = settings, answer.revision

    @property
    def full(self) -> Sequence[AgentName]:
        """The agents that fold every fact, if others do not."""
        return full_of(self.settings, self.agents)

    def hand(self, award: ExecuteAward, agent: AgentName, waited: float = 0.0) -> None:
        """Hand an award on, which waited for so many seconds."""
        turn = turn_of(self.settings, self.agents, agent, Instant(time.monotonic_ns()))
        self.bus.say(PlaceAward(EAST, agent, award, turn, seconds(waited)))

    def handed_back(self, award: ExecuteAward, agent: AgentName) -> None:
        """An agent with partitions found no place."""

    def hear(self, event: Event, now: float) -> None:
        """Something became durable in the region; `now` is of `time.perf_counter`."""

    def _hear_agent(self, parcel: Parcel, _: str) -> None:
        message = parcel.message
        if isinstance(message, AgentPresent):
            self.figures[message.agent] = message.figures
        elif isinstance(message, AwardHandedBack):
            self.handed_back(message.award, message.agent)

    def _hear(self, parcel: Parcel, _: str) -> None:
        message = parcel.message
        if not isinstance(message, FactsTold):
            return
        now = time.perf_counter()
        if self._heard:
            self.missed += message.first - 1 - self._heard
        self._heard = message.first + len(message.facts) - 1
        for fact in message.facts:
            self.hear(decode_event(fact.event), now)


class Driver(Seat):
    """Hands awards to agents in turn, as the broker does, and ends what runs, as it would report."""

    def __init__(self, bus: Bus, agents: list[AgentName], prepared: Prepared, seed: int) -> None:
        super().__init__(bus, agents)
        self._prepared = prepared
        self._dice = random.Random(seed)
        self._live = list(prepared.held)
        self._next = prepared.first
        self._asked_at: dict[int, float] = {}
        self.used = prepared.used
        self._prices = 0
        """Their revision."""
        self.back = 0
        """Awards that agents with partitions handed back."""
        self.spans: list[tuple[float, float]] = []
        """Of each grant: when it was asked for, and how long after that its fact was heard; seconds."""
        self.tries = self.grants = self.declines = self.exhausted = self.merged = self.ends = 0
        self.on_answer: Callable[[], None] = lambda: None

    @property
    def in_flight(self) -> int:
        """Asked for, and neither granted nor declined."""
        return len(self._asked_at)

    def ask(self, at: float = 0.0) -> None:
        """The next workload, of the next agent. Its span counts from `at` (`time.perf_counter`); 0: from now."""
        number = self._next
        self._next += 1
        job = self._prepared.load.job(number)
        able = self.agents[len(self.full) :] or self.agents
        agent = able[number % len(able)]
        award = ExecuteAward(
            EAST, workload_of(number), 1, self._prepared.awarded[number], 3, Kind.TRAINING, (job,), agent, ()
        )
        self._asked_at[number] = at or time.perf_counter()
        self.hand(award, agent)

    async def set_prices(self) -> None:
        """As a planner does: every agent works out anew what room is worth, while awards come in."""
        self._prices += 1
        mix = self._prepared.load.mix()
        prices = Prices(self._prices, mix, (tuple(0 for _ in mix.shapes),))
        answer = await self.bus.ask(SetPrices(EAST, prices, SolvedFrom(), "bench"), seconds(30))
        assert isinstance(answer, PricesAnswered), answer

    def handed_back(self, award: ExecuteAward, _: AgentName) -> None:
        """A full agent is to search."""
        self.back += 1
        self.hand(award, self.full[self.back % len(self.full)])

    def hear(self, event: Event, now: float) -> None:
        """Count it, and go on."""
        match event:
            case ClaimGranted(workload=workload):
                self._granted(int(workload[2:]), event, now)
            case AwardDeclined(workload=workload, reason=reason, tries=tries):
                self.declines += 1
                self.exhausted += reason == "conflicts_exhausted"
                self.tries += tries
                del self._asked_at[int(workload[2:])]
                self.on_answer()
            case AttemptEnded():
                self.ends += 1

    def _granted(self, number: int, event: ClaimGranted, now: float) -> None:
        asked = self._asked_at.pop(number)
        self.spans.append((asked, now - asked))
        self.grants += 1
        self.tries += int(event.claim.claim.rpartition(".")[2])
        self.merged += event.is_merged
        self._live.append(number)
        self.used += self._gpus(number)
        while self.used > self._prepared.used:
            self._end()
        self.on_answer()

    def _end(self) -> None:
        at = self._dice.randrange(len(self._live))
        self._live[at], self._live[-1] = self._live[-1], self._live[at]
        number = self._live.pop()
        self.used -= self._gpus(number)
        self.bus.say(RecordEnd(EAST, workload_of(number), 1, EndCause.COMPLETED))

    def _gpus(self, number: int) -> int:
        job = self._prepared.load.job(number)
        return job.tasks * job.need.gpu_milli // MILLI
