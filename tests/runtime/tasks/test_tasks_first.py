"""Tasks come first: whoever uses what is harvested has left when a share is prepared, in time, whether plane and function server live or not."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core.messages.harvest import NodeSize
from core.nouns.function import GpuPart, Place
from core.nouns.ids import TenantName
from core.nouns.instant import SECOND, Instant, after, seconds
from core.nouns.quantities import MILLI, NOTHING, Amount
from core.nouns.workload import JobSpec
from runtime.functions.book import after_resizing
from runtime.functions.harvested import holdings_of
from runtime.tasks.book import BookFiles, ExecutorUse, Harvested, HarvestNode, TakenBy, TaskNode, UsedBy
from runtime.tasks.tasks_first import LATE, Clearing, TaskBook, any_executors, beyond, kill_executor, left_of
from scenarios.worlds.function_books import MemoryPages
from tests.builders import START
from tests.core.properties import PROPERTY
from tests.runtime.tasks.aids import command_of

GPUS = 4
NODE = 3
HARVESTED = Place(NODE, is_harvested=True)
GRACE = seconds(30)
TOTAL = Amount(GPUS * MILLI, 16_000, 64 << 30)
ML = TenantName("ml")


def size(gpus: int = GPUS) -> NodeSize:
    """So many GPUs of the node are harvested."""
    return NodeSize(NODE, TOTAL, Amount(gpus * MILLI, 16_000, 64 << 30), GRACE)


def task(gpus: int, lent: int = 0) -> TaskNode:
    """Tasks that have so many GPUs, and lend some of them."""
    return TaskNode(NODE, Amount(gpus * MILLI), lent=Amount(lent * MILLI))


def use(pid: int) -> ExecutorUse:
    """An executor that uses a GPU."""
    return ExecutorUse(pid, -1, ML, (GpuPart(pid % GPUS, MILLI),), (), Amount(MILLI), HARVESTED, number=pid)


class Machine(RuleBasedStateMachine):
    """A worker and a function server, which may stand still or be dead, over one book."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.pages = MemoryPages()
        self.book = TaskBook(self.pages, lambda: self.now, self.kill)
        self.is_frozen = False
        self.noted: list[int] = []
        """Executors in the book, in order."""
        self.begun: set[int] = set()
        """Those that use their GPU."""
        self.killed: set[int] = set()
        """Those of which something lived on when they were killed."""
        self.count = self.seen = 0
        self.waiting: dict[str, tuple[int, Instant]] = {}
        """GPUs of shares that wait, and since when."""
        self.running: dict[str, int] = {}

    @initialize()
    def lend(self) -> None:
        """The harvester has lent all of the node."""
        self.pages.keep_harvested(Harvested(1, (HarvestNode(size()),)))

    # The function server.

    def room(self) -> int:
        """GPUs that functions may use now."""
        (holding,) = holdings_of(self.pages.harvested().nodes, self.pages.taken())
        return holding.amount.gpu_milli // MILLI

    def note(self) -> None:
        """Write the uses down."""
        self.pages.use(tuple(map(use, self.noted)))

    @rule()
    @precondition(lambda self: not self.is_frozen)
    def read(self) -> None:
        """The book is read, and may say something else a moment later."""
        self.seen = self.room()

    @rule()
    @precondition(lambda self: not self.is_frozen)
    def fork(self) -> None:
        """An executor is forked, for there was room when the server read the book last, and its use is noted. It has not begun."""
        if len(self.noted) < self.seen and len(self.noted) == len(self.begun):
            self.count += 1
            self.noted.append(self.count)
            self.note()

    @rule()
    @precondition(lambda self: not self.is_frozen)
    def let_begin(self) -> None:
        """The book is read again, and only then the newest executor begins."""
        if self.noted and self.noted[-1] not in self.begun:
            if len(self.noted) <= self.room():
                self.begun.add(self.noted[-1])
            else:
                self.noted.pop()
                self.note()

    @rule()
    @precondition(lambda self: not self.is_frozen)
    def leave(self) -> None:
        """The server obeys, sooner or later."""
        while len(self.noted) > self.room():
            self.begun.discard(self.noted.pop())
        self.note()

    @rule()
    @precondition(lambda self: len(self.noted) > 1)
    def stand_still(self) -> None:
        """The server is stopped, or dead with its executors left: nobody obeys."""
        self.is_frozen = True

    @rule()
    def go_on(self) -> None:
        """The server lives again."""
        self.is_frozen = False

    def kill(self, used: UsedBy) -> None:
        """The worker kills an executor. At the first time it has just started something, which lives on."""
        if used.use.pid not in self.killed:
            self.killed.add(used.use.pid)
            return
        self.noted.remove(used.use.pid)
        self.begun.discard(used.use.pid)
        self.note()

    @rule(gpus=st.integers(0, GPUS))
    def resize(self, gpus: int) -> None:
        """The harvester says another size."""
        known = self.pages.harvested()
        self.pages.keep_harvested(after_resizing(known, known.revision + 1, (size(gpus),), self.now, ()))

    # The worker.

    @rule(gpus=st.integers(1, GPUS))
    def want(self, gpus: int) -> None:
        """The region has granted GPUs: no more than other tasks leave."""
        held = sum(self.running.values()) + sum(gpus for gpus, _ in self.waiting.values())
        if held + gpus <= GPUS:
            name = f"w-{self.count}-{len(self.running) + len(self.waiting)}-{self.now}"
            self.book.want(name, (task(gpus),))
            self.waiting[name] = (gpus, self.now)
            self.look()

    @rule()
    def look(self) -> None:
        """The worker looks whether shares are clear."""
        for name, (gpus, _) in list(self.waiting.items()):
            if self.book.is_clear(name, any_executors):
                self.book.have(name, (task(gpus),))
                self.running[name] = gpus
                del self.waiting[name]

    @rule()
    def start_worker_again(self) -> None:
        """A share that waits is asked for again, and keeps its time."""
        self.book = TaskBook(self.pages, lambda: self.now, self.kill)
        self.book.keep(self.running)
        for name, (gpus, _) in self.waiting.items():
            self.book.want(name, (task(gpus),))

    @rule(share=st.integers(0, 3))
    def end(self, share: int) -> None:
        """Tasks end."""
        if share < len(self.running):
            name = list(self.running)[share]
            del self.running[name]
            self.book.give_back(name)

    @rule(span=st.floats(0, 40))
    def wait(self, span: float) -> None:
        """Time passes, and the worker looks often enough."""
        self.now = after(self.now, seconds(span))
        for _ in range(2):
            self.look()

    @invariant()
    def no_device_is_used_twice(self) -> None:
        """H-10: by tasks that run and executors that have begun."""
        assert sum(self.running.values()) + len(self.begun) <= GPUS

    @invariant()
    def tasks_wait_no_longer_than_the_grace(self) -> None:
        """H-1: whatever has died."""
        late = [since for _, since in self.waiting.values() if self.now - since > GRACE + SECOND]
        for since in late:
            self.look()
            self.look()
            assert since not in [one for _, one in self.waiting.values()]


