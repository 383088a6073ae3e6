"""Never or not now, and what would help: said of an empty region by totals, and tried."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.events.region import NodesJoined, NodesLost
from core.images import RegionImage
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import WorkerName
from core.nouns.pool import PoolSettings
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import Extent, JobSpec, Kind, Program, Topology
from core.placing.diagnosis.infeasible import TRIED, EmptyRegion, Outlook
from core.placing.index.overlay import Overlay
from core.placing.placer import Found, Placer
from core.placing.pool_set import Asker
from core.rules.never_fits import could_fit
from core.rules.placement.rule_sets import PLAIN
from tests.builders import (
    a_claim,
    a_job,
    a_region,
    a_spec,
    a_spread,
    amount,
    folded,
    granted,
    joined,
    of_types,
)
from tests.core.placing.searching import ANYBODY, CHOICE, placer_of
from tests.core.properties import PROPERTY

LARGE = amount(8, 64, 512)
REGION = (joined("w0", 0, 4, total=LARGE), joined("w1", 4, 10, gpu_type="A100", total=amount(4, 32, 256)))
"""Four nodes of 8 H100, ten of 4 A100."""
FULL = granted(a_claim("w-9", jobs=(a_job(4, 6),), spreads=(a_spread({0: 1, 1: 1, 2: 1, 3: 1}),), priority=6))
"""Of each H100 node 6 GPUs are held."""


def outlook(image: RegionImage, *jobs: JobSpec) -> Outlook:
    """Of these, which find no place."""
    placer = placer_of(image.capacity)
    assert isinstance(placer.find(jobs, ANYBODY, CHOICE), Reason)
    return EmptyRegion().outlook(placer.pools, image.capacity, jobs, ANYBODY)


def a_program(job: JobSpec) -> JobSpec:
    """The same, of something that is run."""
    return replace(job, emulation=None, program=Program("true"))


@pytest.mark.parametrize(
    ("jobs", "changes"),
    [
        pytest.param([a_job(1, 9)], ["main: 8 GPUs a task instead of 9 GPUs"], id="more GPUs than a node has"),
        pytest.param(
            [a_job(5, 8)], ["main: 4 tasks instead of 5", "main: 4 GPUs a task instead of 8 GPUs"],
            id="more tasks than nodes",
        ),
        pytest.param(
            [a_job(7, 4, cpus=40)],
            ["main: 32 CPUs a task instead of 40 CPUs", "main: 4 tasks instead of 7"], id="two on a node by their CPUs",
        ),
        pytest.param(
            [a_job(1, 1, gib=600)], ["main: 512 GiB a task instead of 600 GiB"], id="more memory than a node has"
        ),
        pytest.param(
            [of_types(a_job(5, 8), "B200", "H100")], ["main: 4 tasks instead of 5", "main: 4 GPUs a task instead of 8 GPUs"],
            id="more tasks than nodes of either type",
        ),
        pytest.param(
            [of_types(a_job(5, 4), "B200", "GH200")], ["main: A100 instead of B200 or GH200", "main: H100 instead of B200 or GH200"],
            id="types that are not there",
        ),
        pytest.param(
            [of_types(a_job(11, 4), "A100", "H100")], ["main: 10 tasks instead of 11", "main: 2 GPUs a task instead of 4 GPUs"],
            id="more than there is of one type, and not of both",
        ),
        pytest.param(
            [a_job(1, 4, gpu_type="B200")], ["main: A100 instead of B200", "main: H100 instead of B200"],
            id="a type that is not there",
        ),
        pytest.param([a_program(a_job(1, 4))], [], id="programs, where nothing runs them"),
        pytest.param([a_job(2, 9)], ["main: 8 GPUs a task instead of 9 GPUs"], id="both fit with less"),
        pytest.param([a_job(33, 80)], ["main: 4 tasks of 8 GPUs"], id="neither helps alone"),
        pytest.param(
            [a_job(1, 2.5, cpus=80, gib=600)], ["main: 1 task of 2.5 GPUs, 64 CPUs, 512 GiB"],
            id="no more of anything than was asked for",
        ),
        pytest.param(
            [a_job(3, 8, name="a"), a_job(2, 8, name="b")],
            ["a: 2 tasks instead of 3", "a: 4 GPUs a task instead of 8 GPUs", "b: 1 task instead of 2",
             "b: 4 GPUs a task instead of 8 GPUs"],
            id="two jobs that do not fit beside each other",
        ),
    ],
)  # fmt: skip
def test_job_that_no_empty_node_could_hold_is_never(jobs: list[JobSpec], changes: list[str]) -> None:
    """M11: whatever runs there, it is never, and the changes that would help are named, the smallest first."""
    found = [outlook(a_region(*REGION, *busy), *jobs) for busy in ((), (FULL,))]
    assert found[0] == found[1]
    assert found[0].is_never
    assert changes == list(found[0].changes)


def test_job_that_lacks_capacity_now() -> None:
    """It is not never, and the changes that would help now are named."""
    found = outlook(a_region(*REGION, FULL), a_job(2, 4))
    assert (
        Outlook(
            is_never=False, changes=("main: 2 GPUs a task instead of 4 GPUs", "main: A100 instead of H100")
        )
        == found
    )
    assert ("main: 4 tasks instead of 5", "main: 1 GPUs a task instead of 2 GPUs") == outlook(
        a_region(*REGION[:1], FULL), a_job(5, 2)
    ).changes


def test_lost_and_closed_nodes_are_there() -> None:
    """They come back: what they could hold is not never."""
    image = a_region(*REGION, NodesLost(WorkerName("w0"), (0, 1, 2, 3)))
    assert not outlook(image, a_job(4, 8)).is_never
    assert outlook(image, a_job(5, 8)).is_never


def test_new_nodes_are_seen() -> None:
    """What is kept of earlier answers is of the nodes that were there."""
    image = a_region(*REGION)
    placer = placer_of(image.capacity)
    empty, wanted = EmptyRegion(), (a_job(5, 8),)
    assert empty.outlook(placer.pools, image.capacity, wanted, ANYBODY).is_never
    folded(image, [joined("w2", 14, 1, total=LARGE)])
    placer.touch((14,), joined=True)
    placer.refresh()
    assert not empty.outlook(placer.pools, image.capacity, wanted, ANYBODY).is_never


RACKS_OF_ONE = tuple(joined(f"w{node}", node, 1, total=LARGE, rack_first=node) for node in range(3))
"""Three nodes of 8 H100, each in a rack of its own."""


@pytest.mark.parametrize(
    ("nodes", "jobs", "changes"),
    [
        pytest.param(
            REGION[:1], [a_job(33, 0.6)],
            ["main: 32 tasks instead of 33", "main: 0.5 GPUs a task instead of 0.6 GPUs"],
            id="parts of GPUs, one on each",
        ),
        pytest.param(
            REGION[:1], [replace(a_job(10, 1), topology=Topology(tasks_per_node=1))], ["main: 4 tasks instead of 10"],
            id="one task a node",
        ),
        pytest.param(
            RACKS_OF_ONE, [replace(a_job(2, 8), topology=Topology(pack=Extent.RACK))],
            ["main: 1 task instead of 2", "main: 4 GPUs a task instead of 8 GPUs"], id="more than a rack has",
        ),
        pytest.param(
            RACKS_OF_ONE, [replace(a_job(5, 8), topology=Topology(pack=Extent.RACK))],
            ["main: 1 task instead of 5", "main: 1 GPUs a task instead of 8 GPUs"], id="far more than a rack has",
        ),
    ],
)  # fmt: skip
def test_placement_constraints_of_a_job_count(
    nodes: Sequence[NodesJoined], jobs: list[JobSpec], changes: list[str]
) -> None:
    """M11: capacity is counted as a search would fill it: parts on devices, so many tasks a node, all in one rack."""
    found = outlook(a_region(*nodes), *jobs)
    assert found.is_never
    assert changes == list(found.changes)


def test_another_kind_is_named_where_the_kind_is_in_the_way() -> None:
    """Only then, and not where it is too much for every kind."""
    group = NodeGroup(0, 1, LARGE, "H100", 0, 1, pool="service")
    image = a_region(NodesJoined(WorkerName("w0"), Inventory(WorkerName("w0"), (group,))))
    assert Outlook(is_never=True, changes=("kind service instead of training",)) == outlook(
        image, a_job(8, 1)
    )
    assert Outlook(is_never=True) == outlook(image, a_job(9, 1))
    assert not any("kind" in change for change in outlook(a_region(*REGION), a_job(33, 1)).changes)


def test_reserve_helps_no_job() -> None:
    """A change that would take a pool's reserve is not told."""
    busy = granted(a_claim("w-9", jobs=(a_job(1, 1),), spreads=(a_spread({0: 1}),), priority=6))
    image, jobs = a_region(joined("w0", 0, 2, total=LARGE), busy), (a_job(4, 4),)
    settings = PoolSettings(reserve=1)
    for kept, changes in (
        (placer_of(image.capacity), ("main: 3 GPUs a task instead of 4 GPUs", "main: 3 tasks instead of 4")),
        (Placer(image.capacity, Overlay(), lambda _: PLAIN, settings_of=lambda _: settings), ()),
    ):
        assert not _fits(kept, jobs, ANYBODY)
        found = EmptyRegion().outlook(kept.pools, image.capacity, jobs, ANYBODY)
        assert Outlook(is_never=False, changes=changes) == found


