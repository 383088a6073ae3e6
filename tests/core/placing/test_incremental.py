"""What is worked out from changes equals what is worked out from scratch, and every invalidation is needed."""

import random
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from core.placing.index import request_classes as classes
from core.placing.index import table
from core.placing.index.table import JOURNAL_LENGTH
from core.rules.placement.power_headroom import PowerHeadroom
from core.rules.placement.rule import NOBODY
from tests.core.placing.shelves import GPUS, Engine, Shelf
from tests.mutants.mutants import Edit
from tests.mutants.planted import HOUSE, planted_in

EVENTS = 100_000
EVENTS_FOR_A_MUTANT = 30_000

slots = st.integers(0, 1000)
"""Positions among a shelf's slots."""


class Machine(RuleBasedStateMachine):
    """Whatever may happen to a table, in any order, with classes read in between or not."""

    def __init__(self) -> None:
        super().__init__()
        self.shelf = Shelf(nodes=400)

    def slot(self, number: int) -> int:
        """One of the pool's."""
        return int(self.shelf.slots[number % len(self.shelf.slots)])

    @rule(
        number=slots, gpu=st.sampled_from(GPUS), cpu=st.sampled_from((0, 2500, 64_000)), is_open=st.booleans()
    )
    def put(self, number: int, gpu: int, cpu: int, *, is_open: bool) -> None:
        """A row as it is now."""
        self.shelf.put(self.slot(number), gpu, cpu, 512, is_open=is_open)

    @rule(
        number=slots,
        change=st.sampled_from(
            [("gpu", 3000), ("cpu", 2500), ("memory", -5), ("is_open", 0), ("is_open", 1)]
        ),
    )
    def change(self, number: int, change: tuple[str, int]) -> None:
        """One column of a row."""
        self.shelf.change(self.slot(number), *change)

    @rule(first=slots, count=st.integers(1, 40), gpu=st.sampled_from(GPUS))
    def put_neighbours(self, first: int, count: int, gpu: int) -> None:
        """Rows that follow each other: racks and pods become full or empty."""
        for number in range(first, first + count):
            self.shelf.put(self.slot(number), gpu, 64_000, 512, is_open=True)

    @rule(number=slots, upkeep=st.integers(0, 2))
    def set_upkeep(self, number: int, upkeep: int) -> None:
        """Work is planned, or done."""
        self.shelf.set_upkeep(self.slot(number), upkeep)

    @rule(number=slots, owner=st.sampled_from((NOBODY, 1, 2, 3)))
    def set_owner(self, number: int, owner: int) -> None:
        """Somebody comes or goes."""
        self.shelf.set_owner(self.slot(number), owner)

    @rule(seed=st.integers(0, 5))
    def fill(self, seed: int) -> None:
        """Every row anew."""
        self.shelf.refill(random.Random(seed))

    @rule(which=st.integers(0, 5))
    def read(self, which: int) -> None:
        """A class is brought up to date, others are not."""
        one = self.shelf.classes[which]
        assert not self.shelf.difference([one])
        assert 0 <= one.cap.min()

    def teardown(self) -> None:
        """And all of them, in the end."""
        assert not self.shelf.difference()


def test_classes_equal_from_scratch_whatever_happens() -> None:
    """P14: rows, rows beside each other, upkeep, owners and fills, with reads in between, in orders that hypothesis finds."""
    tried = settings(derandomize=True, deadline=None, database=None, max_examples=40, stateful_step_count=30)
    run_state_machine_as_test(Machine, settings=tried)


def test_classes_equal_from_scratch_after_100_000_events() -> None:
    """P14: all columns of units, of classes and of what they share, through updates of one run, of many rows, and builds."""
    shelf = Shelf()
    assert not shelf.run(seed=1, events=EVENTS)
    first = shelf.classes[0]
    assert shelf.table.revision > EVENTS // 2
    assert first.builds < EVENTS // 500, "most updates are incremental"


def test_gap_larger_than_the_journal_is_one_build() -> None:
    """P15: who is further behind than the journal reaches works out everything anew, once, and finds the same."""
    shelf = Shelf()
    near, far = shelf.classes[0], shelf.classes[1]
    near.update()
    far.update()
    slot = int(shelf.slots[0])
    for count in range(JOURNAL_LENGTH):
        shelf.set_upkeep(slot, 1 + count % 2)
    near.update()
    assert (1, 1) == (near.builds, far.builds)
    shelf.set_upkeep(slot, 0)
    far.update()
    assert (1, 2) == (near.builds, far.builds)
    assert not shelf.difference()
    assert (1, 2) == (near.builds, far.builds)


