"""H-1: emulated tasks lend idle devices by their cycles, and have them back when executors have left, within the grace."""

import os
from typing import Any

from core.messages.harvest import NodeSize
from core.messages.workers import TasksChanged
from core.nouns.function import Place as NodePlace
from core.nouns.harvest import LentPart, lent_of
from core.nouns.ids import TenantName
from core.nouns.instant import seconds
from core.nouns.placement import Spread
from core.nouns.quantities import NOTHING, Amount
from core.nouns.workload import Emulation, JobSpec
from runtime.emulated.lending import Cycle
from runtime.tasks.book import ExecutorUse
from scenarios.worlds.function_books import NodesBook
from tests.runtime.aids import Place, virtual
from tests.runtime.test_spool import Nodes, prepare

NEED = Amount(2_000, 8_000, 100)
"""Of each task."""
NODE = Amount(8_000, 64_000, 1_000)
GRACE = seconds(5)
BUSY_THEN_IDLE = ((seconds(10), 0), (seconds(20), 2), (seconds(10), 1))
HERE = NodePlace(0, is_harvested=True)


class Lending(Nodes):
    """Nodes with a book beside them, in which executors are written by the test."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.book = NodesBook(self.spool, place.clock())
        self.book.kill = self.leave
        self.killed: list[int] = []
        self.book.keep_harvested(1, (NodeSize(0, NODE, NODE, GRACE),))

    def use(self, *gpus: int) -> None:
        """Executors use so many GPUs, each of them."""
        pid, anna = os.getpid(), TenantName("anna")
        self.book.note_executors(
            tuple(
                ExecutorUse(
                    pid, pid, anna, (), (), Amount(1_000 * count), HERE, number=number, is_emulated=True
                )
                for number, count in enumerate(gpus, 1)
            )
        )

    def leave(self, number: int) -> None:
        """One of them is killed."""
        self.killed.append(number)
        left = [one.use for one in self.book.pages.uses() if one.use.number != number]
        self.book.note_executors(tuple(left))

    def run_idling(self, *, tasks: int = 1, **changed: Any) -> None:
        """A share of tasks with such a cycle runs."""
        emulation = Emulation(seconds(200), idle=BUSY_THEN_IDLE, **changed)
        job = JobSpec("job-0", tasks, NEED, "H100", emulation)
        self.start(emulation, jobs=(job,), spreads=(Spread((0,), (tasks,)),))

    def lends(self) -> list[tuple[float, int]]:
        """When it said how many devices it lends, whenever that was another number."""
        said: list[tuple[float, int]] = []
        for at, message in self.heard:
            if isinstance(message, TasksChanged) and message.tasks.epoch == 1:
                lent = sum(one.size.gpu_milli // 1_000 for one in message.tasks.lends)
                if lent != (said[-1][1] if said else 0):
                    said.append((round(at, 3), lent))
        return said

    @property
    def state_of_book(self) -> Amount:
        """What the book says that it lends."""
        (taken,) = [one for one in self.book.pages.taken() if not one.share.endswith("+back")]
        return taken.nodes[0].lent


def test_cycle_goes_round() -> None:
    """At each boundary, and after many rounds, whoever asks late."""
    cycle = Cycle(BUSY_THEN_IDLE)
    at = [cycle.at(seconds(40 * 1_000 + second)) for second in (0, 9, 10, 29, 30, 39)]
    left = [(0, 10), (0, 1), (2, 20), (2, 1), (1, 10), (1, 1)]
    assert [(count, seconds(span)) for count, span in left] == at


def test_devices_go_with_their_part_of_the_rest() -> None:
    """But for the memory that the task keeps; a part of a device is not lent, and no more than there are."""
    assert Amount(1_000, 4_000, 50) == lent_of(NEED, 1)
    assert Amount(1_000, 4_000, 40) == lent_of(NEED, 1, 60)
    assert Amount(2_000, 8_000, 0) == lent_of(NEED, 9, 200)
    assert NOTHING == lent_of(NEED, 0)
    assert NOTHING == lent_of(Amount(500, 1_000), 1)
    assert Amount(1_000, 800) == lent_of(Amount(1_500, 1_200), 3)


@virtual
async def test_what_is_idle_is_lent(place: Place) -> None:
    """From when the task begins to work; the book says it before the region hears, and nobody waits for what nobody uses."""
    nodes = Lending(place)
    nodes.run_idling(tasks=2, set_up=seconds(3), keeps_bytes=70)
    await place.sleep(14)
    assert [(13.0, 4)] == nodes.lends()
    assert Amount(4_000, 16_000, 60) == nodes.state_of_book
    assert (LentPart(0, nodes.state_of_book),) == next(iter(nodes.spool.shares.values())).state.lends
    await place.sleep(40)
    assert [(13.0, 4), (33.0, 2), (43.0, 0), (53.0, 4)] == nodes.lends()
    assert nodes.spool.lending is not None
    figures = nodes.spool.lending.figures
    assert (2, [], 0) == (figures.taken_back, [*figures.waits], figures.waited_for_nobody)


@virtual
async def test_wanting_back_waits_until_executors_have_left(place: Place) -> None:
    """Those that are in the way, and not those for which there is room: the region hears of it only then."""
    nodes = Lending(place)
    nodes.run_idling()
    await place.sleep(12)
    nodes.use(6, 1, 1)
    await place.sleep(20)
    assert [(10.0, 2)] == nodes.lends()
    nodes.use(6, 1)
    await place.sleep(1)
    assert [(10.0, 2), (32.0, 1)] == nodes.lends()
    assert nodes.spool.lending is not None
    assert [seconds(2)] == [*nodes.spool.lending.figures.waits]


@virtual
async def test_executors_are_killed_at_the_end_of_the_grace(place: Place) -> None:
    """Whatever the function server does: those that are in the way, and no others."""
    nodes = Lending(place)
    nodes.run_idling()
    await place.sleep(12)
    nodes.use(6, 1, 1)
    await place.sleep(35)
    assert [(10.0, 2), (35.0, 1), (45.0, 0)] == nodes.lends()
    assert [3, 2] == nodes.killed


@virtual
async def test_what_is_idle_again_is_wanted_no_more(place: Place) -> None:
    """Before executors had left: they stay."""
    nodes = Lending(place)
    nodes.book.keep_harvested(2, (NodeSize(0, NODE, NODE, seconds(40)),))
    nodes.run_idling()
    await place.sleep(12)
    nodes.use(6, 2)
    await place.sleep(50)
    assert [(10.0, 2)] == nodes.lends()
    assert [] == [one.share for one in nodes.book.pages.taken() if one.share.endswith("+back")]


@virtual
async def test_share_that_ends_lends_nothing(place: Place) -> None:
    """And has nothing in the book."""
    nodes = Lending(place)
    nodes.run_idling(fails_after=seconds(15))
    await place.sleep(20)
    assert [(10.0, 2), (15.0, 0)] == nodes.lends()
    assert [] == nodes.book.pages.taken()


@virtual
async def test_nodes_without_functions_lend_nothing(place: Place) -> None:
    """There is no book."""
    nodes = Nodes(place)
    nodes.start(Emulation(seconds(50), idle=BUSY_THEN_IDLE))
    await place.sleep(30)
    assert {()} == {message.tasks.lends for _, message in nodes.heard if isinstance(message, TasksChanged)}


@virtual
async def test_guest_and_host_lend_nothing(place: Place) -> None:
    """From the next span on: the device of each is the other's too."""
    nodes = Lending(place)
    emulation = Emulation(seconds(200), idle=((seconds(10), 0), (seconds(10), 1)))
    nodes.start(emulation)
    await place.sleep(12)
    assert [(10.0, 1)] == nodes.lends()
    guest = prepare(emulation, epoch=2, beside=next(iter(nodes.spool.shares)).attempt)
    nodes.start(emulation, epoch=2, beside=guest.beside)
    await place.sleep(60)
    assert [(10.0, 1), (20.0, 0)] == nodes.lends()
