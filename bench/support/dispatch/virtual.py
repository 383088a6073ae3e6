"""The chain in virtual time: decisions take drawn times on the hosts' clocks, and the order of decisions is all that differs between runs."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from msgspec import Struct

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
    Hop,
    bulk_rate,
    service_times,
    submission,
)
from bus.port import Address
from bus.simulated import SimulatedNetwork
from core.codec import Parcel
from core.dispatch.context import Context
from core.dispatch.costs import Costs
from core.messages.agents import ClaimAnswered
from core.messages.base import Message
from core.nouns.dispatch import DispatchSettings
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.rules.ownership import sender_of
from runtime.clock import Clock
from runtime.dispatch.lanes import Mail
from runtime.dispatch.turns import Turn
from runtime.host import Host
from runtime.virtual_loop import VirtualLoop, run_virtual

START = Instant(1_767_225_600 * SECOND)
WARM_SECONDS = 2.0
"""Before what is counted."""
DRAIN_SECONDS = 2.0


class Play(Struct, frozen=True):
    """One run."""

    load: float
    """Of each host, urgent messages included."""
    settings: DispatchSettings
    seed: int
    seconds: float
    turn: Turn = Turn()
    knows_costs: bool = True
    """False: each decision is taken to cost nothing."""
    bulk: Context = BULK
    """The urgency of bulk."""
    floods: float = 0.0
    """Urgent messages a second that one more tenant says."""
    drain: float = DRAIN_SECONDS
    """Seconds after the last message, in which chains come to their end."""
    spike: tuple[float, float, float] | None = None
    """Seconds from the start, seconds, and the factor by which there is more bulk meanwhile."""

    def bulk_rate_at(self, at: float) -> float:
        """Return bulk messages a second at each host."""
        rate = bulk_rate(self.load) - self.floods * 0.1
        if self.spike is not None and 0 <= at - self.spike[0] < self.spike[1]:
            return rate * self.spike[2]
        return rate


class Played(ChainRun):
    """What came of a run in virtual time."""

    said_at: list[float] = []
    """Of each chain in `latencies`, when its first message was said."""
    flood: list[float] = []
    """Latencies of the tenant that floods."""


class _NoCosts(Costs):
    """Each decision costs nothing."""

    def own(self, kind: type[Message], size: int, sort: str) -> int:
        return 0

    def way(self, kind: type[Message]) -> int:
        return 0


class _BulkWaits:
    """Waits of bulk in one mailbox."""

    def __init__(self, played: Played, begin: Instant) -> None:
        self._played = played
        self._begin = begin

    def put(self, mail: Mail, now: Instant) -> None:
        """Nothing is known yet."""

    def lost(self, mail: Mail) -> None:
        """It has not waited."""

    def taken(self, mail: Mail, now: Instant) -> None:
        """It waits no more."""
        if mail.sender.startswith("bulk") and now >= self._begin:
            self._played.bulk_waits.append((now - mail.heard) / SECOND)


def play(play: Play) -> Played:
    """Play one run."""
    return run_virtual(_play(play), START)


async def _play(given: Play) -> Played:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    network = SimulatedNetwork(random.Random(f"network {given.seed}"), loop, FLEET)
    network.faults.delay_min = network.faults.delay_max = Nanoseconds(0)
    played = Played()
    begin = Instant(START + round(WARM_SECONDS * SECOND))
    for hop in HOPS:
        _start(hop, given, network, loop, _BulkWaits(played, begin))
    said_at: dict[str, float] = {}

    def hear(parcel: Parcel, _: str) -> None:
        message = parcel.message
        assert isinstance(message, ClaimAnswered), message
        at = said_at.pop(message.workload)
        if message.workload.startswith("flood"):
            played.flood.append(loop.time() - at)
        elif at >= WARM_SECONDS:
            played.latencies.append(loop.time() - at)
            played.said_at.append(at)

    driver = network.endpoint("driver")
    await driver.listen(Address("agent", (REGION, DRIVER)), hear)
    await asyncio.sleep(0.1)
    count = 0

    def says_urgent(name: str, prefix: str = "") -> Callable[[], None]:
        endpoint = network.endpoint(sender_of(name, "bench"), name)

        def say() -> None:
            nonlocal count
            count += 1
            said_at[f"{prefix}{count}"] = loop.time()
            played.asked += not prefix and loop.time() >= WARM_SECONDS
            endpoint.say(submission(f"{prefix}{count}"))

        return say

    def says_bulk(hop: Hop) -> Callable[[], None]:
        endpoint = network.endpoint(f"bulk.{hop.noun}")
        return lambda: _say_bulk(endpoint, hop, given.bulk)

    sources = [
        _source(
            f"tenant {number} {given.seed}", lambda _: URGENT_RATE / TENANTS, says_urgent(f"tenant{number}")
        )
        for number in range(TENANTS)
    ]
    sources += [_source(f"{hop.name} {given.seed}", given.bulk_rate_at, says_bulk(hop)) for hop in HOPS]
    if given.floods:
        sources.append(_source(f"flood {given.seed}", lambda _: given.floods, says_urgent("flood", "flood ")))
    tasks = [loop.create_task(source) for source in sources]
    await asyncio.sleep(WARM_SECONDS + given.seconds)
    played.bulk_done = len(played.bulk_waits)
    for task in tasks:
        task.cancel()
    await asyncio.sleep(given.drain)
    return played


def _say_bulk(endpoint: Any, hop: Hop, context: Context) -> None:  # Any: a simulated endpoint
    endpoint.say(hop.bulk, "", context)


def _start(hop: Hop, given: Play, network: SimulatedNetwork, loop: VirtualLoop, waits: _BulkWaits) -> None:
    pace = service_times(random.Random(f"{hop.name} {given.seed}"))
    endpoint = network.endpoint(hop.name)
    costs = None if given.knows_costs else _NoCosts()
    host = Host(ChainHop(hop), endpoint, Clock(loop, START), pace=pace, turn=given.turn, costs=costs)
    host.mailbox.use(given.settings, 1)
    host.mailbox.watch = waits
    for name, task in host.tasks():
        loop.create_task(task, name=name)


async def _source(seed: str, rate_at: Callable[[float], float], say: Callable[[], None]) -> None:
    """Say at random, so often at each time (Poisson)."""
    dice = random.Random(seed)
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(dice.expovariate(max(rate_at(loop.time()), 1e-9)))
        say()