Shelf = tuple[Amount, str, str, int, int]
"""Like nodes: what each has, its type and pool; how many there are, and how many in a rack."""
SHELVES = st.lists(
    st.tuples(
        st.builds(amount, st.integers(1, 8), st.integers(0, 8), st.integers(0, 8)),
        st.sampled_from(("H100", "A100")),
        st.sampled_from(("training", "training", "service", "harvest", "free")),
        st.integers(1, 3),
        st.integers(1, 2),
    ),
    min_size=1, max_size=5,
)  # fmt: skip
TOPOLOGIES = st.builds(
    Topology,
    pack=st.sampled_from((Extent.ANY, *Extent)),
    spread=st.sampled_from((Extent.ANY, Extent.ANY, Extent.RACK)),
    tasks_per_node=st.sampled_from((0, 0, 1, 2)),
)


def _job_of(job: JobSpec, topology: Topology, types: tuple[str, ...]) -> JobSpec:
    return of_types(replace(job, topology=topology), *types)


JOBS = st.builds(
    _job_of,
    st.builds(
        a_job,
        st.integers(1, 12),
        st.sampled_from((0, 0.3, 0.5, 0.6, 1, 1.5, 2, 2.5, 3, 8, 9)),
        cpus=st.sampled_from((0, 2)),
        gib=st.sampled_from((0, 3)),
    ),
    TOPOLOGIES,
    st.sampled_from((("H100",), ("H100",), ("A100",), ("B200",), ("A100", "H100"), ("any",))),
)
GANGS = st.lists(JOBS, min_size=1, max_size=3)
KINDS = st.sampled_from((Kind.TRAINING, Kind.SERVICE, Kind.BATCH))


