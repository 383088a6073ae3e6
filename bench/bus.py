"""What our bus costs on top of NATS: messages a second one way, and a request beside one of nats-py's own.

Three processes on loopback, as in life: the server, the one that says and asks (this one), and the one that hears and
answers, in which an `Answering` runs: a function that makes an endpoint answer, so that the same question can be asked of a
bare callback or of a component in its host. Requests of both kinds alternate in short rounds, so that whatever else the
machine does falls on both. The simulated bus is measured in passing, because every scenario pays for it.
"""

import asyncio
import importlib
import os
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from bus.nats import NatsConnection, bare_client
from bus.port import Address, Bus
from bus.server import NatsServer
from bus.simulated import SimulatedNetwork
from core.codec import Parcel, encode
from core.messages.agents import BidSettled
from core.messages.queue import ShowWorkload, Submitted
from core.nouns.ids import AgentName, RegionName, WorkloadId
from core.nouns.instant import MILLISECOND, Nanoseconds, seconds
from runtime.virtual_loop import VirtualLoop, run_virtual

Answering = Callable[[Bus], Awaitable[None]]
"""Makes an endpoint answer every ShowWorkload; whatever it starts lives until the process is ended."""

CALLBACK = "bench.bus:callback_answers"
FLEET = "bench"
PATIENCE = seconds(60)
MESSAGES = 200_000
BURST = 256
"""Messages said before the loop may turn: about what a host tells after one batch."""
ROUNDS = 20
ROUND_REQUESTS = 250
RAW_SUBJECT = "raw.request"
BARS = (
    ("messages_per_s", ">=", 40_000.0),
    ("request_p50_ratio", "<=", 1.6),
    ("simulated_us_per_message", "<=", 6.0),
    ("virtual_timers_per_s", ">=", 250_000.0),
)
"""What must hold: a figure, and on which side of what it must lie."""
YARDSTICKS = {
    "nats-py with callbacks, 220 bytes, messages_per_s": 227_000.0,
    "nats-py request, one at a time, p50 us": 247.0,
}
"""Measured with nats-py 2.16 alone, three processes on two cores (docs/decisions/0004-nats-behind-a-port.md)."""
AGENT = Address("agent", (RegionName("eu"), AgentName("a1")))
MESSAGE = BidSettled(
    region=RegionName("eu"),
    agent=AgentName("a1"),
    workload=WorkloadId("w-1234567"),
    auction="w-1234567.3.120",
    has_won=True,
)
QUESTION = ShowWorkload(WorkloadId("w-1234567"))


def main() -> int:
    """Print every figure and whether it meets its bar; 1 when one does not."""
    figures = asyncio.run(measure())
    figures["simulated_us_per_message"] = simulated_us_per_message()
    figures["virtual_timers_per_s"] = virtual_timers_per_s()
    for name, value in figures.items():
        print(f"{name:28} {value:12.2f}")
    missed = [
        name
        for name, side, bound in BARS
        if not (figures[name] >= bound if side == ">=" else figures[name] <= bound)
    ]
    for name in missed:
        print(f"missed: {name}")
    return 1 if missed else 0


async def callback_answers(bus: Bus) -> None:
    """The least there can be: an answer from within the callback. It tells how many messages were heard."""
    heard = 0

    def hear(_: Parcel, __: str) -> None:
        nonlocal heard
        heard += 1

    def answer(_: Parcel, reply_to: str) -> None:
        bus.say(Submitted(WorkloadId(f"w-{heard}")), reply_to)

    await bus.listen(AGENT, hear)
    await bus.listen(Address("queue"), answer)


async def measure(answering: str = CALLBACK) -> dict[str, float]:
    """All figures over NATS. `answering` names an `Answering` as `module:function`; only the callback counts messages."""
    server = NatsServer({})
    access = await server.start()
    connection = await NatsConnection.connect(access.url, FLEET, "asker")
    answerer = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from bench.bus import answer_here; answer_here()",
        env={**os.environ, "MIZZEN_NATS_URL": access.url, "BENCH_ANSWERING": answering},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert answerer.stdout is not None
        assert await answerer.stdout.readline() == b"ready\n"
        bus = connection.endpoint("asker")
        figures = await _requests(bus, access.url)
        if answering == CALLBACK:
            figures["messages_per_s"] = statistics.median([await _messages_per_s(bus) for _ in range(3)])
        assert bus.counts.lost == 0
        return figures
    finally:
        if answerer.returncode is None:
            answerer.kill()
        await answerer.wait()
        await connection.close()
        await server.stop()