TestTasksFirst = Machine.TestCase
TestTasksFirst.settings = settings(PROPERTY, max_examples=400, stateful_step_count=40)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=4), st.integers(0, 6))
def test_what_tasks_leave_and_executors_exceed(tasks: list[tuple[int, int]], executors: int) -> None:
    """Lent parts are for executors, and nothing is left below nothing."""
    taken = [
        TakenBy(f"w-{number}", (task(gpus, min(lent, gpus)),)) for number, (gpus, lent) in enumerate(tasks)
    ]
    left = max(0, GPUS - sum(gpus - min(lent, gpus) for gpus, lent in tasks))
    assert left * MILLI == left_of(size(), taken).gpu_milli
    found = beyond(size(), taken, [use(pid) for pid in range(executors)])
    assert max(0, executors - left) * MILLI == found.gpu_milli
    assert 0 == found.cpu_milli


def test_share_waits_for_those_before_it_alone(tmp_path: Path) -> None:
    """Executors that another share has to wait for are not in its way."""
    now, pages, killed = START, BookFiles(tmp_path), []

    def kill(used: UsedBy) -> None:
        killed.append(used.use.number)

    book = TaskBook(pages, lambda: now, kill)
    pages.keep_harvested(Harvested(1, (HarvestNode(size()),)))
    pid = os.getpid()
    pages.use(
        tuple(ExecutorUse(pid, 1, ML, (), (), Amount(MILLI), HARVESTED, number=number) for number in range(3))
    )
    book.want("a", (task(1),))
    assert book.is_clear("a", any_executors), "one of four GPUs is free"
    book.want("b", (task(2),))
    assert not book.is_clear("b", any_executors)
    assert book.is_clear("a", any_executors)
    now = after(now, GRACE)
    assert not book.is_clear("b", any_executors)
    assert [2, 1] == killed, "two of three have to go"
    assert not book.is_clear("b", any_executors)
    assert [2, 1] == sorted(killed[2:], reverse=True), (
        "they live, and are killed again; the third is in nobody's way"
    )