def a_shelved_region(shelves: Sequence[Shelf]) -> RegionImage:
    """Each shelf in racks of its own."""
    first = rack = 0
    said = []
    for number, (total, gpu_type, pool, count, per_rack) in enumerate(shelves):
        name = WorkerName(f"w{number}")
        group = NodeGroup(first, count, total, gpu_type, rack, per_rack, pool=pool)
        said.append(NodesJoined(name, Inventory(name, (group,))))
        first, rack = first + count, rack - (-count // per_rack)
    return a_region(*said)


def _named(jobs: Sequence[JobSpec]) -> tuple[JobSpec, ...]:
    return tuple(replace(job, name=f"j{number}") for number, job in enumerate(jobs))


@PROPERTY
@given(SHELVES, GANGS, KINDS)
def test_never_is_said_of_nothing_that_fits(shelves: list[Shelf], wanted: list[JobSpec], kind: Kind) -> None:
    """What finds a place in the empty region is not never; a single job that finds none is; so is all that the queue would
    not even ask for.
    """
    image, jobs, asker = a_shelved_region(shelves), _named(wanted), replace(ANYBODY, kind=kind)
    placer = placer_of(image.capacity)
    fits = isinstance(placer.find(jobs, asker, CHOICE), Found)
    is_never = EmptyRegion().outlook(placer.pools, image.capacity, jobs, asker).is_never
    assert not (fits and is_never)
    if len(jobs) == 1:
        assert is_never != fits
    if not could_fit(a_spec(*jobs), image.hardware):
        assert is_never


HELD = st.tuples(st.sets(st.integers(0, 8)), st.sampled_from((0.6, 1)))
"""Nodes, and GPUs that are held on each."""


@PROPERTY
@given(SHELVES, GANGS, KINDS, HELD, st.sampled_from((0, 0, 1, 2)))
def test_changes_named_as_helpful_help(
    shelves: list[Shelf], wanted: list[JobSpec], kind: Kind, held: tuple[set[int], float], reserve: int
) -> None:
    """Each change is one with which all find places, in the empty region if it is never, else in the capacity that is neither held nor
    kept free; and for a job by itself, with one step less they would not.
    """
    image, jobs, asker = a_shelved_region(shelves), _named(wanted), replace(ANYBODY, kind=kind)
    nodes, settings = (
        sorted(held[0].intersection(range(len(image.capacity.gpu.total)))),
        PoolSettings(reserve=reserve),
    )
    busy = a_job(len(nodes), held[1])
    claims = (
        [granted(a_claim("w-9", jobs=(busy,), spreads=(a_spread(dict.fromkeys(nodes, 1)),), priority=6))]
        if nodes
        else []
    )
    capacity = folded(a_shelved_region(shelves), claims).capacity
    kept = Placer(capacity, Overlay(), lambda _: PLAIN, settings_of=lambda _: settings)
    if _fits(kept, jobs, asker):
        return
    found = EmptyRegion().outlook(kept.pools, capacity, jobs, asker)
    placer = placer_of(image.capacity) if found.is_never else kept
    for change in found.changes:
        assert _fits(placer, *_changed(change, jobs, asker)), change
        if len(jobs) == 1 and (found.is_never or not reserve) and "instead" in change:
            assert not _fits(placer, *_changed(change, jobs, asker, more=1)), change


def _changed(
    change: str, jobs: tuple[JobSpec, ...], asker: Asker, more: int = 0
) -> tuple[tuple[JobSpec, ...], Asker]:
    """What is asked for once somebody did as they were told, or not quite."""
    words = change.split()
    if words[0] == "kind":
        return jobs, asker if more else replace(asker, kind=Kind(words[1]))
    position = next(index for index, job in enumerate(jobs) if words[0] == f"{job.name}:")
    job, words = jobs[position], words[1:]
    if words[1] == "instead":
        job = job if more else replace(job, gpu_type=words[0])
    elif words[1].startswith("task"):
        job = replace(job, tasks=int(words[0]) + more)
        for part in change.split(" of ")[1].split(", ") if "instead" not in words else ():
            count, unit = part.split()
            job = _with(job, count, unit)
    else:
        job = _with(job, words[0], words[1], more)
    return (*jobs[:position], job, *jobs[position + 1 :]), asker


def _with(job: JobSpec, count: str, unit: str, more: int = 0) -> JobSpec:
    name, size = {
        "GPUs": ("gpu_milli", 1000),
        "CPUs": ("cpu_milli", 1000),
        "GiB": ("memory_bytes", 1 << 30),
    }[unit]
    step = 100 if unit == "GPUs" and job.need.gpu_milli <= 1000 else size
    need = min(round(float(count) * size) + more * step, getattr(job.need, name))
    return replace(job, need=replace(job.need, **{name: need}))


def _fits(placer: Placer, jobs: tuple[JobSpec, ...], asker: Asker) -> bool:
    return isinstance(placer.find(jobs, asker, TRIED), Found)
