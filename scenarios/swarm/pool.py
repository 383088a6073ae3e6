"""Plays many seeds of the swarm on several cores, each worker process under a PYTHONHASHSEED of its own."""

import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from itertools import islice
from types import FrameType

import structlog
from msgspec import Struct

from scenarios.play.simulated import run_simulated
from scenarios.scenario import ScenarioSpec
from scenarios.schema.outcome import Outcome
from scenarios.swarm.draw import DECIDES_TWICE_EVERY, TWICE_EVERY, Mix, draw_scenario, mix_of

TWIN_POOLS = 4
"""PYTHONHASHSEEDs under which seeds are played a second time."""
MINUTES_MAX = 60.0 * 24 * 365
READY_MAX = 4
"""Seeds that are handed to each process before it needs them."""
WALL_SECONDS_MAX = 120
"""For one seed, which takes about one second. A run that takes longer goes round in circles."""


class Played(Struct, frozen=True):
    """What came of one seed."""

    seed: int
    digest: str = ""
    problem: str = ""
    """The first thing that was wrong; empty: nothing was."""
    seconds: float = 0.0
    messages: int = 0
    facts: int = 0
    kills: int = 0
    strikes: int = 0
    virtual_seconds: float = 0.0


class Failed(Struct, frozen=True):
    """A seed that failed."""

    seed: int
    command: str
    """Repeats it."""
    violation: str
    """What was wrong first."""


class Swarmed(Struct):
    """What came of many seeds."""

    mix: Mix = Mix(0, 0, {})
    """Of those that were played."""
    seeds: int = 0
    failed: list[Failed] = []
    seconds: float = 0.0
    twice: int = 0
    """Seeds that were played twice and compared."""
    messages: int = 0
    facts: int = 0
    kills: int = 0
    strikes: int = 0
    virtual_seconds: float = 0.0
    has_run_out: bool = False
    """Whether the time was over before the last seed."""
    is_interrupted: bool = False
    """Whether somebody ended it before."""


def twin_hash_seed(seed: int) -> int:
    """Under which a seed is played the second time. It differs from seed to seed, for any two order many small sets alike."""
    return 101 + seed // TWICE_EVERY % TWIN_POOLS


class TooLong(Exception):
    """A run goes round in circles."""


def play_seed(seed: int) -> Played:
    """Draw the scenario of a seed and play it, one in five deciding everything twice."""
    return played(draw_scenario(seed), seed, decides_twice=decides_twice(seed))


def decides_twice(seed: int) -> bool:
    """Whether a seed of the swarm is one of those that test that deciding changes nothing."""
    return seed % DECIDES_TWICE_EVERY == 0


def kind_of(problem: str) -> str:
    """What a problem is, whichever workload, node or number it is about: two failures of one kind have one cause, mostly."""
    return re.sub(r"[\w.-]*\d[\w.-]*", "#", problem)


def played(spec: ScenarioSpec, seed: int, *, decides_twice: bool) -> Played:
    """Play it quietly; whatever it raises is what was wrong with it."""
    begun = time.perf_counter()
    outcome = Outcome(spec.name, seed, "simulated")
    try:
        with _time_limit(), structlog.testing.capture_logs():
            outcome = run_simulated(spec, seed, decides_twice=decides_twice)
            problem = outcome.first_problem()
    except Exception as error:  # noqa: BLE001  # a broken plane may raise anything, and that is what is looked for
        problem = f"{type(error).__name__}: {error}"
    return Played(
        seed,
        outcome.digest,
        problem,
        time.perf_counter() - begun,
        outcome.messages,
        outcome.facts,
        outcome.kills,
        sum(outcome.strikes.values()),
        outcome.virtual_seconds,
    )