def test_devices_count_where_they_have_numbers(tmp_path: Path) -> None:
    """Enough is free in all, but not whole: the worker says what its tasks could have beside which executors."""
    now, pages = START, BookFiles(tmp_path)
    killed: list[int] = []
    book = TaskBook(pages, lambda: now, lambda used: killed.append(used.use.pid))
    pages.keep_harvested(Harvested(1, (HarvestNode(size()),)))
    halves = [
        ExecutorUse(1, 1, ML, (GpuPart(index, 500),), (), Amount(500), HARVESTED, number=index)
        for index in range(GPUS)
    ]
    pages.use(tuple(halves))
    book.want("a", (task(1),))

    def fits(executors: Sequence[ExecutorUse]) -> bool:
        used = {gpu.index for one in executors for gpu in one.gpus}
        return len(used) < GPUS

    assert not book.is_clear("a", fits)
    now = after(now, GRACE)
    book.is_clear("a", fits)
    assert 1 == len(killed)


def test_nothing_is_waited_for_where_nothing_is_harvested(tmp_path: Path) -> None:
    """No time is given, and nobody looks at executors."""
    book = TaskBook(BookFiles(tmp_path), lambda: START, lambda _: None)
    book.want("a", (task(4),))
    assert book.is_clear("a", any_executors)
    taken = BookFiles(tmp_path).taken_by("a")
    assert taken is not None
    assert 0 == taken.clears_by
    book.give_back("a")
    assert [] == BookFiles(tmp_path).taken()


def test_sizes_that_shrink_give_the_grace_once() -> None:
    """Said again they give no new one; a node of which nothing is said is given back too."""
    known = Harvested(1, (HarvestNode(size(4)),))
    smaller = after_resizing(known, 2, (size(2),), START, ())
    assert after(START, GRACE) == smaller.nodes[0].leaves_by
    later = after(START, seconds(5))
    assert smaller.nodes == after_resizing(smaller, 3, (size(2),), later, ()).nodes
    (gone,) = after_resizing(smaller, 4, (), later, ()).nodes
    assert (NOTHING, after(later, GRACE)) == (gone.size.size, gone.leaves_by)
    assert () == after_resizing(Harvested(4, (gone,)), 5, (), after(later, seconds(31)), ()).nodes
    assert (gone,) == after_resizing(Harvested(4, (gone,)), 5, (), after(later, seconds(31)), {NODE}).nodes, (
        "executors live there"
    )


def test_files_that_change_are_read_again(tmp_path: Path) -> None:
    """Also one that is written again at once, and one that is gone."""
    writer, reader = BookFiles(tmp_path), BookFiles(tmp_path)
    for gpus in (1, 2, 3, 1):
        writer.take(TakenBy("a", (task(gpus),)))
        assert [TakenBy("a", (task(gpus),))] == reader.taken()
    writer.take(TakenBy("b", (task(1),)))
    for path in (tmp_path / "tasks").glob("*.json"):
        os.utime(path, ns=(1, 1))
    assert ["a", "b"] == [one.share for one in reader.taken()]
    assert reader.taken() == reader.taken()
    writer.take(TakenBy("a", (task(4),)))
    assert [4_000, 1_000] == [one.nodes[0].amount.gpu_milli for one in reader.taken()]
    writer.give_back("a")
    assert ["b"] == [one.share for one in reader.taken()]


