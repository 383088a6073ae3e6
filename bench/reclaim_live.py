"""How soon tasks have back what functions use of their node: `python -m bench reclaim_live` (3 minutes).

A real plane, with this machine as its one node. The pool lends what is free to functions, with a grace of two seconds, and a user's calls
use all of it. Then a gang of real processes is submitted that needs the whole node, one after the other:

    alone      nothing runs there, and the pool lends nothing
    idle       over a warm executor without a call in each slot
    busy       over calls that would run for a minute
    stopped    over such calls, while the function server stands still (SIGSTOP)
    plane      over such calls, while everything but the worker and the function server is killed, the bus too, as soon as the worker has
               heard of the gang; nothing is started again before all executors have gone
    worker     the same with the function server killed too: the calls end with it

Rounds of `alone` and `idle` come first, in an order that is drawn from the seed, and then the others, in such an order.

    SORT_p50_seconds, SORT_p99_seconds   from the submission until each process of the gang has written its first line; of `plane` and
                                         `worker`, from when the worker has heard of the gang until no executor lives
    idle_added_p50_ms                    by how much the median of `idle` is longer than that of `alone`
    idle_executors_least                 warm executors at the beginning of a round of `idle`
    two_on_one_slot                      executors that were seen alive after a process of the gang had begun. They are looked for in the
                                         device book every 2 ms, and by the mark of their processes every 0.1 s and at the gang's begin
    look_p99_ms, look_longest_ms         between two looks, while a gang was waited for
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from msgspec import Struct, field

from bench.support.choices import numbers
from bench.support.functions.executors_seen import ExecutorsSeen
from bench.support.functions.plane import HERE, ServingPlane, empty_plane
from bench.support.functions.running import error_of, running
from bench.support.percentiles import percentile
from bench.support.plane_client import Client, until
from bench.support.report import Findings, at_least, at_most
from core.messages.base import Refused
from core.messages.functions import FunctionsShown, ShowFunctions
from core.messages.pools import PoolAnswered, SetPool
from core.messages.queue import CancelWorkload
from core.nouns.harvest import KEEPS, HarvestSettings
from core.nouns.ids import WorkloadId
from core.nouns.instant import SECOND, seconds
from core.nouns.pool import PoolSettings
from core.nouns.quantities import MILLI, NOTHING, Amount
from core.nouns.workload import JobSpec, Program, WorkloadSpec
from runtime.plane import spool_of
from runtime.tasks.book import BookFiles
from runtime.wiring import Unit, units_of

SLOTS = 4
GRACE_SECONDS = 2.0
FLEET = f"""
fleet: bench
regions:
  here: {{this_machine: true, cpu_slots: {SLOTS}, functions: true}}
"""
POOL = "training"
ROUTER = "r0"
LONG_SECONDS = 60.0
PATIENCE_SECONDS = 60.0
LOOK_SECONDS, SEARCH_SECONDS = 0.002, 0.1
HANDS = "a machine of two cores starts the processes of the gang and of the plane"
SORTS = ("alone", "idle", "busy", "stopped", "plane", "worker")


class Effort(Struct, frozen=True):
    """Rounds of each sort."""

    alone: int
    idle: int
    busy: int
    stopped: int
    plane: int
    worker: int

    def order(self, sorts: Sequence[str], seed: int) -> list[str]:
        """Return the sorts of all rounds of these sorts, in an order that is drawn."""
        rounds = [sort for sort in sorts for _ in range(getattr(self, sort))]
        random.Random(f"reclaim_live/{seed}").shuffle(rounds)
        return rounds


FULL = Effort(10, 10, 10, 6, 4, 2)
QUICK = Effort(2, 2, 2, 2, 1, 1)


class Waited(Struct, frozen=True):
    """What was seen of one gang, in seconds."""

    up: float
    """From the submission until all processes have begun."""
    clear: float
    """From when the worker had heard of it until no executor lived; 0 if the worker need not wait for any."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add seeds."""
    parser.add_argument(
        "--seeds",
        type=numbers,
        default="1",
        help="of the order of rounds; each has all rounds, joined by commas",
    )


