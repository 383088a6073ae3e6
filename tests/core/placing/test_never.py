"""Never or not now, and what would help: said of an empty region by totals, and tried."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.events.region import NodesLost
from core.images import RegionImage
from core.nouns.ids import WorkerName
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec, Program
from core.placing.never import EmptyRegion, Outlook
from core.placing.placer import Found, Placer
from core.rules.submission import could_fit
from tests.builders import a_claim, a_job, a_region, a_spec, a_spread, amount, folded, granted, joined
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
            [a_job(1, 4, gpu_type="B200")], ["main: A100 instead of B200", "main: H100 instead of B200"],
            id="a type that is not there",
        ),
        pytest.param([a_program(a_job(1, 4))], [], id="programs, where nothing runs them"),
        pytest.param([a_job(2, 9)], ["main: 8 GPUs a task instead of 9 GPUs"], id="both fit with less"),
        pytest.param([a_job(33, 80)], ["main: 4 tasks of 8 GPUs"], id="neither helps alone"),
        pytest.param(
            [a_job(3, 8, name="a"), a_job(2, 8, name="b")],
            ["a: 2 tasks instead of 3", "a: 4 GPUs a task instead of 8 GPUs", "b: 1 task instead of 2",
             "b: 4 GPUs a task instead of 8 GPUs"],
            id="two jobs that do not fit beside each other",
        ),
    ],
)  # fmt: skip
def test_what_no_empty_node_could_hold_is_never(jobs: list[JobSpec], changes: list[str]) -> None:
    """M11: whatever runs there, it is never, and what would help is said, the smallest change first."""
    found = [outlook(a_region(*REGION, *busy), *jobs) for busy in ((), (FULL,))]
    assert found[0] == found[1]
    assert found[0].is_never
    assert changes == list(found[0].changes)


def test_what_lacks_room_now() -> None:
    """It is not never, and what would help now is said."""
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


SHELVES = st.lists(
    st.tuples(
        st.builds(amount, st.integers(1, 8), st.integers(0, 8), st.integers(0, 8)),
        st.sampled_from(("H100", "A100")),
    ),
    min_size=1, max_size=6,
)  # fmt: skip
JOBS = st.builds(
    a_job,
    st.integers(1, 9),
    st.sampled_from((0.5, 1, 2, 3, 8, 9)),
    gpu_type=st.sampled_from(("H100", "A100", "B200")),
    cpus=st.sampled_from((0, 2)),
    gib=st.sampled_from((0, 3)),
)


@PROPERTY
@given(SHELVES, st.lists(JOBS, min_size=1, max_size=3))
def test_never_is_said_of_nothing_that_fits(shelf: list[tuple[Amount, str]], wanted: list[JobSpec]) -> None:
    """What finds a place in the empty region is not never; a single job that finds none is; so is all that the queue would
    not even ask for.
    """
    image = a_region(
        *(joined(f"w{node}", node, 1, total=total, gpu_type=kind) for node, (total, kind) in enumerate(shelf))
    )
    jobs = tuple(replace(job, name=f"j{number}") for number, job in enumerate(wanted))
    placer = placer_of(image.capacity)
    fits = isinstance(placer.find(jobs, ANYBODY, CHOICE), Found)
    is_never = EmptyRegion().outlook(placer.pools, image.capacity, jobs, ANYBODY).is_never
    assert not (fits and is_never)
    if len(jobs) == 1:
        assert is_never != fits
    if not could_fit(a_spec(*jobs), image.hardware):
        assert is_never


@PROPERTY
@given(SHELVES, JOBS)
def test_what_is_said_to_help_helps(shelf: list[tuple[Amount, str]], job: JobSpec) -> None:
    """Each change of one job is one with which it finds a place, and one step less of a change would not do."""
    image = a_region(
        *(joined(f"w{node}", node, 1, total=total, gpu_type=kind) for node, (total, kind) in enumerate(shelf))
    )
    placer = placer_of(image.capacity)
    if isinstance(placer.find((job,), ANYBODY, CHOICE), Found):
        return
    for change in EmptyRegion().outlook(placer.pools, image.capacity, (job,), ANYBODY).changes:
        words = change.removeprefix("main: ").split()
        if "instead" not in words:
            continue
        if words[1].startswith("task"):
            changed, nearly = replace(job, tasks=int(words[0])), replace(job, tasks=int(words[0]) + 1)
        elif words[1] == "instead":
            changed, nearly = replace(job, gpu_type=words[0]), job
        else:
            name, size = {
                "GPUs": ("gpu_milli", 1000),
                "CPUs": ("cpu_milli", 1000),
                "GiB": ("memory_bytes", 1 << 30),
            }[words[1]]
            changed, nearly = (
                replace(job, need=replace(job.need, **{name: int((float(words[0]) + more) * size)}))
                for more in (0, 1)
            )
        assert _fits(placer, changed), change
        assert not _fits(placer, nearly), change


def _fits(placer: Placer, job: JobSpec) -> bool:
    return isinstance(placer.find((job,), ANYBODY, CHOICE), Found)
