"""The chain as four processes over NATS: decisions sleep for drawn times, so that two cores carry all of them."""

import asyncio
import os
import random
import sys
import time
from contextlib import AsyncExitStack
from typing import Self

from bench.support.dispatch.chain import (
    BULK,
    DRIVER,
    FLEET,
    HOPS,
    REGION,
    TENANTS,
    URGENT_RATE,
    ChainHop,
    ChainRun,
    bulk_rate,
    service_times,
    submission,
)
from bus.nats import NatsConnection
from bus.port import Address, Bus
from bus.server import NatsServer
from core.codec import Parcel
from core.messages.agents import ClaimAnswered
from core.messages.base import Message
from core.messages.dispatch import DispatchShown, DispatchTold, ShowDispatch
from core.nouns.dispatch import DispatchSettings, UrgencyClass
from core.nouns.instant import SECOND, seconds
from runtime.clock import Clock, wall_now
from runtime.host import Host
from runtime.logs import set_up_logs
from runtime.loop import run as run_loop

HOP, URL = "BENCH_HOP", "MIZZEN_NATS_URL"
PATIENCE = seconds(20)
WARM_SECONDS, DRAIN_SECONDS = 2.0, 3.0


def hop_here() -> None:
    """One host of the chain, until it is killed; the environment says which."""
    set_up_logs(os.environ, "error")
    run_loop(_hop())


async def _hop() -> None:
    hop = HOPS[int(os.environ[HOP])]
    connection = await NatsConnection.connect(os.environ[URL], FLEET, hop.name)
    drawn = service_times(random.Random(hop.name))

    def spend(message: Message) -> None:
        time.sleep(drawn(message) / SECOND)  # noqa: TID251  # so long a decision takes

    loop = asyncio.get_running_loop()
    host = Host(ChainHop(hop, spend), connection.endpoint(hop.name), Clock(loop, wall_now()))
    async with asyncio.TaskGroup() as group:
        for name, task in host.tasks():
            group.create_task(task, name=name)
        sys.stdout.write("ready\n")
        sys.stdout.flush()


class LiveChain:
    """Four processes, and a driver that says urgent messages and bulk."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._said_at: dict[str, float] = {}
        self._run = ChainRun()
        self._count = self._revision = 0

    async def __aenter__(self) -> Self:
        server = NatsServer({})
        access = await server.start()
        self._stack.push_async_callback(server.stop)
        self._connection = await NatsConnection.connect(access.url, FLEET, "driver")
        self._stack.push_async_callback(self._connection.close)
        for number in range(len(HOPS)):
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                "from bench.support.dispatch.live import hop_here; hop_here()",
                env={**os.environ, URL: access.url, HOP: str(number)},
                stdout=asyncio.subprocess.PIPE,
            )
            self._stack.push_async_callback(_end, child)
            assert child.stdout is not None
            assert await child.stdout.readline() == b"ready\n"
        self._driver = self._connection.endpoint("driver")
        await self._driver.listen(Address("agent", (REGION, DRIVER)), self._hear)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def play(self, load: float, settings: DispatchSettings, seed: int, span: float) -> ChainRun:
        """Play one run."""
        self._revision += 1
        self._driver.say(DispatchTold(settings, self._revision, 1))
        await asyncio.sleep(0.2)
        assert self._revision == (await self._shown(HOPS[0].name)).revision
        sources = [
            self._urgent(
                self._connection.endpoint(f"tenant{number}"), random.Random(f"tenant {number} {seed}")
            )
            for number in range(TENANTS)
        ]
        for number, hop in enumerate(HOPS):
            endpoint = self._connection.endpoint(f"bulk.{hop.noun}")
            sources.append(self._bulk(endpoint, number, bulk_rate(load), random.Random(f"{hop.name} {seed}")))
        tasks = [asyncio.get_running_loop().create_task(source) for source in sources]
        await asyncio.sleep(WARM_SECONDS)
        self._run, before = ChainRun(), await self._bulk_taken()
        run = self._run
        await asyncio.sleep(span)
        run.bulk_done = await self._bulk_taken() - before
        self._run = ChainRun()
        for task in tasks:
            task.cancel()
        await asyncio.sleep(DRAIN_SECONDS)
        self._said_at.clear()
        return run

    def _hear(self, parcel: Parcel, _: str) -> None:
        message = parcel.message
        assert isinstance(message, ClaimAnswered), message
        at = self._said_at.pop(message.workload, None)
        if at is not None:
            self._run.latencies.append(time.monotonic() - at)

    async def _urgent(self, endpoint: Bus, dice: random.Random) -> None:
        due = time.monotonic()
        while True:
            due += dice.expovariate(URGENT_RATE / TENANTS)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self._count += 1
            self._said_at[str(self._count)] = time.monotonic()
            self._run.asked += 1
            endpoint.say(submission(str(self._count)))

    async def _bulk(self, endpoint: Bus, number: int, rate: float, dice: random.Random) -> None:
        due = time.monotonic()
        while True:
            due += dice.expovariate(rate)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            endpoint.say(HOPS[number].bulk, "", BULK)

    async def _bulk_taken(self) -> int:
        shown = [await self._shown(hop.name) for hop in HOPS]
        return sum(one.taken for each in shown for one in each.classes if one.sort == UrgencyClass.BULK)

    async def _shown(self, process: str) -> DispatchShown:
        answer = await self._driver.ask(ShowDispatch(process), PATIENCE)
        assert isinstance(answer, DispatchShown), answer
        return answer


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        child.kill()
    await child.wait()