def test_journal_is_read_across_its_end() -> None:
    """P14: changes at the end of the ring and at its beginning are found together, and in each only what changed."""
    shelf = Shelf()
    slots = [int(slot) for slot in shelf.slots]
    while shelf.table.revision % JOURNAL_LENGTH != JOURNAL_LENGTH - 2:
        shelf.set_upkeep(slots[0], 1 + shelf.table.revision % 2)
    before = shelf.table.revision
    for slot in slots[8:16:2]:
        shelf.set_upkeep(slot, 2)
    changed = shelf.table.changed_since(before)
    assert isinstance(changed, np.ndarray)
    assert slots[8:16:2] == changed.tolist()
    assert not shelf.difference()


def test_few_changes_are_the_same_slots_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """P14: looked at one by one or as arrays, one slot or a run at a time, also across the end of the ring."""
    dice, shelf = random.Random(3), Shelf()
    slots = [int(slot) for slot in shelf.slots]
    while shelf.table.revision % JOURNAL_LENGTH != JOURNAL_LENGTH - 500:
        shelf.set_upkeep(slots[0], 1 + shelf.table.revision % 2)
    for _ in range(300):
        before = shelf.table.revision
        for _ in range(dice.randint(1, 12)):
            first = dice.randrange(len(slots))
            for slot in slots[first : first + dice.choice((1, 1, 1, 3))]:
                shelf.set_upkeep(slot, dice.choice((0, 1, 2)))
        found: list[Any] = []  # Slices are compared with slices, and arrays with arrays.
        for few in (0, 1 << 12):
            monkeypatch.setattr(table, "FEW", few)
            shelf.table._answered = (-1, -1)
            found.append(shelf.table.changed_since(before))
        of_many, of_few = found
        assert type(of_many) is type(of_few)
        assert of_many == of_few if isinstance(of_many, slice) else np.array_equal(of_many, of_few)


def test_more_than_there_is_counts_as_all_of_it() -> None:
    """A search that asks what if more were free than a node has finds units empty, and no score beyond a rule's steps."""
    shelf = Shelf()
    table, slot = shelf.table, int(shelf.slots[0])
    shelf.put(slot, 1 << 20, 64_000, 512, is_open=True)
    domain = int(shelf.layout.domain[slot])
    empty = PowerHeadroom(8).score(table.domains.total[domain], table.domains.total[domain])
    (shift,) = (shift for shift, _ in table.domains.rules)
    assert empty == int(table.domains.code[domain]) >> shift
    assert not shelf.difference()


# Mutants.


class Planted(NamedTuple):
    """One invalidation that is left out."""

    name: str
    file: ModuleType
    before: str
    after: str


