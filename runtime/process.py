"""A real process: units brought to life over NATS and SQLite, started again when they die, and ended by a signal.

The supervisor is here, and the one TaskGroup with it. Each life of a unit begins from its log, with an endpoint of its
own on the bus, so that nothing of the life before answers for it; what ends a life is logged, and the next one begins a
little later, later each time.
"""

import asyncio
import secrets
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import structlog
from msgspec import Struct

from bus.errors import BusError, ServerTooOld
from bus.nats import NatsConnection
from bus.port import Bus
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import RESTART_DELAY_MAX, RESTART_DELAY_MIN
from runtime.clock import Clock, elapsed, wall_now
from runtime.effects import Doer
from runtime.errors import BrokenInvariant, HostError, KeeperExists, OlderCopy
from runtime.gc_tuning import settle_down
from runtime.health.serving import Health
from runtime.loop import run
from runtime.shutdown_digest import log_stop
from runtime.status.put_aside import Suspects
from runtime.status.unit_status import Losses, identity_of
from runtime.supervision.life_line import LIFE_LINE
from runtime.wiring import BUILD, OpenUnit, Plan, Surroundings, Unit, bus_name_of, open_unit
from store.errors import LogBroken, LogError, LogFromNewerBuild, LogInUse, LogOfAnotherFleet
from store.port import LogStore
from store.sqlite import SqliteStore

logger = structlog.get_logger()

Task = tuple[str, Coroutine[Any, Any, None]]
"""What is to run, under a name."""
Opened = Callable[[OpenUnit], None]
"""Told of each life of a unit as it begins."""

FINAL = (KeeperExists, LogBroken, LogFromNewerBuild, LogInUse, LogOfAnotherFleet, OlderCopy)
"""What the next start would only meet again, or would make worse: the unit stays dead, and a person must look."""
EXPECTED = (BusError, HostError, LogError)
"""Deaths whose text says all; any other is a mistake of ours, and is logged with the place where it happened."""


SUSPECTS = "suspects"
"""In the directory of a process, the messages on which each unit has failed."""
CONNECT_SPAN = seconds(3)
"""One try to connect, before it is logged that there is no server. It has connected in a hundredth of that, if there is one."""


class Nodes(Doer, Protocol):
    """What a worker's tasks run on, or what solves a planner's problems. Outlives the unit's lives in this process."""

    async def run(self) -> None:
        """Let tasks go on, or solve what is asked for, for ever."""

    def close(self) -> None:
        """Let go of timers."""


class Ground(Struct, frozen=True):
    """What a unit is built over, life after life."""

    endpoint: Callable[[str], Bus]
    """Makes an endpoint of this name. Each life has one of its own."""
    store: LogStore
    doer: Doer | None = None
    suspects: Suspects | None = None
    """Messages on which earlier lives of the unit have failed; None: they are forgotten with each life."""
    beside: Losses | None = None
    """Losses of what serves beside the unit, which the unit's status tells with its own."""


async def run_together(tasks: Iterable[Task]) -> None:
    """Run until one raises; then the others are cancelled, and what was raised comes in an ExceptionGroup."""
    async with asyncio.TaskGroup() as group:
        started = [group.create_task(task, name=name) for name, task in tasks]
        # Waited for inside the block: a death that finds us at its end leaves us counted as cancelled in Python 3.11,
        # and then nobody could tell a death from the order to end.
        await asyncio.wait(started)


async def run_unit(
    plan: Plan, unit: Unit, ground: Ground, opened: Opened | None = None, *, is_supervised: bool = False
) -> None:
    """Start a unit, and start it again whenever it dies, until cancelled. Its log is closed before this ends.

    Raises what keeps it from its first start, and whatever is `FINAL` later; every death, where somebody else is there to
    tell of it and to start the process again.
    """
    loop = asyncio.get_running_loop()
    delay = RESTART_DELAY_MIN
    has_lived = False

    def began(life: OpenUnit) -> None:
        nonlocal has_lived
        has_lived = True
        logger.info("unit_started", unit=unit.name)
        if opened is not None:
            opened(life)

    while True:
        begun = loop.time()
        try:
            await _live(plan, unit, ground, began)
        except Exception as death:
            causes = list(_leaves(death))
            final = [cause for cause in causes if isinstance(cause, FINAL)]
            if final or not has_lived:
                if is_supervised:
                    _log_death(unit, causes, Nanoseconds(0))
                raise (final or causes)[0] from death
            _raise_if_cancelled(death)
            if is_supervised:
                _log_death(unit, causes, Nanoseconds(0))
                raise causes[0] from death
            if loop.time() - begun > RESTART_DELAY_MAX / SECOND:
                delay = RESTART_DELAY_MIN
            _log_death(unit, causes, delay)
        await asyncio.sleep(delay / SECOND)
        delay = Nanoseconds(min(2 * delay, RESTART_DELAY_MAX))