def answer_here() -> None:
    """The answering process: ours as told by the environment, and nats-py's own beside it, until it is killed."""
    asyncio.run(_answer())


async def _answer() -> None:
    url = os.environ["MIZZEN_NATS_URL"]
    module, name = os.environ["BENCH_ANSWERING"].split(":")
    answering: Answering = getattr(importlib.import_module(module), name)
    connection = await NatsConnection.connect(url, FLEET, "answerer")
    await answering(connection.endpoint("answerer"))
    raw = await bare_client(url)
    reply = encode(Parcel("answerer.01234567.1", "answerer", Submitted(WorkloadId("w-1234567"))))

    async def respond(message: Any) -> None:  # Any: nats-py's, which nobody else imports
        await message.respond(reply)

    await raw.subscribe(RAW_SUBJECT, cb=respond)
    await raw.flush()
    print("ready", flush=True)
    await asyncio.get_running_loop().create_future()


async def _requests(bus: Bus, url: str) -> dict[str, float]:
    """Microseconds of requests one at a time: through the bus, and through nats-py with payloads of the same size."""
    raw = await bare_client(url)
    payload = encode(Parcel("asker.01234567.1", "asker", QUESTION))
    ours: list[int] = []
    theirs: list[int] = []
    for number in range(ROUNDS + 1):
        started = time.perf_counter_ns()
        for _ in range(ROUND_REQUESTS):
            await bus.ask(QUESTION, PATIENCE)
            ended = time.perf_counter_ns()
            ours.append(ended - started)
            started = ended
        started = time.perf_counter_ns()
        for _ in range(ROUND_REQUESTS):
            await raw.request(RAW_SUBJECT, payload, timeout=60)
            ended = time.perf_counter_ns()
            theirs.append(ended - started)
            started = ended
        if number == 0:  # a round to get warm
            ours.clear()
            theirs.clear()
    await raw.close()
    return {
        "request_p50_us": _quantile(ours, 50),
        "request_p99_us": _quantile(ours, 99),
        "raw_request_p50_us": _quantile(theirs, 50),
        "raw_request_p99_us": _quantile(theirs, 99),
        "request_p50_ratio": _quantile(ours, 50) / _quantile(theirs, 50),
    }


async def _messages_per_s(bus: Bus) -> float:
    """From the first said to the last heard, encoded and decoded, in bursts."""
    before = await _heard(bus)
    started = time.perf_counter()
    for _ in range(MESSAGES // BURST):
        for _ in range(BURST):
            bus.say(MESSAGE)
        await asyncio.sleep(0)
    said = MESSAGES // BURST * BURST
    while await _heard(bus) < before + said:
        continue  # One connection keeps the order, so the first answer already counts all.
    return said / (time.perf_counter() - started)


async def _heard(bus: Bus) -> int:
    answer = await bus.ask(QUESTION, PATIENCE)
    assert isinstance(answer, Submitted)
    return int(answer.workload.removeprefix("w-"))


def _quantile(nanoseconds: list[int], percent: int) -> float:
    return sorted(nanoseconds)[len(nanoseconds) * percent // 100] / 1000


def simulated_us_per_message() -> float:
    """What saying, carrying and hearing one message costs in the simulated world, codec included."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        network = SimulatedNetwork(random.Random(1), loop, FLEET)
        sender, hearer = network.endpoint("sender"), network.endpoint("hearer")
        await hearer.listen(AGENT, lambda _, __: None)
        started = time.perf_counter()
        for _ in range(1000):
            for _ in range(100):
                sender.say(MESSAGE)
            await loop.sleep_ns(Nanoseconds(MILLISECOND))
        await loop.sleep_ns(seconds(1))
        spent = time.perf_counter() - started
        assert hearer.counts.heard == 100_000
        return spent / hearer.counts.heard * 1e6

    return statistics.median(run_virtual(main()) for _ in range(3))


def virtual_timers_per_s() -> float:
    """Timer callbacks of the virtual loop, each of which sets the next."""
    count = 300_000

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        done = loop.create_future()
        left = count

        def tick() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                done.set_result(None)
            else:
                loop.call_after_ns(Nanoseconds(1000), tick)

        for number in range(64):
            loop.call_after_ns(Nanoseconds(number), tick)
        await done

    started = time.perf_counter()
    run_virtual(main())
    return count / (time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(main())
