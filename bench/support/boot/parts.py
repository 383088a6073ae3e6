"""What the benchmark `boot` runs as processes of their own: a log's keeper, the reader beside it, and followers.

The keeper only appends and announces what `BusyRegion` says. The reader and the followers are those of every plane. Each process
is told what to do by lines on its standard input, and prints what came of that as lines of JSON.
"""

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bench.support.boot.region import FLEET, BusyRegion
from bus.nats import NatsConnection
from bus.port import Bus
from components import AllocationAgent, Auditor, JobQueue, Planner, RegionBroker, TaskControl
from core.component import Component, Follow
from core.dispatch.costs import CostsTold
from core.fact import Fact, Head, Note
from core.images import Image, empty_image
from core.images.versions import VERSIONS
from core.messages.logs import HeadTold
from core.nouns.ids import AgentName, LogName, RegionName, region_log
from core.nouns.instant import SECOND, Instant
from core.nouns.limits import HEAD_INTERVAL
from runtime.clock import Clock, wall_now
from runtime.following import Following
from runtime.gc_tuning import settle_down
from runtime.logs import set_up_logs
from runtime.loop import run as run_loop
from runtime.process import connected, run_process
from runtime.telling import announcements
from runtime.wiring import Plan, Unit
from store.port import Snapshot
from store.rows import row_of
from store.sqlite import SqliteLog, SqliteStore

EAST = RegionName("east")
LOG = region_log(EAST)
TAIL = 3_000
"""Facts that the newest snapshot lacks: those since the reader's last look."""
APPENDED_AT_ONCE = 2_000
BATCHES_PER_SECOND = 50
READER = Unit("reader", EAST, LOG)
ROLES: dict[str, Callable[[], Component[Any]]] = {  # Any: each has a state of its own
    "agent": lambda: AllocationAgent(EAST, AgentName("a0")),
    "broker": lambda: RegionBroker(EAST),
    "control": lambda: TaskControl(EAST),
    "queue": lambda: JobQueue((EAST,)),
    "auditor": lambda: Auditor((EAST,)),
    "planner": lambda: Planner((EAST,)),
}
"""All that follow a region's log."""


def say(**fields: object) -> None:
    """One line."""
    print(json.dumps(fields), flush=True)