async def run_process(
    plan: Plan,
    units: Sequence[Unit],
    url: str,
    directory: Path,
    nodes: Mapping[str, Nodes],
    *,
    is_supervised: bool = False,
    health: Path | None = None,
    beside: Mapping[str, Losses] | None = None,
) -> None:
    """Run units over one connection, and what is under them (by the unit's name), until cancelled.

    A unit starts once the one before it has its log. Waits for a server that is not there yet. Raises the first of
    whatever `run_unit` raises, and ServerTooOld. `health` is the socket on which the process tells of its health. `beside` has the losses of
    what serves beside a unit, by the unit's name.
    """
    connection = await connected(url, plan.fleet, bus_name_of(units[0]))
    store = SqliteStore(directory)
    lives: dict[str, OpenUnit] = {}

    async def run_after(before: asyncio.Event, begun: asyncio.Event, unit: Unit) -> None:
        await before.wait()

        def opened(life: OpenUnit) -> None:
            lives[unit.name] = life
            settle_down()  # What it folded to come up stays.
            LIFE_LINE.tell_up()
            begun.set()

        suspects = Suspects(directory / SUSPECTS / f"{unit.name}.json", BUILD, wall_now)
        ground = Ground(
            connection.endpoint, store, nodes.get(unit.name), suspects, (beside or {}).get(unit.name)
        )
        await run_unit(plan, unit, ground, opened, is_supervised=is_supervised)

    # One after the other: before a keeper has its log, a reader might tell of a file that is not the log.
    turns = [asyncio.Event() for _ in range(len(units) + 1)]
    turns[0].set()
    try:
        tasks: list[Task] = [
            (unit.name, run_after(turns[turn], turns[turn + 1], unit)) for turn, unit in enumerate(units)
        ]
        if health is not None:
            told = Health(connection.endpoint(f"health.{bus_name_of(units[0])}"), units, lives)
            tasks.append(("health", told.serve(health)))
        await run_together([*tasks, *((f"{name}/nodes", under.run()) for name, under in nodes.items())])
    except ExceptionGroup as deaths:
        raise next(_leaves(deaths)) from deaths
    finally:
        for under in nodes.values():
            under.close()
        await connection.close()
        logger.info("process_ended", units=[unit.name for unit in units])


async def connected(url: str, fleet: str, name: str, *, inbox: str = "") -> NatsConnection:
    """Connect, and try again until there is a server that lets us in. Raises ServerTooOld."""
    delay = RESTART_DELAY_MIN
    while True:
        try:
            return await NatsConnection.connect(url, fleet, name, inbox=inbox, timeout=CONNECT_SPAN)
        except ServerTooOld:
            raise
        except BusError as error:
            logger.warning("bus_unreachable", problem=str(error), again_seconds=delay / SECOND)
        await asyncio.sleep(delay / SECOND)
        delay = Nanoseconds(min(2 * delay, RESTART_DELAY_MAX))


SWITCH_SECONDS = 0.0005
"""After which a decision that takes long lets the log's writer thread go on: as often as a commit needs, that is, not every 5 ms."""
ENDING = (signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""What ends a process in order: an operator, Ctrl-C, a terminal that is closed."""


def run_until_signalled(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run in a loop of its own until it raises, or until SIGTERM or SIGINT ends it in order."""
    # The cancellation is the signal's, and this is where the process ends: there is nobody left to raise it to.
    try:
        with suppress(asyncio.CancelledError, KeyboardInterrupt):
            run(_with_signals(work))
    finally:
        LIFE_LINE.end()


async def _with_signals(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def end(number: signal.Signals) -> None:
        """The first signal ends it; another one would only interrupt the closing of the log."""
        if not task.cancelling():
            logger.info("process_ending", signal=number.name)
            task.cancel()

    loop.set_exception_handler(_log_problem)
    sys.setswitchinterval(SWITCH_SECONDS)
    LIFE_LINE.begin(loop)
    for number in ENDING:
        with suppress(NotImplementedError):  # Windows has no such handlers; Ctrl-C works there without.
            loop.add_signal_handler(number, end, number)
    await work()


async def _live(plan: Plan, unit: Unit, ground: Ground, began: Opened) -> None:
    """One life, which ends by raising."""
    loop = asyncio.get_running_loop()
    bus = ground.endpoint(bus_name_of(unit))
    around = Surroundings(
        bus=bus,
        store=ground.store,
        now=wall_now,
        clock=lambda start, not_before: Clock(loop, start, not_before),
        new_log_id=lambda: secrets.token_hex(16),
        elapsed=elapsed,
        doer=ground.doer,
        identity=identity_of(unit.name, BUILD),
        suspects=ground.suspects,
        beside=ground.beside,
        life_line=LIFE_LINE,
    )
    try:
        life = await open_unit(plan, unit, around)
        is_told_to_end = False
        try:
            began(life)
            await run_together(life.tasks())
        except asyncio.CancelledError:
            is_told_to_end = True
            raise
        finally:
            await life.close()
            if is_told_to_end:
                await log_stop(life, ground.store)
    finally:
        await bus.close()
    raise BrokenInvariant(unit.name, "all of its tasks ended by themselves")


def _leaves(death: BaseException) -> Iterator[BaseException]:
    """What was raised, without the groups around it."""
    if isinstance(death, BaseExceptionGroup):
        for part in death.exceptions:
            yield from _leaves(part)
    else:
        yield death


def _raise_if_cancelled(death: Exception) -> None:
    """A group that fails while it is cancelled forgets the cancellation."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError from death


def _log_death(unit: Unit, causes: list[BaseException], delay: Nanoseconds) -> None:
    LIFE_LINE.tell_end(f"{type(causes[0]).__name__}: {causes[0]}")
    for cause in causes:
        fields = {} if isinstance(cause, EXPECTED) else {"place": _place(cause)}
        logger.error(
            "unit_died",
            unit=unit.name,
            error=f"{type(cause).__name__}: {cause}",
            again_seconds=delay / SECOND,
            **fields,
        )


def _place(cause: BaseException) -> list[str]:
    """Where it happened, innermost last."""
    return [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(cause.__traceback__)[-5:]]


def _log_problem(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio would print with a trace: a callback that raised, a task that nobody asked about."""
    error = context.get("exception")
    fields = {} if error is None else {"error": repr(error), "place": _place(error)}
    logger.error("loop_problem", problem=context.get("message", ""), **fields)
