"""Emulated executors: they use what tasks hold for functions, and leave what tasks hold no more."""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from core.effects import EndExecutor, GiveCalls, ReadBook, StartExecutor
from core.messages.base import Message
from core.messages.executors import CallsEnded, ExecutorChanged
from core.messages.harvest import NodeSize
from core.nouns.function import CallOutcome, FunctionSpec, Holding, WarmLevel, WarmSpans
from core.nouns.function import Place as FunctionPlace
from core.nouns.ids import TenantName
from core.nouns.instant import SECOND, after, seconds
from core.nouns.quantities import NOTHING, Amount
from core.nouns.workload import Serves
from runtime.functions.emulated import EmulatedExecutors
from runtime.tasks.book import ExecutorUse
from tests.components.support.functions import sized
from tests.runtime.aids import Place, in_virtual_time

ML = TenantName("ml")
CORE = Amount(0, 1_000, 1 << 30)
HARVESTED = FunctionPlace(0, is_harvested=True)
SPEC = FunctionSpec(ML, "f", "0123abcd", CORE, warm=WarmSpans())


def a_holding(cores: int, name: str = "w-1.1.main.0", *, is_ending: bool = False) -> Holding:
    """So many cores of ml's, with memory for four executors on each."""
    return Holding(name, ML, Serves.OWN, is_ending, (), (), Amount(0, cores * 1_000, cores * 4 << 30))


def harvested(cores: int) -> Holding:
    """So many cores of a node that are harvested, with memory enough."""
    return Holding(
        "h", ML, Serves.ALL, False, (), (), Amount(0, cores * 1_000, 16 << 30), HARVESTED, slows=True
    )


class Book:
    """A book that the test writes."""

    def __init__(self, *holdings: Holding) -> None:
        self._holdings = holdings
        self._changed: Callable[[], None] | None = None

    def holdings(self) -> tuple[Holding, ...]:
        """Return what was written last."""
        return self._holdings

    def keep_harvested(self, revision: int, sizes: tuple[NodeSize, ...]) -> None:
        """Nothing is harvested."""

    def note_executors(self, executors: tuple[ExecutorUse, ...]) -> None:
        """Nobody asks."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back at each change."""
        self._changed = changed

    def write(self, *holdings: Holding) -> None:
        """Change it."""
        self._holdings = holdings
        assert self._changed is not None
        self._changed()


class Server:
    """The executors of a server, and all that it hears."""

    def __init__(self, place: Place, book: Book) -> None:
        self._place = place
        self._heard: list[Message] = []
        self.executors = EmulatedExecutors(place.clock(), book)
        self.executors.attach(self._heard.append)
        self.executors.begin(ReadBook())

    def heard(self) -> list[Message]:
        """Return what was heard since the last time."""
        found, self._heard[:] = self._heard.copy(), []
        return found

    async def warm(self, *numbers: int) -> None:
        """Start executors, and wait until they are at their top level."""
        for number in numbers:
            self.executors.begin(StartExecutor(number, SPEC))
        await self._place.sleep(1)
        assert not [one for one in self.heard() if isinstance(one, ExecutorChanged) and one.is_gone]

    def give(self, executor: int, *tickets: int) -> None:
        """Give it calls of ten seconds."""
        arguments = msgspec.msgpack.encode(10 * SECOND)
        self.executors.begin(GiveCalls(executor, tuple((ticket, arguments) for ticket in tickets)))


def outcomes(heard: list[Message]) -> dict[int, CallOutcome]:
    """How calls ended, by ticket."""
    return {
        end.ticket: end.answer.outcome for one in heard if isinstance(one, CallsEnded) for end in one.ends
    }


def gone(heard: list[Message]) -> list[int]:
    """The executors that are."""
    return [one.executor for one in heard if isinstance(one, ExecutorChanged) and one.is_gone]


def test_executors_use_no_more_than_tasks_hold() -> None:
    """One that is ordered beyond that is gone at once, and so is a call for which there are no cores given back."""

    async def body(place: Place) -> None:
        server = Server(place, Book(a_holding(1)))
        await server.warm(1)
        await server.warm(2)
        server.give(1, 1)
        assert {ML: Amount(0, 1_000, 2 << 30)} == server.executors.used()
        server.heard()
        server.executors.begin(StartExecutor(3, SPEC))
        server.give(2, 2)
        heard = server.heard()
        assert [3] == gone(heard)
        assert {2: CallOutcome.REFUSED} == outcomes(heard)

    in_virtual_time(body)


def test_ended_task_takes_its_executors_along() -> None:
    """While it stops the server is told less, and executors may stay; at its end the newest beyond what is left are gone, with their calls."""

    async def body(place: Place) -> None:
        book = Book(a_holding(1), a_holding(1, "other"))
        server = Server(place, book)
        await server.warm(1, 2)
        server.give(1, 1)
        server.give(2, 2, 3)
        server.heard()
        book.write(a_holding(1), a_holding(1, "other", is_ending=True))
        assert [sized(a_holding(1).amount, ((ML, a_holding(1).amount),))] == server.heard()
        book.write(a_holding(1))
        heard = server.heard()
        assert [2] == gone(heard)
        assert {2: CallOutcome.LOST, 3: CallOutcome.REFUSED} == outcomes(heard)
        book.write()
        assert [1] == gone(server.heard())
        assert {} == server.executors.used()

    in_virtual_time(body)