def run_part(part: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run one of them in this process."""
    set_up_logs(os.environ, "error")
    run_loop(part())


async def lines() -> asyncio.StreamReader:
    """What this process is told."""
    reader = asyncio.StreamReader()
    protocol = partial(asyncio.StreamReaderProtocol, reader)
    await asyncio.get_running_loop().connect_read_pipe(protocol, sys.stdin)
    return reader


# The log's keeper.


async def keep() -> None:
    """Write the log, say so, and go on with it as told: `busy RATE` or `quiet`."""
    directory, nodes = Path(os.environ["BENCH_DIRECTORY"]), int(os.environ["BENCH_NODES"])
    region = BusyRegion(LOG, nodes)
    store = SqliteStore(directory)
    log = await store.open(LOG, "bench")
    begun = time.perf_counter()
    size = await _write_beginning(region, log, store)
    connection = await connected(os.environ["BENCH_URL"], FLEET, "keeper")
    bus = connection.endpoint("keeper")
    orders = await lines()
    say(facts=log.head.sequence, image_bytes=size, seconds=time.perf_counter() - begun)
    settle_down()
    told: list[str] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(_take_orders(orders, told))
        group.create_task(_go_on(region.life(), log, bus, told))


async def _write_beginning(region: BusyRegion, log: SqliteLog, store: SqliteStore) -> int:
    """All facts up to the present, and a snapshot of all but the last; returns the bytes of its image."""
    image = empty_image(LOG)
    facts = region.beginning()
    while some := list(islice(facts, APPENDED_AT_ONCE)):
        await _append(some, log)
        for fact in some:
            image.fold(fact)
    encoded = image.encode()
    reader = await store.reader(LOG)
    await reader.keep_snapshot(Snapshot(log.head, encoded, VERSIONS.made_of))
    await reader.close()
    await _append(list(islice(region.life(), TAIL)), log)
    return len(encoded)


async def _append(facts: list[Fact], log: SqliteLog) -> None:
    await log.append([row_of(fact) for fact in facts], 1)


async def _take_orders(orders: asyncio.StreamReader, told: list[str]) -> None:
    while line := await orders.readline():
        told[:] = line.decode().split()


async def _go_on(life: Iterator[Fact], log: SqliteLog, bus: Bus, told: list[str]) -> None:
    """As a keeper's host: append, announce; and say the head where nothing was appended for a while."""
    loop = asyncio.get_running_loop()
    next_at, said_at = loop.time(), 0.0
    while True:
        if told and told[0] == "busy":
            rows = [row_of(fact) for fact in islice(life, int(told[1]) // BATCHES_PER_SECOND)]
            before = log.head
            head = await log.append(rows, 1)
            for message in announcements(rows, before, head, 1, b""):
                bus.say(message)
            said_at = loop.time()
        elif loop.time() - said_at > HEAD_INTERVAL / SECOND:
            head = log.head
            bus.say(HeadTold(LOG, head.log_id, head.term, head.sequence, head.hash))
            said_at = loop.time()
        if told and told[0] == "head":
            say(head=log.head.sequence)
            told[:] = told[1:]
        next_at = max(next_at + 1 / BATCHES_PER_SECOND, loop.time() - 1.0)
        await asyncio.sleep(next_at - loop.time())


# The reader beside it.


async def serve() -> None:
    """The same process as in every plane, until it is killed."""
    url, directory = os.environ["BENCH_URL"], Path(os.environ["BENCH_DIRECTORY"])
    await run_process(Plan(FLEET, ()), [READER], url, directory, {})


# Followers.


class Listener:
    """Folds what its following hands on, as a host does that has not begun to decide."""

    def __init__(self, role: str, goal: int) -> None:
        self.role = role
        self._goal = goal
        self.image: Image | None = None
        self.sequence = 0
        self.is_up = asyncio.Event()
        self.up_at = self.adopted_at = 0.0
        self.images = 0

    def adopt(self, log: LogName, image: Image, head: Head, *, has_rows_alone: bool = False) -> bool:
        assert log == LOG, log
        self.images += 1
        self.adopted_at = self.adopted_at or time.monotonic()
        self.image = image
        self._look(head.sequence)
        return True

    def take_facts(self, facts: list[Fact]) -> None:
        assert self.image is not None
        for fact in facts:
            self.image.fold(fact)
        self._look(facts[-1].sequence)

    def take_note(self, note: Note) -> None:
        """Only facts and images are measured."""

    def take_silence(self, log: LogName, is_silent: bool) -> None:
        pass

    def take_costs(self, sender: str, costs: CostsTold) -> None:
        """Costs are not measured here."""

    def _look(self, sequence: int) -> None:
        self.sequence = sequence
        if sequence >= self._goal and not self.is_up.is_set():
            self.up_at = time.monotonic()
            self.is_up.set()


async def follow() -> None:
    """Some followers in one process: they begin at `go HEAD`, and are up once they have that fact."""
    roles = os.environ["BENCH_ROLES"].split()
    connection = await connected(os.environ["BENCH_URL"], FLEET, f"followers-{os.getpid()}")
    settle_down()
    orders = await lines()
    say(ready=True)
    _, goal = (await orders.readline()).decode().split()
    listeners = [Listener(role, int(goal)) for role in roles]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_following(connection, listener, number).keep_up())
            for number, listener in enumerate(listeners)
        ]
        async with asyncio.TaskGroup() as waiting:
            for listener in listeners:
                waiting.create_task(_say_when_up(listener))
        usage = resource.getrusage(resource.RUSAGE_SELF)
        say(cpu_seconds=usage.ru_utime + usage.ru_stime, megabytes=usage.ru_maxrss / 1_000)
        await orders.readline()
        for task in tasks:
            task.cancel()


async def _say_when_up(listener: Listener) -> None:
    await listener.is_up.wait()
    say(role=listener.role, up_at=listener.up_at, adopted_at=listener.adopted_at)


def _following(connection: NatsConnection, listener: Listener, number: int) -> Following:
    bus = connection.endpoint(f"{listener.role}.{number}")
    clock = Clock(asyncio.get_running_loop(), wall_now(), Instant(0))
    component = ROLES[listener.role]()
    is_keeper = component.keeps is not None
    return Following(followed(component), bus, clock, listener, is_keeper=is_keeper)


def followed(component: Component[Any]) -> Follow:  # Any: each has a state of its own
    """How it follows the region's log."""
    return next(follow for follow in component.follows if follow.log == LOG)


PARTS: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {"keep": keep, "serve": serve, "follow": follow}

if __name__ == "__main__":
    run_part(PARTS[sys.argv[1]])