async def run(directory: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play all rounds of each seed."""
    effort = QUICK if is_quick else FULL
    seeds = chosen.seeds if chosen is not None else (1,)
    async with empty_plane(directory / "plane", FLEET) as plane:
        client = Client(plane.connection.endpoint("reclaims"), (HERE,))
        await client.begin()
        rounds = Rounds(plane, client, directory)
        await rounds.begin()
        spans: dict[str, list[float]] = {sort: [] for sort in SORTS}
        for seed in seeds[:1] if is_quick else seeds:
            for sort in effort.order(SORTS[:2], seed):
                spans[sort].append(await rounds.play(sort))
            await rounds.lend(is_on=True)
            async with rounds.calls(LONG_SECONDS):
                for sort in effort.order(SORTS[2:], seed):
                    spans[sort].append(await rounds.play(sort))
    return findings(spans, rounds.seen)


class Seen(Struct):
    """What was seen beside spans, in all rounds."""

    two_on_one_slot: int = 0
    idle_executors_least: int = SLOTS
    look_ms: list[float] = field(default_factory=list)
    """Between two looks."""


def findings(spans: dict[str, list[float]], seen: Seen) -> Findings:
    """Return figures and bars."""
    figures: dict[str, float] = {}
    for sort, found in spans.items():
        if found:
            for share in (50, 99):
                span = percentile(found, share) if len(found) > 1 else found[0]
                figures[f"{sort}_p{share}_seconds"] = span
            figures[f"rounds_{sort}"] = float(len(found))
    figures["idle_added_p50_ms"] = 1000 * (figures["idle_p50_seconds"] - figures["alone_p50_seconds"])
    figures["two_on_one_slot"] = float(seen.two_on_one_slot)
    figures["idle_executors_least"] = float(seen.idle_executors_least)
    if len(seen.look_ms) > 1:
        figures["look_p99_ms"], figures["look_longest_ms"] = percentile(seen.look_ms, 99), max(seen.look_ms)
    most = GRACE_SECONDS + 1
    bars = [
        at_most("busy_p99_seconds", figures["busy_p99_seconds"], most, HANDS),
        at_most("stopped_p99_seconds", figures["stopped_p99_seconds"], most, HANDS),
        at_most("idle_added_p50_ms", figures["idle_added_p50_ms"], 50, HANDS),
        at_least("idle_executors_least", figures["idle_executors_least"], SLOTS, "slots had no executor"),
        at_most("two_on_one_slot", figures["two_on_one_slot"], 0, HANDS),
        *(
            at_most(f"{sort}_p99_seconds", figures[f"{sort}_p99_seconds"], most, HANDS)
            for sort in SORTS[4:]
            if spans[sort]
        ),
    ]
    return Findings(figures, bars)


class Rounds:
    """One gang after the other."""

    def __init__(self, plane: ServingPlane, client: Client, directory: Path) -> None:
        self.seen = Seen()
        self._plane = plane
        self._client = client
        self._directory = directory
        self._numbers = count(1)
        self._revision = 0
        """Of the pool's settings."""
        self._units = units_of(plane.processes.plan)
        (worker,) = [unit for unit in self._units if unit.role == "worker"]
        (self._server,) = [unit for unit in self._units if unit.role == "function_server"]
        self._book = BookFiles(spool_of(plane.processes.directory, HERE, worker.member) / "book")
        self._rounds: dict[str, Callable[[], Awaitable[float]]] = {
            "alone": self.alone,
            "idle": self.idle,
            "busy": self.busy,
            "stopped": self.stopped,
            "plane": lambda: self.without("worker", "function_server"),
            "worker": lambda: self.without("worker"),
        }

    async def begin(self) -> None:
        """Start a gang, so that all that is loaded once is loaded."""
        await self._gang()

    async def play(self, sort: str) -> float:
        """Play a round; return its seconds."""
        begun = time.monotonic()
        span = await self._rounds[sort]()
        took = time.monotonic() - begun
        print(f"reclaim_live: {sort}: {span:.3f} s, of {took:.1f} s", file=sys.stderr, flush=True)
        return span

    async def lend(self, *, is_on: bool) -> None:
        """Lend what is free to functions from now on, or nothing, and wait until that is so."""
        on = HarvestSettings(True, seconds(GRACE_SECONDS), after=seconds(0.5))
        while True:
            settings = PoolSettings(harvest=on if is_on else KEEPS)
            answer = await self._client.ask(SetPool(HERE, POOL, settings, self._revision, "bench"))
            if isinstance(answer, PoolAnswered):
                break
            assert isinstance(answer, Refused), answer
            self._revision += 1
        await self._until_shown(
            lambda shown: shown.size.cpu_milli >= SLOTS * MILLI if is_on else shown.size == NOTHING,
            "what functions may use",
        )

    async def alone(self) -> float:
        """Start a gang on an empty node."""
        await self.lend(is_on=False)
        return (await self._gang()).up

    async def idle(self) -> float:
        """Start a gang over warm executors."""
        await self.lend(is_on=True)
        async with self.calls(0.0) as process:
            assert process.stdout is not None
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert await process.stdout.readline(), "the program that calls has failed"
            await self._until_shown(
                lambda shown: sum(one.running + one.waiting for one in shown.functions) == 0,
                "calls that have ended",
            )
            idle = len(self._executors())
            self.seen.idle_executors_least = min(self.seen.idle_executors_least, idle)
            return (await self._gang()).up

    async def busy(self) -> float:
        """Start a gang over calls. They are lost, and run again when the gang has ended."""
        await self._until_busy()
        return (await self._gang()).up

    async def stopped(self) -> float:
        """Start a gang over calls, while their server stands still."""
        await self._until_busy()
        supervisor = self._plane.processes.supervisor
        supervisor.leave_alone(self._server.name, is_left_alone=True)
        supervisor.send(self._server.name, signal.SIGSTOP)
        try:
            return (await self._gang()).up
        finally:
            supervisor.send(self._server.name, signal.SIGCONT)
            supervisor.leave_alone(self._server.name, is_left_alone=False)

    async def without(self, *living: str) -> float:
        """Submit a gang over calls, and kill all but some roles once the worker has heard of it, until no executor lives."""
        await self._until_busy()
        killed = [unit for unit in self._units if unit.role not in living]
        signs = Signs()
        waited, _ = await asyncio.gather(self._gang(signs), self._keep_dead(killed, signs))
        assert waited.clear > 0, "executors have gone before the worker heard of the gang"
        return waited.clear

    @asynccontextmanager
    async def calls(self, span: float) -> AsyncIterator[asyncio.subprocess.Process]:
        """Have calls use every slot."""
        begins = self._directory / f"calls-{next(self._numbers)}"
        words = (str(SLOTS), str(span), str(begins))
        async with running("naps", *words, directory=self._plane.directory) as process:
            assert process.stdout is not None
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert await process.stdout.readline(), "the program that calls has failed"
            yield process

    # Helpers.

    async def _gang(self, signs: "Signs | None" = None) -> Waited:
        """Submit a gang of the whole node; return how long it took."""
        signs = signs or Signs()
        lines = self._directory / f"gang-{next(self._numbers)}"
        lines.mkdir()
        executors = ExecutorsSeen(self._book, self._plane.processes.directory)
        executors.search()
        begun = time.time()
        [gang] = await self._client.submit([_gang_of(lines)])
        clear = await self._watch(executors, lines, signs)
        ups = [path.stat().st_mtime_ns for path in lines.glob("*.up")]
        self.seen.two_on_one_slot += executors.seen_after(min(ups))
        await self._end(gang)
        return Waited(max(ups) / SECOND - begun, clear)

    async def _watch(self, executors: ExecutorsSeen, lines: Path, signs: "Signs") -> float:
        """Look at executors until the last process of a gang has begun; return how long they lived after the worker had heard of it."""
        begun = looked = searched = time.perf_counter()
        wanted = clear = begun
        has_begun = False
        while True:
            now = time.perf_counter()
            self.seen.look_ms.append(1000 * (now - looked))
            looked = now
            if not signs.wanted.is_set() and any(one.clears_by for one in self._book.taken()):
                wanted = clear = now
                signs.wanted.set()
            ups = sum(entry.name.endswith(".up") for entry in os.scandir(lines))
            if now - searched > SEARCH_SECONDS or (ups and not has_begun):
                searched, has_begun, living = now, ups > 0, executors.search()
            else:
                living = executors.look()
            if signs.wanted.is_set() and not living and not signs.clear.is_set():
                clear = now
                signs.clear.set()
            if ups == SLOTS:
                return clear - wanted
            assert now - begun < PATIENCE_SECONDS, "the gang does not start"
            await asyncio.sleep(LOOK_SECONDS)

    async def _keep_dead(self, killed: Sequence[Unit], signs: "Signs") -> None:
        """Kill units and the bus once the worker has heard of a gang, and let them be started when no executor lives."""
        processes = self._plane.processes
        await signs.wanted.wait()
        await asyncio.gather(processes.stop_bus(), *(processes.supervisor.hold(unit.name) for unit in killed))
        await signs.clear.wait()
        for unit in killed:
            processes.supervisor.release(unit.name)
        await processes.start_bus()

    async def _end(self, gang: WorkloadId) -> None:
        await self._client.ask(CancelWorkload(gang))
        await until(lambda: not self._book.taken(), PATIENCE_SECONDS, "the gang does not end")

    async def _until_busy(self) -> None:
        """Wait until a call runs on every slot."""
        await self._until_shown(
            lambda shown: sum(one.running for one in shown.functions) == SLOTS == len(self._executors()),
            "calls on every slot",
        )

    async def _until_shown(self, is_so: Callable[[FunctionsShown], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            shown = await self._client.ask(ShowFunctions(HERE, ROUTER))
            assert isinstance(shown, FunctionsShown), shown
            if is_so(shown):
                return
            assert time.monotonic() < deadline, f"{what}: {shown}; {self._caller_error()}"
            await asyncio.sleep(0.05)

    def _caller_error(self) -> str:
        """Return the last line that the program that calls has written."""
        error = error_of(self._plane.directory, "naps")
        return f"the program that calls says: {error}" if error else "the program that calls says nothing"

    def _executors(self) -> list[int]:
        """Return the executors that live, by the book."""
        return [one.use.pid for one in self._book.uses() if one.process.is_alive()]


class Signs:
    """What a round waits for."""

    def __init__(self) -> None:
        self.wanted = asyncio.Event()
        """The worker has heard of the gang, and waits for executors."""
        self.clear = asyncio.Event()
        """No executor has lived since."""


def _gang_of(lines: Path) -> WorkloadSpec:
    run = f"touch {lines}/$RANK.up; exec sleep 600"
    job = JobSpec("main", SLOTS, Amount(MILLI, 0, 0), "cpu", program=Program(run))
    return WorkloadSpec("gang", (job,))
