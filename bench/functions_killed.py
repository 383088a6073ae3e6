"""Calls of functions while all that carries them is killed, again and again: `python -m bench functions_killed`.

A real plane of one machine; a service holds two cores for functions. Four callers, a process each, make 200,000 calls through the SDK,
each of which has a token of its own and takes 1 ms. A third is `once`, by single calls, the others by maps; 1,500 wait for their answers
at once. Until all have ended the router, the function server and the server of messages are killed in turn as by kill -9, and the plane
starts them again; executors die with their server. A kill comes 2.8 to 3.8 s after calls go on, so that each victim is up for more than 10 s
between two of its own (the plane would else wait longer and longer before each start), and a quarter of the kills follows within half a
second of the one before.

An executor writes the token of a call into a file before all else, and a caller writes it into another when the call has ended; all is
counted from these files (bench/support/functions/tokens.py).

    unanswered          calls without an end for their caller
    answered_twice      calls with more than one
    once_begun_twice    calls with `once` that were begun more than once
    lost_share          part of the other calls that ended without a value: lost, refused or failed
    once_lost_share     the same of calls with `once`: nobody could tell whether they had begun, or they had
    begun_again_share   part of the other calls that were begun more than once
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.support.functions.plane import ServingPlane, serving_plane
from bench.support.functions.programs.token_calls import Calls
from bench.support.functions.running import running
from bench.support.functions.tokens import figures_of, read
from bench.support.report import Findings, at_most
from runtime.plane import NATS, PlaneProcesses
from runtime.wiring import units_of

VICTIMS = ("function_router", "function_server", NATS)
SOON_PART, SOON_SECONDS = 0.25, 0.5
"""The part of kills that follow the one before whether or not calls go on, and within how long."""
LOOK_SECONDS = 0.02
KEPT = "the promise is broken: a mistake of ours"


class Effort(Struct, frozen=True):
    """How much is called and killed."""

    calls: int
    callers: int
    up_seconds: tuple[float, float]
    """From when calls go on after a kill to the next one, at least and at most."""
    work_seconds: float
    """Of each call."""
    in_flight: int
    """Calls of one caller that are `once` and wait for their answers at once; of the others twice as many."""
    seconds_max: float = 1_200.0
    """After which calls are taken for unanswered."""


FULL = Effort(200_000, 4, (2.8, 3.8), 0.001, 125)
QUICK = Effort(1_200, 2, (0.8, 1.2), 0.01, 8, seconds_max=50.0)


async def run(directory: Path, *, is_quick: bool) -> Findings:
    """Call, kill, and count."""
    effort = QUICK if is_quick else FULL
    begins, callers = directory / "begins", callers_of(effort, directory)
    ends = [Path(one.ends) for one in callers]
    begins.mkdir()
    kills: Counter[str] = Counter()
    async with serving_plane(directory / "plane") as plane:
        begun = time.perf_counter()
        killing = asyncio.get_running_loop().create_task(kill_in_turn(plane.processes, kills, effort, ends))
        try:
            ended = await asyncio.gather(*(called(one, plane, effort.seconds_max) for one in callers))
        finally:
            killing.cancel()
            with suppress(asyncio.CancelledError):
                await killing
        seconds = time.perf_counter() - begun
        deaths = [name for name, code in plane.deaths if name != NATS and code != -signal.SIGKILL]
    figures = figures_of(read(begins, ends), effort.calls)
    figures |= {f"kills_{victim}": float(kills[victim]) for victim in VICTIMS}
    figures |= {
        "other_deaths": float(len(deaths)),
        "callers_failed": float(sum(not is_whole for is_whole in ended)),
        "calls_per_s": effort.calls / seconds,
        "seconds": seconds,
    }
    kept = (
        "unanswered",
        "answered_twice",
        "answered_wrongly",
        "once_begun_twice",
        "lost_share",
        "other_deaths",
    )
    return Findings(figures, [at_most(name, figures[name], 0, KEPT) for name in kept])


def callers_of(effort: Effort, directory: Path) -> list[Calls]:
    """Return the calls of each caller."""
    each, more = divmod(effort.calls, effort.callers)
    found, first = [], 0
    for number in range(effort.callers):
        count = each + (number < more)
        ends = str(directory / f"ends-{number}")
        found.append(
            Calls(first, count, str(directory / "begins"), ends, effort.work_seconds, effort.in_flight)
        )
        first += count
    return found


async def called(calls: Calls, plane: ServingPlane, seconds_max: float) -> bool:
    """Run one caller to its end. Return whether that came in time, and well."""
    words = msgspec.json.encode(calls._asdict()).decode()
    async with running("token_calls", words, directory=plane.directory) as process:
        try:
            return not await asyncio.wait_for(process.wait(), seconds_max)
        except TimeoutError:
            return False


async def kill_in_turn(plane: PlaneProcesses, kills: Counter[str], effort: Effort, ends: list[Path]) -> None:
    """Kill the victims in turn until this is cancelled, and count."""
    for victim, waits, span in schedule(effort.up_seconds):
        if waits:
            before = written(ends)
            while written(ends) == before:
                await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(span)
        kills[victim] += kill(plane, victim)


def schedule(up_seconds: tuple[float, float]) -> Iterator[tuple[str, bool, float]]:
    """Yield without end a victim, whether calls must go on before its kill, and seconds from then on."""
    dice = random.Random("kills")
    for victim in cycle(VICTIMS):
        waits = dice.random() >= SOON_PART
        yield victim, waits, dice.uniform(*up_seconds) if waits else dice.uniform(0, SOON_SECONDS)


def written(ends: list[Path]) -> int:
    """Return how many bytes the callers have written."""
    return sum(path.stat().st_size for path in ends if path.exists())


def kill(plane: PlaneProcesses, victim: str) -> int:
    """Kill the processes of a role that live now. Return how many."""
    if victim != NATS:
        units = [unit for unit in units_of(plane.plan) if unit.role == victim]
        return sum(plane.supervisor.kill(unit.name) > 0 for unit in units)
    if plane.server is None or not plane.server.pid:
        return 0
    with suppress(ProcessLookupError):
        os.kill(plane.server.pid, signal.SIGKILL)
    return 1