def test_idle_executor_leaves_its_cores_to_others() -> None:
    """And has its memory still."""

    async def body(place: Place) -> None:
        server = Server(place, Book(a_holding(1)))
        await server.warm(1)
        assert {ML: Amount(0, 0, 1 << 30)} == server.executors.used()
        await server.warm(2)
        server.give(2, 1)
        assert {ML: Amount(0, 1_000, 2 << 30)} == server.executors.used()
        await place.sleep(11)
        assert {1: CallOutcome.DONE} == outcomes(server.heard())
        server.executors.begin(EndExecutor(1))
        assert [1] == gone(server.heard())
        assert {ML: Amount(0, 0, 1 << 30)} == server.executors.used()

    in_virtual_time(body)


def test_executor_that_is_ended_tells_how_its_calls_ended() -> None:
    """The first had begun; the one behind had not. Its end is told after theirs."""

    async def body(place: Place) -> None:
        server = Server(place, Book(a_holding(1)))
        await server.warm(1)
        server.give(1, 1, 2)
        server.heard()
        server.executors.begin(EndExecutor(1))
        heard = server.heard()
        assert {1: CallOutcome.LOST, 2: CallOutcome.REFUSED} == outcomes(heard)
        assert [CallsEnded, ExecutorChanged] == [type(one) for one in heard]

    in_virtual_time(body)


def test_levels_take_the_times_that_the_function_names() -> None:
    """H-7: a process, weights in host memory, weights on the device; its first call begins then."""

    async def body(place: Place) -> None:
        held = Holding("w-1.1.main.0", ML, Serves.OWN, False, (), (), Amount(1_000, 1_000, 1 << 30))
        server = Server(place, Book(held))
        spans = WarmSpans(seconds(2), seconds(3), seconds(4))
        on_gpu = replace(SPEC, need=Amount(1_000, 1_000, 1 << 30), warm=spans)
        server.executors.begin(StartExecutor(1, on_gpu))
        server.give(1, 1)
        server.heard()
        for level, span in ((WarmLevel.PROCESS, 2), (WarmLevel.HOST, 3), (WarmLevel.DEVICE, 4)):
            await place.sleep(span - 0.1)
            assert [] == server.heard()
            await place.sleep(0.1)
            assert [ExecutorChanged(1, level)] == server.heard()
        await place.sleep(9.9)
        assert [] == server.heard()
        await place.sleep(0.1)
        assert {1: CallOutcome.DONE} == outcomes(server.heard())

    in_virtual_time(body)


def test_lost_call_tells_how_long_it_ran() -> None:
    """H-8: seconds of work that are lost with capacity are counted from that."""

    async def body(place: Place) -> None:
        book = Book(a_holding(1))
        server = Server(place, book)
        await server.warm(1)
        server.give(1, 1)
        await place.sleep(4)
        book.write()
        (end,) = [end for one in server.heard() if isinstance(one, CallsEnded) for end in one.ends]
        assert (CallOutcome.LOST, 4 * SECOND) == (end.answer.outcome, end.answer.ran)

    in_virtual_time(body)


def test_calls_slow_down_with_the_cores_that_are_left() -> None:
    """H-10: of a harvested place, in proportion, whatever begins or ends beside them; and they are as fast as before once there are enough."""

    async def body(place: Place) -> None:
        book = Book(harvested(2))
        server = Server(place, book)
        for number in (1, 2):
            server.executors.begin(StartExecutor(number, SPEC, HARVESTED))
        await place.sleep(1)
        server.give(1, 1)
        server.give(2, 2)
        await place.sleep(4)
        book.write(harvested(1))
        await place.sleep(6)
        server.heard()
        book.write(harvested(2))
        await place.sleep(2.9)
        assert {} == outcomes(server.heard())
        await place.sleep(0.1)
        assert {1: CallOutcome.DONE, 2: CallOutcome.DONE} == outcomes(server.heard())

    in_virtual_time(body)


def test_calls_have_their_cores_while_a_place_is_given_back() -> None:
    """H-1: a call that ends within the grace is done, for nobody has the cores before."""

    async def body(place: Place) -> None:
        book = Book(harvested(1))
        server = Server(place, book)
        server.executors.begin(StartExecutor(1, SPEC, HARVESTED))
        await place.sleep(1)
        server.give(1, 1)
        book.write(replace(harvested(1), amount=NOTHING, leaves_by=after(place.clock().now(), seconds(30))))
        await place.sleep(10)
        assert {1: CallOutcome.DONE} == outcomes(server.heard())

    in_virtual_time(body)


def test_executor_that_starts_has_begun_no_call() -> None:
    """Its calls run elsewhere, those too that may be begun once only."""

    async def body(place: Place) -> None:
        server = Server(place, Book(a_holding(1)))
        server.executors.begin(StartExecutor(1, replace(SPEC, warm=WarmSpans(seconds(9)))))
        server.give(1, 1, 2)
        server.executors.begin(EndExecutor(1))
        assert {1: CallOutcome.REFUSED, 2: CallOutcome.REFUSED} == outcomes(server.heard())

    in_virtual_time(body)


def test_server_that_is_gone_has_no_executors() -> None:
    """Whatever the book says then, nothing is heard of them."""

    async def body(place: Place) -> None:
        book = Book(a_holding(2))
        server = Server(place, book)
        await server.warm(1, 2)
        server.executors.detach()
        book.write()
        assert [] == server.heard()
        assert NOTHING == server.executors.used().get(ML, NOTHING)

    in_virtual_time(body)