MUTANTS = (
    Planted(
        "rack_code_unheard",
        table,
        "if self.racks.add(rack, more):",
        "if self.racks.add(rack, more) and False:",
    ),
    Planted(
        "pod_code_unheard", table, "if self.pods.add(pod, more):", "if self.pods.add(pod, more) and False:"
    ),
    Planted(
        "domain_code_unheard",
        table,
        "                for span in self._spans_of(domain):\n",
        "                for span in self._spans_of(domain)[:1]:\n",
    ),
    Planted(
        "cluster_left_as_it_was",
        table,
        "            self.clusters.add(cluster, more)",
        "            pass",
    ),
    Planted("gpu_free_left_as_it_was", table, "            self.gpu_free += more\n", ""),
    Planted("cpu_unheard", table, "elif cpu == self._cpu[slot] and memory", "elif memory"),
    Planted("memory_unheard", table, "and memory == self._memory[slot] and is_open", "and is_open"),
    Planted("opening_unheard", table, " and is_open == self._is_open[slot]:", ":"),
    Planted(
        "one_of_many_unheard",
        table,
        "            self._note((slot, slot + 1))\n            if gpu != had:",
        "            if gpu != had:",
    ),
    Planted(
        "racks_of_many_left",
        table,
        "racks[rack] = racks.get(rack, 0) + gpu - had",
        "racks[rack] = gpu - had",
    ),
    Planted(
        "closed_of_many_left",
        table,
        "and is_open == open_before\n",
        "and True\n",
    ),
    Planted(
        "upkeep_unheard",
        table,
        "            self.has_plans = True\n            self._changed(slot, 0)\n",
        "            self.has_plans = True\n",
    ),
    Planted(
        "owner_unheard",
        table,
        "            self.has_owners = True\n            self._changed(slot, 0)\n",
        "            self.has_owners = True\n",
    ),
    Planted("fill_unheard", table, "        self._oldest = self.revision\n", ""),
    Planted(
        "journal_overwritten", table, " or count > JOURNAL_LENGTH:", " or count > 1000 * JOURNAL_LENGTH:"
    ),
    Planted(
        "journal_cut_at_its_end",
        table,
        "% JOURNAL_LENGTH\n        firsts, lasts",
        "% (JOURNAL_LENGTH - 1)\n        firsts, lasts",
    ),
    Planted(
        "first_change_forgotten",
        table,
        "np.arange(first, first + count)",
        "np.arange(first + 1, first + count)",
    ),
    Planted(
        "old_answer_given_again",
        table,
        "        if self._answered != asked:\n",
        "        if self._answered[0] != asked[0]:\n",
    ),
    Planted(
        "run_cut_short",
        table,
        "spans:\n            return slice(lowest, highest)\n",
        "spans:\n            return slice(lowest, lowest + 1)\n",
    ),
    Planted(
        "only_gpus_heard",
        table,
        "        self._changed(slot, more)\n",
        "        if more:\n            self._changed(slot, more)\n",
    ),
    Planted("pod_sum_left", classes, "        self.pod_cap[pod] += more\n", ""),
    Planted("rack_sum_left", classes, "            self.rack_cap[rack] += more\n", "            pass\n"),
    Planted(
        "rack_sums_of_a_pod_left",
        classes,
        "            self.rack_cap[racks] = span.reshape",
        "            _ = span.reshape",
    ),
    Planted(
        "rack_sums_left_when_the_pod_has_as_much",
        classes,
        "        else:\n            span = self.cap[pod",
        "        elif more:\n            span = self.cap[pod",
    ),
    Planted("pod_least_left", classes, "        self.pod_min[pod] = least\n", ""),
    Planted("pod_ties_left", classes, "        self.pod_ties[pod] = np.count_nonzero(whole == least)\n", ""),
    Planted(
        "sums_of_many_left",
        classes,
        "        self.rack_cap.reshape(layout.pods, RACKS_PER_POD)[pods] = caps\n",
        "",
    ),
    Planted(
        "least_of_many_left",
        classes,
        "self.pod_min[pods] = least = keys.min(axis=1)",
        "least = keys.min(axis=1)",
    ),
    Planted(
        "shared_left_at_a_run",
        classes,
        "        for shared in self._shared:\n            shared.update(self.clusters)\n        key, cap",
        "        key, cap",
    ),
    Planted(
        "shared_left_at_many",
        classes,
        "        for shared in self._shared:\n            shared.update(self.clusters)\n        self.key[at]",
        "        self.key[at]",
    ),
    Planted("shared_keeps_clusters", classes, "            self._known.clear()\n", ""),
    Planted(
        "shared_forgets_its_clusters", classes, "                self._pod_known[first:last] = True\n", ""
    ),
)


def with_bug(planted: Planted) -> Engine:
    """An engine of which one file has a bug."""
    name = planted.file.__name__
    file = name.replace(".", "/") + ".py"
    text = planted_in(
        (HOUSE / file).read_text(encoding="utf-8"), Edit(file, planted.before, planted.after), planted.name
    )
    module = ModuleType(f"{name}_{planted.name}")
    exec(compile(text, file, "exec"), module.__dict__)  # noqa: S102 - it is our own source, with one edit
    return Engine(
        module.NodeTable if planted.file is table else table.NodeTable,
        module.SharedCodes if planted.file is classes else classes.SharedCodes,
        module.RequestClass if planted.file is classes else classes.RequestClass,
    )


@pytest.mark.parametrize("planted", MUTANTS, ids=lambda planted: planted.name)
def test_mutant_is_found(planted: Planted) -> None:
    """P14: with one invalidation left out, something differs from what is made from scratch."""
    assert any(Shelf(with_bug(planted)).run(seed, EVENTS_FOR_A_MUTANT) for seed in (1, 2, 3))
