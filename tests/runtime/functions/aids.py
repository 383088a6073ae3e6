"""A doer of functions with real processes, a book that a test writes, and functions to call."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from core.effects import EndExecutor, GiveCalls, KeepCode, ReadBook, StartExecutor
from core.messages.base import Message
from core.messages.executors import BookRead, CallsEnded, CodeKept, ExecutorChanged
from core.messages.harvest import NodeSize
from core.nouns.function import CallAnswer, CallOutcome, FunctionCode, FunctionSpec, Holding, Place, WarmLevel
from core.nouns.ids import TenantName
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.quantities import Amount
from core.nouns.workload import NEVER, Serves
from runtime.clock import Clock
from runtime.functions.doer import FunctionDoer
from runtime.functions.packing import pack_arguments, pack_code, unpack_failure, unpack_value
from runtime.tasks.book import ExecutorUse
from runtime.tasks.environment import ONE_THREAD
from runtime.tasks.processes import start_of_living

HERE = Path(__file__).parent / "called"
"""The directory with functions that executors import."""
ANNA, BERT = TenantName("anna"), TenantName("bert")
CORE = Amount(cpu_milli=1000)
PATIENCE_SECONDS = 30.0


def spec(
    target: str = "plain:double",
    *,
    tenant: TenantName = ANNA,
    need: Amount = CORE,
    timeout: Nanoseconds = NEVER,
    directory: Path | str = HERE,
) -> FunctionSpec:
    """A function; pickled if it has no target."""
    code = FunctionCode(target, str(directory)) if target else FunctionCode()
    return FunctionSpec(tenant, target or "pickled", "0123abcd", need, code, timeout)


def holding(share: str = "s1", tenant: TenantName = ANNA, *, cores: int = 4, **others: Any) -> Holding:
    """A holding of CPUs for functions of all tenants, unless it is told otherwise."""
    fields: dict[str, Any] = {
        "serves": Serves.ALL, "is_ending": False, "gpus": (), "cpu_slots": (), "amount": Amount(cpu_milli=1000 * cores),
    }  # fmt: skip
    return Holding(share, tenant, **(fields | others))


HELD = Place()


class WrittenBook:
    """A book whose holdings a test writes."""

    def __init__(self, *holdings: Holding) -> None:
        self._holdings = holdings
        self._changed: Callable[[], None] | None = None
        self.uses: tuple[ExecutorUse, ...] = ()
        self.most = Amount()
        """The largest use of all executors together that was noted."""
        self.harvested: tuple[int, tuple[NodeSize, ...]] = (0, ())
        self.killed: list[tuple[int, int]] = []
        """Process and number of executors that were in the way of tasks."""
        self.most_executors = 0
        """As many were noted at once."""

    def write(self, *holdings: Holding) -> None:
        """From now on these are the holdings."""
        self._holdings = holdings
        if self._changed is not None:
            self._changed()

    def holdings(self) -> tuple[Holding, ...]:
        return self._holdings

    def watch(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def noted(self) -> tuple[int, ...]:
        return ()

    def was_killed(self, pid: int, number: int) -> bool:
        return (pid, number) in self.killed

    def keep_harvested(self, revision: int, sizes: tuple[NodeSize, ...]) -> None:
        self.harvested = revision, sizes

    def note_executors(self, executors: tuple[ExecutorUse, ...]) -> None:
        self.uses = executors
        self.most_executors = max(self.most_executors, len(executors))
        used = Amount()
        for one in executors:
            used = used.plus(one.amount)
        self.most = self.most.largest(used)


class Server:
    """What a function server does with its doer, and all that it hears."""

    def __init__(self, doer: FunctionDoer, book: WrittenBook) -> None:
        self.doer = doer
        self.book = book
        self.heard: list[Message] = []
        self._rang = asyncio.Event()
        self.pids: set[int] = set()
        """All processes that there ever were."""

    def hear(self, message: Message) -> None:
        """Take a notice."""
        self.pids |= {*(use.pid for use in self.book.uses), self.doer._parent.pid} - {0, os.getpid()}
        self.heard.append(message)
        self._rang.set()

    def begin(self) -> None:
        """Begin a life."""
        self.heard.clear()
        self.doer.attach(self.hear)
        self.doer.begin(ReadBook())

    def start(self, number: int, function: FunctionSpec, place: Place = HELD) -> None:
        self.doer.begin(StartExecutor(number, function, place))

    async def ready(self, number: int, function: FunctionSpec, place: Place = HELD) -> None:
        """Start an executor and wait until it is ready."""
        self.start(number, function, place)
        await self.until(lambda: function.top in self.levels(number))

    def give(self, number: int, *calls: tuple[int, Any]) -> None:
        """Give calls: ticket and the one argument of each."""
        self.doer.begin(GiveCalls(number, tuple((one, pack_arguments((value,), {})) for one, value in calls)))

    def end(self, number: int) -> None:
        self.doer.begin(EndExecutor(number))

    async def keep(self, function: FunctionSpec, code: Callable[..., Any], init: Any = None) -> None:
        """Send the pickled code of a function."""
        self.doer.begin(KeepCode(function.id, pack_code(code, init)))
        await self.until(lambda: CodeKept(function.id) in self.heard)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is heard that makes it so."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not is_so():
                self._rang.clear()
                await self._rang.wait()

    async def until_noted(self) -> None:
        """Wait until an executor is forked."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self.book.uses:
                await asyncio.sleep(0.005)

    def levels(self, number: int) -> list[WarmLevel]:
        """The levels to which an executor has come."""
        return [one.level for one in self._changes(number) if not one.is_gone]

    def gone(self, number: int) -> str | None:
        """The problem of an executor that is gone; None while it is there."""
        return next((one.problem for one in self._changes(number) if one.is_gone), None)

    async def until_gone(self, number: int) -> str:
        await self.until(lambda: self.gone(number) is not None)
        return self.gone(number) or ""

    def answers(self) -> dict[int, CallAnswer]:
        """The answer of each ticket; a ticket that is answered twice fails the test."""
        ends = [end for one in self.heard if isinstance(one, CallsEnded) for end in one.ends]
        answers = {end.ticket: end.answer for end in ends}
        assert len(ends) == len(answers), ends
        return answers

    async def answer(self, ticket: int) -> CallAnswer:
        await self.until(lambda: ticket in self.answers())
        return self.answers()[ticket]

    async def value(self, ticket: int) -> Any:
        answer = await self.answer(ticket)
        assert CallOutcome.DONE == answer.outcome, answer
        return unpack_value(answer.value)

    async def failure(self, ticket: int) -> str:
        """The problem of a call that failed."""
        answer = await self.answer(ticket)
        assert CallOutcome.FAILED == answer.outcome, answer
        return answer.problem

    async def error(self, ticket: int) -> Exception:
        """The exception of a call that failed."""
        await self.failure(ticket)
        return unpack_failure((await self.answer(ticket)).value)

    def books(self) -> list[BookRead]:
        return [one for one in self.heard if isinstance(one, BookRead)]

    def _changes(self, number: int) -> list[ExecutorChanged]:
        return [one for one in self.heard if isinstance(one, ExecutorChanged) and one.executor == number]


@asynccontextmanager
async def serving(directory: Path, *holdings: Holding) -> AsyncIterator[Server]:
    """A server's doer; when it is closed, no process of it is left."""
    book = WrittenBook(*(holdings or (holding(),)))
    clock = Clock(asyncio.get_running_loop(), Instant(0))
    doer = FunctionDoer(clock, book, directory / "code", environ())
    server = Server(doer, book)
    server.begin()
    try:
        yield server
    finally:
        doer.close()
    await until_none(server.pids)


def environ() -> dict[str, str]:
    """What executors see of this process's environment."""
    return {"PATH": os.environ["PATH"], **ONE_THREAD}


async def until_none(pids: set[int]) -> None:
    """Wait until none of these processes runs."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while any(start_of_living(pid) for pid in pids):
            await asyncio.sleep(0.005)
