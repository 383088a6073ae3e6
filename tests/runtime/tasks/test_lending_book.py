"""H-1, H-10: what tasks lend is theirs again within the grace, and then theirs alone, whoever has died: a property over the device book."""

import os
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from core.messages.harvest import NodeSize
from core.nouns.function import Holding, Place
from core.nouns.harvest import lent_of
from core.nouns.ids import ShareKey, TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after, seconds
from core.nouns.quantities import MILLI, NOTHING, Amount
from runtime.functions.devices import Use, beyond, parts_for
from runtime.functions.harvested import holdings_of
from runtime.tasks.book import ExecutorUse, Harvested, HarvestNode, TakenBy, TaskNode, UsedBy
from runtime.tasks.layout import share_name
from runtime.tasks.processes import identity_of
from runtime.tasks.tasks_first import SOON, Clearing, TaskBook
from scenarios.worlds.function_books import MemoryPages

GRACE = seconds(0.2)
ANNA = TenantName("anna")
TOTAL = Amount(4_000, 16_000, 64)
HERE = Place(0, is_harvested=True)
A, B = ShareKey(WorkloadId("w-1"), 1), ShareKey(WorkloadId("w-2"), 1)
HELD = {
    A: TaskNode(0, Amount(3_000, 6_000, 24), ((0, MILLI), (1, MILLI), (2, MILLI))),
    B: TaskNode(0, Amount(1_000, 2_000, 8), ((3, MILLI),)),
}


def lending(key: ShareKey, idle: int) -> TaskNode:
    """What a share has, with so many of its highest devices lent."""
    held = HELD[key]
    slots = [slot for slot, _ in held.slots]
    return replace(held, lent=lent_of(held.amount, idle), lent_slots=tuple(slots[len(slots) - idle :]))


class LentDevices(RuleBasedStateMachine):
    """Two shares that hold a whole node, a function server, and the worker between them: each of the latter may be dead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = Instant(0)
        self.pages = MemoryPages()
        self.pages.keep_harvested(Harvested(1, (HarvestNode(NodeSize(0, TOTAL, TOTAL, GRACE)),)))
        for key, held in HELD.items():
            self.pages.take(TakenBy(share_name(key), (held,)))
        self.uses: dict[int, Use] = {}
        self.numbers = count(1)
        self.is_server_alive = True
        self.worker: Clearing | None = self.new_worker()
        self.said = dict.fromkeys(HELD, 0)
        """How many devices are idle, as tasks have said last."""
        self.wanted: dict[ShareKey, Instant] = {}
        """Since when a share waits for what it lends, by its task's newest word, and the worker knows."""

    def new_worker(self) -> Clearing:
        """The worker is started, and goes on as its spool does."""
        book = TaskBook(self.pages, lambda: self.now, self.kill)
        book.keep(map(share_name, HELD))
        worker = Clearing(book)
        worker.adopt(HELD)
        return worker

    def kill(self, used: UsedBy) -> None:
        """The worker kills an executor."""
        self.uses.pop(-used.use.pid, None)
        self.write()

    def write(self) -> None:
        """The function server writes what executors use."""
        me = os.getpid()
        self.pages.use(
            tuple(
                ExecutorUse(-number, me, ANNA, use.gpus, (), use.need, use.place)
                for number, use in self.uses.items()
            )
        )
        self.pages._uses = [UsedBy(one.use, identity_of(me), identity_of(me)) for one in self.pages.uses()]

    def look(self) -> None:
        """The worker looks, if it lives: lends more, or asks whether what is wanted back is clear."""
        for key in HELD if self.worker is not None else ():
            assert self.worker is not None
            had = self.lent(key)
            target = lending(key, self.said[key])
            if had > self.said[key]:
                self.wanted.setdefault(key, self.now)
                slots = lending(key, had).lent_slots[: had - self.said[key]]
                amount = lending(key, had).lent.minus(target.lent)
                back = TaskNode(0, amount, tuple((slot, MILLI) for slot in slots))
                if self.worker.take_back(key, (target,), (back,)):
                    self.wanted.pop(key, None)
            else:
                self.worker.keep_lending(key)
                self.wanted.pop(key, None)
                if had < self.said[key]:
                    self.worker.lend(key, (target,))

    def lent(self, key: ShareKey) -> int:
        """How many devices a share lends by the book."""
        taken = self.pages.taken_by(share_name(key))
        assert taken is not None
        return len(taken.nodes[0].lent_slots)

    def serve(self) -> None:
        """The function server ends what has to leave, if it lives."""
        if self.is_server_alive:
            for number in beyond(self.holdings(), self.uses, self.now):
                del self.uses[number]
            self.write()

    def holdings(self) -> tuple[Holding, ...]:
        """What functions may use."""
        return holdings_of(self.pages.harvested().nodes, self.pages.taken())

    @rule(key=st.sampled_from([A, B]), idle=st.integers(0, 3))
    def say(self, key: ShareKey, idle: int) -> None:
        """A task says how many of its devices are idle."""
        idle = min(idle, len(HELD[key].slots))
        if idle != self.said[key]:
            self.wanted.pop(key, None)
        self.said[key] = idle
        self.look()

    @precondition(lambda self: self.is_server_alive)
    @rule(gpus=st.integers(1, 2))
    def start(self, gpus: int) -> None:
        """An executor starts, if it finds room, written before the server has read the book again."""
        need = Amount(gpus * MILLI, 1_000, 8)
        parts = parts_for(self.holdings(), self.uses.values(), HERE, ANNA, need)
        if parts is not None:
            self.uses[next(self.numbers)] = Use(ANNA, need, parts, HERE)
            self.write()

    @rule()
    def end(self) -> None:
        """The oldest executor is done."""
        if self.uses:
            del self.uses[min(self.uses)]
            self.write()

    @rule()
    def turn_server(self) -> None:
        """The function server dies, with executors that run on, or lives again."""
        self.is_server_alive = not self.is_server_alive

    @rule()
    def turn_worker(self) -> None:
        """The worker dies, or lives again."""
        self.worker = self.new_worker() if self.worker is None else None
        self.look()

    @rule(steps=st.integers(1, 15))
    def wait(self, steps: int) -> None:
        """Time passes."""
        for _ in range(steps):
            self.now = after(self.now, SOON)
            self.serve()
            self.look()

    @invariant()
    def no_device_is_used_twice(self) -> None:
        """What a share has back, and never lent, no executor uses; and no two use one device."""
        used: dict[int, int] = {}
        for use in self.uses.values():
            for gpu in use.gpus:
                used[gpu.index] = used.get(gpu.index, 0) + gpu.milli
        assert max(used.values(), default=0) <= MILLI
        for key in HELD:
            kept = lending(key, self.lent(key)).kept
            assert not used.keys() & kept.keys(), (used, kept)

    @invariant()
    def it_is_back_within_the_grace(self) -> None:
        """As long as the worker lives."""
        if self.worker is not None:
            late = {
                key: since
                for key, since in self.wanted.items()
                if self.now > after(since, Nanoseconds(GRACE + SOON))
            }
            assert {} == late


TestLentDevices = LentDevices.TestCase
TestLentDevices.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
assert NOTHING != lending(A, 1).lent
