"""Small things that everything else counts on: spans, names of logs, racks, reasons."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.nouns.fleet import UNNUMBERED, Inventory, NodeGroup
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkerName, region_log, region_of
from core.nouns.instant import Instant, Nanoseconds, after, earliest, seconds
from core.nouns.limits import NODE_NUMBERS_MAX, WORKER_NODES_MAX
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason, sentence
from core.nouns.workload import TERMINAL, Phase
from core.rules.inventory import problems_of
from tests.builders import NODE, an_inventory
from tests.core.properties import PROPERTY

instants = st.lists(st.one_of(st.none(), st.integers(0, 9).map(Instant)), max_size=5)


@PROPERTY
@given(instants)
def test_earliest_is_the_least_that_is_set(some: list[Instant | None]) -> None:
    """And none when none is."""
    assert min((one for one in some if one is not None), default=None) == earliest(*some)


def test_spans_are_whole_nanoseconds() -> None:
    """Rounded once, where they are made."""
    assert 1_500_000_000 == seconds(1.5)
    assert 1 == seconds(1.4e-9)
    assert Instant(7) == after(Instant(5), Nanoseconds(2))


def test_region_is_named_by_its_log() -> None:
    """And the global log by none."""
    eu = RegionName("eu")
    assert eu == region_of(region_log(eu))
    with pytest.raises(AssertionError):
        region_of(GLOBAL_LOG)


def test_nodes_fill_racks_in_order() -> None:
    """From the group's first rack on, so many to each."""
    group = NodeGroup(10, 5, NODE, "H100", rack_first=3, nodes_per_rack=2)
    assert [10, 11, 12, 13, 14] == list(group.numbers())
    assert [3, 3, 4, 4, 5] == [group.rack_of(node) for node in group.numbers()]
    assert [10, 11, 12, 13, 14, 0, 1] == Inventory(
        WorkerName("w0"), (group, *an_inventory("w0", 0, 2).groups)
    ).numbers()


def test_inventory_is_sound() -> None:
    """The inventory of every test has no problem; one without nodes has."""
    assert () == problems_of(an_inventory())
    assert ("it serves no node",) == problems_of(Inventory(WorkerName("w0"), ()))


def test_all_that_is_wrong_with_an_inventory_is_told() -> None:
    """At once, for whoever started the worker."""
    (group,) = an_inventory("w0", 4, 2).groups
    bad = replace(group, first=-5, count=0, gpu_type="", nodes_per_rack=0, total=Amount(-1))
    assert [
        "a worker's name has 1 to 128 characters",
        "nodes from -5 on: their type has no name",
        "nodes from -5 on: there are 0",
        "nodes from -5 on: numbers are from 0 to 16777215",
        "nodes from -5 on: their racks are numbered from 0 to 16777216, with a node in each at least",
        "nodes from -5 on: of gpu_milli they have 0 to 1000000",
    ] == list(problems_of(Inventory(WorkerName(""), (bad, group))))
    assert ("several of its nodes have the same number",) == problems_of(
        Inventory(WorkerName("w0"), (group, group))
    )
    assert () == problems_of(Inventory(WorkerName("w0"), (replace(group, count=WORKER_NODES_MAX),)))
    huge = replace(group, count=NODE_NUMBERS_MAX - 4)
    (text,) = problems_of(Inventory(WorkerName("w0"), (huge,)))
    assert text.startswith("it serves 16777212 nodes, and a worker 50000 at most")


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_sentence(reason: Reason) -> None:
    """One, for people."""
    assert sentence(reason).endswith(".")
    assert reason == reason.value.lower()


def test_phases_are_terminal_or_not() -> None:
    """Nothing follows the last four."""
    assert [Phase.PENDING, Phase.AWARDED, Phase.RUNNING] == [
        phase for phase in Phase if not phase.is_terminal
    ]
    assert TERMINAL == {phase for phase in Phase if phase.is_terminal}


def test_fault_of_a_machine_is_of_its_own_nodes() -> None:
    """Those that run programs, and not those that it emulates; by number once its region has given one."""
    (group,) = an_inventory("w0", 4, 2).groups
    machine = replace(group, first=7, count=1, runs_programs=True)
    told = ((UNNUMBERED, "no driver"), (4, "hot"))
    mixed = Inventory(WorkerName("w0"), (group, machine))
    assert ((4, "hot"), (7, "no driver")) == mixed.ailing(told)
    unnumbered = Inventory(WorkerName("w0"), (replace(machine, first=UNNUMBERED),))
    assert ((UNNUMBERED, "no driver"),) == unnumbered.ailing(told[:1])
    assert ((7, "no driver"),) == mixed.ailing(unnumbered.ailing(told[:1]))
    assert () == an_inventory().ailing(told[:1])