def play_seeds(
    seeds: range,
    *,
    workers: int,
    minutes: float,
    watch: Callable[[Swarmed], None] = lambda _: None,
    failures_max: int = 0,
) -> Swarmed:
    """Play seeds until all are done, the time is over, or so many have failed (0: never mind).

    workers       processes; two at least, for twins are compared across them
    minutes       of the clock
    watch         told of the tally after each seed
    """
    begun = time.monotonic()
    tally = Swarmed()
    played_first: dict[int, Played] = {}
    with ExitStack() as stack, _told_to_end():
        # Seeds are told apart by whether they are even, so that however many workers there are, each is played under the
        # same PYTHONHASHSEED.
        pools = [
            stack.enter_context(_pool(1 + number % 2)) for number in range(max(2, workers + workers % 2))
        ]
        twins: dict[int, ProcessPoolExecutor] = {}
        under_way: dict[Future[Played], int] = {}
        waiting = iter(seeds)
        try:
            while True:
                # 1. Have a few seeds ready for each process, and no more: most of them may never be played.
                for seed in islice(waiting, max(0, READY_MAX * len(pools) - len(under_way))):
                    under_way[pools[seed % len(pools)].submit(play_seed, seed)] = seed
                    if seed % TWICE_EVERY == 0:
                        hash_seed = twin_hash_seed(seed)
                        if hash_seed not in twins:
                            twins[hash_seed] = stack.enter_context(_pool(hash_seed))
                        under_way[twins[hash_seed].submit(play_seed, seed)] = seed
                if not under_way:
                    break
                # 2. Take what is done.
                rest = begun + 60 * min(minutes, MINUTES_MAX) - time.monotonic()
                done, _ = wait(under_way, timeout=max(0.0, rest), return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda future: under_way[future]):
                    _count(tally, under_way.pop(future), future, played_first)
                tally.seconds = round(time.monotonic() - begun, 1)
                watch(tally)
                tally.has_run_out = not done
                if tally.has_run_out or (failures_max and len(tally.failed) >= failures_max):
                    break
        except KeyboardInterrupt:  # Wherever it comes: what was played until then is told.
            tally.is_interrupted = True
    tally.failed.sort(key=lambda failed: failed.seed)
    tally.mix = mix_of(sorted(played_first))
    return tally


def command_of(seed: int) -> str:
    """What repeats a seed of the swarm."""
    return f"mizzen scenario swarm --first-seed {seed} --seeds 1"


def _count(tally: Swarmed, seed: int, future: "Future[Played]", played_first: dict[int, Played]) -> None:
    error = future.exception()
    one = Played(seed, problem=f"its process died: {error!r}") if error is not None else future.result()
    first = played_first.setdefault(seed, one)
    problem = one.problem
    if first is not one:
        tally.twice += 1
        if not problem and first.digest != one.digest:
            problem = f"two digests under two PYTHONHASHSEEDs: {first.digest} and {one.digest}"
    else:
        tally.seeds += 1
    if problem and all(failed.seed != seed for failed in tally.failed):
        tally.failed.append(Failed(seed, command_of(seed), problem))
    tally.messages += one.messages
    tally.facts += one.facts
    tally.kills += one.kills
    tally.strikes += one.strikes
    tally.virtual_seconds += one.virtual_seconds


@contextmanager
def _pool(hash_seed: int) -> Iterator[ProcessPoolExecutor]:
    """One process whose sets and dictionaries of texts are ordered by this hash seed."""
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = str(hash_seed)  # Read by an interpreter as it starts, and by nothing else.
    # Ctrl-C is for whoever waits for the pool, and ends it in order.
    pool = ProcessPoolExecutor(
        1,
        multiprocessing.get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        pool.submit(os.getpid).result()
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before
    try:
        yield pool
    finally:
        # Said once: a second `shutdown`, as by `with pool`, takes back that what waits is cancelled.
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _told_to_end() -> Iterator[None]:
    """SIGTERM ends what is under way as Ctrl-C does: the pools' processes would outlive us."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise TooLong in whatever is under way, once a run has taken longer than any may."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise TooLong(f"it has run for {WALL_SECONDS_MAX} s and goes round in circles")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(WALL_SECONDS_MAX)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