class Meanwhile(MemoryPages):
    """Pages on which somebody else writes while a worker reads what is harvested."""

    then: Callable[[], None] | None = None

    def harvested(self) -> Harvested:
        """Read; and then it happens, once."""
        found = super().harvested()
        if self.then is not None:
            then, self.then = self.then, None
            then()
        return found


def test_node_that_is_lent_while_a_share_is_written() -> None:
    """A function server keeps a size and has an executor begin after the worker has read, and before it has written."""
    pages = Meanwhile()
    book = TaskBook(pages, lambda: START, lambda _: None)

    def begin() -> None:
        pages.keep_harvested(Harvested(1, (HarvestNode(size()),)))
        pages.use((use(1),))

    pages.then = begin
    book.want("a", (task(GPUS),))
    assert not book.is_clear("a", any_executors)


def test_share_that_nobody_asks_for_again_is_taken_out() -> None:
    """Its worker has died, and its attempt is over: a minute later functions may use the node."""
    now, pages = START, MemoryPages()
    pages.keep_harvested(Harvested(1, (HarvestNode(size()),)))
    for share in ("forgotten", "asked"):
        TaskBook(pages, lambda: now, lambda _: None).want(share, (task(1),))
    book = TaskBook(pages, lambda: now, lambda _: None)
    book.keep(())
    book.want("asked", (task(1),))
    due = book.tidy()
    assert due == after(START, LATE)
    now = due
    assert None is book.tidy()
    assert ["asked"] == [one.share for one in pages.taken()]


def test_clock_that_was_set_back_gives_no_longer_time() -> None:
    """A worker that starts again takes its time from the machine's clock."""
    now, pages = after(START, seconds(3_600)), MemoryPages()
    pages.keep_harvested(Harvested(1, (HarvestNode(size()),)))
    TaskBook(pages, lambda: now, lambda _: None).want("a", (task(1),))
    now = START
    book = TaskBook(pages, lambda: now, lambda _: None)
    book.want("a", (task(1),))
    assert after(START, GRACE) == book.clears_by("a")


def test_more_that_is_wanted_back_has_the_grace() -> None:
    """Calls on a second GPU that a task wants have as long as those on the first had."""
    now, pages = START, MemoryPages()
    pages.keep_harvested(Harvested(1, (HarvestNode(size()),)))
    book = TaskBook(pages, lambda: now, lambda _: None)
    book.want("a+back", (task(1),))
    now = after(START, seconds(29))
    book.want("a+back", (task(1),))
    assert after(START, GRACE) == book.clears_by("a+back")
    book.want("a+back", (task(2),))
    assert after(now, GRACE) == book.clears_by("a+back")


def test_book_that_cannot_be_read_is_in_the_way(tmp_path: Path) -> None:
    """Whether executors live is not known then: the share waits, and functions may use nothing that is harvested."""
    pages = BookFiles(tmp_path)
    pages.keep_harvested(Harvested(1, (HarvestNode(NodeSize(0, TOTAL, TOTAL, GRACE)),)))
    clearing = Clearing(TaskBook(pages, lambda: START, lambda _: None))
    command = command_of((JobSpec("main", 1, Amount(MILLI), "H100"),), 1, 1)
    (tmp_path / "executors.json").mkdir()
    assert not clearing.admit(command)
    assert [] == clearing.passed()
    (tmp_path / "executors.json").rmdir()
    assert [command] == clearing.passed()


def test_emulated_executors_are_no_processes_to_kill(tmp_path: Path) -> None:
    """They are parts of their server, which runs others too: one that should have left is over."""
    now, pages = START, BookFiles(tmp_path)
    pages.keep_harvested(Harvested(1, (HarvestNode(size()),)))
    server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        pages.use(
            ExecutorUse(
                server.pid,
                server.pid,
                ML,
                (),
                (),
                Amount(2 * MILLI),
                HARVESTED,
                number=number,
                is_emulated=True,
            )
            for number in range(2)
        )
        book = TaskBook(pages, lambda: now, kill_executor)
        book.want("a", (task(1),))
        assert not book.is_clear("a", any_executors)
        now = after(now, GRACE)
        assert book.is_clear("a", any_executors)
        assert 1 == len(book.executors()), "the other one is in nobody's way"
        assert None is server.poll()
    finally:
        server.kill()
        server.wait()
