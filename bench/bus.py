"""What our bus costs on top of NATS: messages a second one way, and a request beside one of nats-py's own.

Three processes on loopback, as in life: the server, the one that says and asks (this one), and the one that hears and
answers, in which an `Answering` runs: a function that makes an endpoint answer, so that the same question can be asked of a
bare callback or of a component in its host. Requests of both kinds alternate in short rounds, so that whatever else the
machine does falls on both.
"""

import asyncio
import importlib
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.support.report import Findings, Yardstick, at_least, at_most
from bus.nats import NatsConnection, bare_client
from bus.port import Address, Bus
from bus.server import NatsServer
from core.codec import Parcel, encode
from core.messages.agents import BidSettled
from core.messages.queue import ShowWorkload, Submitted
from core.nouns.ids import AgentName, RegionName, WorkloadId
from core.nouns.instant import seconds
from runtime.logs import set_up_logs
from runtime.loop import run as run_loop

Answering = Callable[[Bus], Awaitable[None]]
"""Makes an endpoint answer every ShowWorkload; whatever it starts lives until the process is ended."""

CALLBACK = "bench.bus:callback_answers"
HOST = "bench.support.queue_host:host_answers"
FLEET = "bench"
PATIENCE = seconds(60)
SOURCE = "nats-py 2.16 alone, three processes on two cores (docs/decisions/0004-nats-behind-a-port.md)"
MESSAGES = 200_000
BURST = 256
"""Messages said before the loop may turn: about what a host tells after one batch."""
ROUNDS = 20
ROUND_REQUESTS = 250
RAW_SUBJECT = "raw.request"
QUICK = 20
"""By how much less is measured where only the form matters."""
AGENT = Address("agent", (RegionName("eu"), AgentName("a1")))
MESSAGE = BidSettled(
    region=RegionName("eu"),
    agent=AgentName("a1"),
    workload=WorkloadId("w-1234567"),
    auction="w-1234567.3.120",
    has_won=True,
)
QUESTION = ShowWorkload(WorkloadId("w-1234567"))


async def run(_: Path, *, is_quick: bool) -> Findings:
    """A request through host and codec, and through a bare callback; messages one way."""
    share = QUICK if is_quick else 1
    hosted = await measure(HOST, share)
    bare = await measure(CALLBACK, share)
    figures = dict(hosted)
    figures["messages_per_s"] = bare["messages_per_s"]
    figures["callback_request_p50_ratio"] = bare["request_p50_ratio"]
    return Findings(
        figures,
        [
            at_most(
                "request_p50_ratio",
                figures["request_p50_ratio"],
                1.6,
                "a request through the host waits for one turn of its coroutine more than one through a callback",
            ),
            at_least(
                "messages_per_s",
                figures["messages_per_s"],
                40_000,
                "encoding, NATS' own parsing and decoding share two cores among three processes",
            ),
        ],
        [
            Yardstick("nats-py with callbacks, 220 bytes, messages_per_s", 227_000.0, SOURCE),
            Yardstick("nats-py request, one at a time, p50 us", 247.0, SOURCE),
        ],
    )


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


async def measure(answering: str = CALLBACK, share: int = 1) -> dict[str, float]:
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
        figures = await _requests(bus, access.url, max(1, ROUNDS // share))
        if answering == CALLBACK:
            rates = [await _messages_per_s(bus, MESSAGES // share) for _ in range(3)]
            figures["messages_per_s"] = statistics.median(rates)
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
    set_up_logs(os.environ, "error")
    run_loop(_answer())


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


async def _requests(bus: Bus, url: str, rounds: int) -> dict[str, float]:
    """Microseconds of requests one at a time: through the bus, and through nats-py with payloads of the same size."""
    raw = await bare_client(url)
    payload = encode(Parcel("asker.01234567.1", "asker", QUESTION))
    ours: list[int] = []
    theirs: list[int] = []
    for number in range(rounds + 1):
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


async def _messages_per_s(bus: Bus, messages: int) -> float:
    """From the first said to the last heard, encoded and decoded, in bursts."""
    before = await _heard(bus)
    started = time.perf_counter()
    for _ in range(messages // BURST):
        for _ in range(BURST):
            bus.say(MESSAGE)
        await asyncio.sleep(0)
    said = messages // BURST * BURST
    while await _heard(bus) < before + said:
        continue  # One connection keeps the order, so the first answer already counts all.
    return said / (time.perf_counter() - started)


async def _heard(bus: Bus) -> int:
    answer = await bus.ask(QUESTION, PATIENCE)
    assert isinstance(answer, Submitted)
    return int(answer.workload.removeprefix("w-"))


def _quantile(nanoseconds: list[int], percent: int) -> float:
    return sorted(nanoseconds)[len(nanoseconds) * percent // 100] / 1000
