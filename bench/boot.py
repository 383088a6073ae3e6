"""Twenty followers of one large region ask at one moment: how long until the last is up, on a log that rests and on one that moves.

A follower is up once it has adopted the image and folded every fact up to the head at that moment. They are those of a region after
a boot: fifteen agents, the broker, task control, the queue, the auditor and the planner, each with its own sections, as real
`Following`s in five processes. The reader is the real process over a SQLite log with 1.3 attempts a node, the bus a NATS server, and
the log's keeper a process that appends and announces (bench/support/boot/parts.py).

It takes two to four minutes, more than half of that to write the logs.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bench.support.boot.parts import LOG
from bench.support.boot.region import FLEET
from bench.support.cpu_time import TICKS
from bench.support.report import Bar, Findings, at_most
from bus.errors import BusError
from bus.nats import NatsConnection
from bus.server import NatsServer
from core.messages.logs import FetchImage
from core.nouns.instant import seconds

SIZES = {"10k": 10_240, "100k": 100_000}
QUICK_SIZES = {"10k": 100, "100k": 200}
BOUNDS = {"10k": 5.0, "100k": 40.0}
"""Seconds until all are up."""
FACTS_PER_SECOND = 1_000
ROLES = ("broker", "control", "queue", "auditor", "planner", *["agent"] * 15)
QUICK_ROLES = ROLES[:6]
PROCESSES = 5
PATIENCE_SECONDS = 90.0
"""After which those that are not up are counted as never."""
LIMIT = "every follower decodes an image of its own, all of them on two cores beside the reader"


async def run(directory: Path, *, is_quick: bool) -> Findings:
    """Each size, on the quiet log and then on the busy one."""
    figures: dict[str, float] = {}
    bars: list[Bar] = []
    for name, nodes in (QUICK_SIZES if is_quick else SIZES).items():
        place = directory / name
        place.mkdir()
        roles = QUICK_ROLES if is_quick else ROLES
        processes = 1 if is_quick else PROCESSES
        shares = [roles[number::processes] for number in range(processes)]
        figures |= await _measured(name, place, nodes, shares)
        bars += [
            at_most(key, figures[key], BOUNDS[name], LIMIT)
            for key in (f"followers_up_seconds_{name}", f"followers_up_seconds_{name}_busy")
        ]
    return Findings(figures, bars)


async def _measured(
    name: str, directory: Path, nodes: int, shares: Sequence[Sequence[str]]
) -> dict[str, float]:
    """All of one size."""
    figures: dict[str, float] = {}
    server = NatsServer({}, directory / "nats")
    access = await server.start()
    environment = {"BENCH_URL": access.url, "BENCH_DIRECTORY": str(directory), "BENCH_NODES": str(nodes)}
    try:
        async with _part("keep", environment) as keeper:
            built = await _heard(keeper)
            figures[f"image_megabytes_{name}"] = built["image_bytes"] / 1e6
            for suffix, order in (("", "quiet"), ("_busy", f"busy {FACTS_PER_SECOND}")):
                _tell(keeper, order)
                found = await _boot(keeper, order, environment, shares)
                figures |= {f"{key}_{name}{suffix}": value for key, value in found.items()}
    finally:
        await server.stop()
    return figures


async def _boot(
    keeper: asyncio.subprocess.Process,
    order: str,
    environment: dict[str, str],
    shares: Sequence[Sequence[str]],
) -> dict[str, float]:
    """A reader that has just started, and all followers at one moment."""
    async with _part("serve", environment) as reader:
        begun = time.monotonic()
        await _served(environment["BENCH_URL"])
        figures = {"reader_up_seconds": time.monotonic() - begun}
        spent = _seconds_of(reader.pid)
        async with _followers(shares, environment) as processes:
            _tell(keeper, f"head {order}")
            goal = (await _heard(keeper))["head"]
            begun = time.monotonic()
            for process in processes:
                _tell(process, f"go {goal:.0f}")
            deadline = begun + PATIENCE_SECONDS
            heard = [
                await _all_heard(process, len(share) + 1, deadline)
                for process, share in zip(processes, shares, strict=True)
            ]
        ups = [one["up_at"] - begun for told in heard for one in told if "up_at" in one]
        ends = [one for told in heard for one in told if "cpu_seconds" in one]
        missing = sum(map(len, shares)) - len(ups)
        figures["followers_up_seconds"] = PATIENCE_SECONDS if missing else max(ups)
        figures["followers_not_up"] = float(missing)
        figures["follower_up_p50_seconds"] = statistics.median([*ups, *[PATIENCE_SECONDS] * missing])
        figures["followers_cpu_seconds"] = sum(one["cpu_seconds"] for one in ends)
        figures["followers_megabytes"] = sum(one["megabytes"] for one in ends)
        figures["reader_cpu_seconds"] = _seconds_of(reader.pid) - spent
        figures["reader_megabytes"] = _megabytes_of(reader.pid)
    return figures


async def _all_heard(
    process: asyncio.subprocess.Process, count: int, deadline: float
) -> list[dict[str, float]]:
    """So many lines of a part, or those that it says in time."""
    found: list[dict[str, float]] = []
    try:
        async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
            while len(found) < count:
                found.append(await _heard(process))
    except TimeoutError:
        pass
    return found


async def _served(url: str) -> None:
    """Until the reader serves an image: a reader that has just started has a log to fold."""
    connection = await NatsConnection.connect(url, FLEET, "looker")
    bus = connection.endpoint("looker")
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    await bus.ask(FetchImage(LOG, ("hardware",)), seconds(PATIENCE_SECONDS))
                    return
                except BusError:
                    await asyncio.sleep(0.05)
    finally:
        await connection.close()


@asynccontextmanager
async def _followers(
    shares: Sequence[Sequence[str]], environment: dict[str, str]
) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """Processes that wait for the word to begin."""
    async with AsyncExitStack() as stack:
        processes = [
            await stack.enter_async_context(_part("follow", {**environment, "BENCH_ROLES": " ".join(share)}))
            for share in shares
        ]
        for process in processes:
            assert (await _heard(process))["ready"]
        yield processes


@asynccontextmanager
async def _part(name: str, environment: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """One of bench/support/boot/parts.py, until it is left."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.support.boot.parts",
        name,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _tell(process: asyncio.subprocess.Process, order: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{order}\n".encode())


async def _heard(process: asyncio.subprocess.Process) -> dict[str, float]:
    """The next line of a part."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    assert line, "a part of the benchmark has died"
    found: dict[str, float] = json.loads(line)
    return found


def _seconds_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _megabytes_of(pid: int) -> float:
    """The most that the process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1_000
