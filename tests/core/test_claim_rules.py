"""Whether a claim may be granted now: well formed, on nodes that are there, over whom it may, and within what is free."""

import pytest
from msgspec.structs import replace

from core.claims.checks import check_nodes, check_victims, is_well_formed, nodes_without_capacity
from core.events.region import NodesLost, StopOrdered
from core.nouns.ids import AttemptKey, WorkerName
from core.nouns.instant import Instant
from core.nouns.placement import Claim, Spread, gpu_milli_of, needs_of
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, JobSpec, Kind
from tests.builders import a_claim, a_job, a_region, a_spread, amount, attempt, granted, joined, promised

TWO = (a_job(2), a_job(1, name="eval"))


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(a_claim(placed={0: 1}), id="one task"),
        pytest.param(a_claim(placed={0: 2, 3: 1}), id="one job on two nodes"),
        pytest.param(
            a_claim(jobs=TWO, spreads=(a_spread({0: 2}), a_spread({0: 1}))), id="two jobs on one node"
        ),
    ],
)
def test_claim_is_well_formed_when_it_places_exactly_its_tasks(claim: Claim) -> None:
    """Every job has its tasks, each somewhere."""
    assert is_well_formed(claim)


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(a_claim(jobs=(a_job(2),), spreads=(a_spread({0: 1}),)), id="a task too few"),
        pytest.param(a_claim(jobs=(a_job(2),), spreads=(a_spread({0: 3}),)), id="a task too many"),
        pytest.param(a_claim(jobs=TWO, spreads=(a_spread({0: 2}),)), id="a job without a place"),
        pytest.param(a_claim(jobs=(a_job(2),), spreads=(Spread((1, 0), (1, 1)),)), id="nodes out of order"),
        pytest.param(a_claim(jobs=(a_job(2),), spreads=(Spread((0, 0), (1, 1)),)), id="a node named twice"),
        pytest.param(a_claim(jobs=(a_job(2),), spreads=(Spread((0, 1), (2, 0)),)), id="a node for nothing"),
        pytest.param(a_claim(jobs=(a_job(2),), spreads=(Spread((0, 1), (3, -1)),)), id="fewer than no tasks"),
        pytest.param(
            a_claim(jobs=(a_job(2),), spreads=(Spread((0, 1), (2,)),)), id="a node without a number"
        ),
        pytest.param(
            a_claim(jobs=(a_job(2),), spreads=(Spread((0,), (1, 1)),)), id="a number without a node"
        ),
    ],
)
def test_claim_is_not_well_formed(claim: Claim) -> None:
    """M3: a gang is placed whole or not at all."""
    assert not is_well_formed(claim)


def test_claim_of_no_jobs() -> None:
    """It would be granted nothing, for ever."""
    assert not is_well_formed(replace(a_claim(), jobs=(), spreads=()))


def test_needs_are_summed_over_jobs() -> None:
    """Two jobs on one node need what both need there."""
    jobs = (a_job(2, 2, cpus=1), a_job(1, 1, name="eval", gib=3))
    claim = a_claim(jobs=jobs, spreads=(a_spread({0: 1, 4: 1}), a_spread({4: 1})))
    assert {0: amount(2, 1), 4: amount(3, 1, 3)} == needs_of(claim)
    assert 5_000 == gpu_milli_of(jobs)


@pytest.mark.parametrize("node", [4, 7, 99, -1])
def test_node_that_the_region_does_not_have(node: int) -> None:
    """Beyond its numbers, between them, or below zero."""
    capacity = a_region(joined(), joined("w1", 8, 2)).capacity
    assert Reason.UNKNOWN_NODE == check_nodes(a_claim(placed={node: 1}), capacity)


def test_node_of_another_gpu_type() -> None:
    """No time mends it."""
    capacity = a_region(joined(), joined("w1", 4, 1, gpu_type="A100")).capacity
    assert Reason.WRONG_GPU_TYPE == check_nodes(a_claim(placed={4: 1}), capacity)
    assert check_nodes(a_claim(placed={3: 1}), capacity) is None


@pytest.mark.parametrize(
    ("types", "placed", "wanted"),
    [
        pytest.param(("A100",), {0: 1, 4: 1}, Reason.TYPES_MIXED, id="of both"),
        pytest.param(("A100",), {4: 1, 5: 1}, None, id="of the second"),
        pytest.param(("A100",), {6: 2}, Reason.WRONG_GPU_TYPE, id="of another"),
        pytest.param((), {0: 1, 4: 1}, Reason.WRONG_GPU_TYPE, id="of one that will not do"),
    ],
)
def test_nodes_of_several_types(
    types: tuple[str, ...], placed: dict[int, int], wanted: Reason | None
) -> None:
    """T4: a hard requirement: all tasks of a job on nodes of one type that will do, whatever an agent found."""
    others = (joined("w1", 4, 2, gpu_type="A100"), joined("w2", 6, 1, gpu_type="B200"))
    capacity = a_region(joined(), *others).capacity
    claim = a_claim(jobs=(replace(a_job(2), or_types=types),), spreads=(a_spread(placed),))
    assert wanted == check_nodes(claim, capacity)


def test_jobs_of_one_workload_may_lie_on_different_types() -> None:
    """Each job is on one."""
    capacity = a_region(joined(), joined("w1", 4, 2, gpu_type="A100")).capacity
    jobs = (replace(a_job(2), or_types=("A100",)), a_job(1, name="eval", gpu_type="any"))
    claim = a_claim(jobs=jobs, spreads=(a_spread({0: 1, 1: 1}), a_spread({4: 1})))
    assert check_nodes(claim, capacity) is None


def over(*victims: AttemptKey, priority: int = 5, placed: dict[int, int] | None = None) -> Claim:
    """A claim over these victims."""
    return a_claim("w-9", placed=placed or {0: 8}, priority=priority, victims=victims)


@pytest.mark.parametrize(("priority", "wanted"), [(3, Reason.VICTIM_NOT_LOWER), (4, None)])
def test_victim_must_be_of_lower_priority(priority: int, wanted: Reason | None) -> None:
    """M17: nobody is preempted by equal or lower priority."""
    capacity = a_region(joined(), granted(a_claim("w-1", priority=3))).capacity
    assert wanted == check_victims(over(attempt("w-1"), priority=priority), capacity, Instant(0))


def test_victim_must_not_be_interactive() -> None:
    """Somebody sits before it."""
    capacity = a_region(joined(), granted(a_claim("w-1", priority=0, kind=Kind.INTERACTIVE))).capacity
    assert Reason.VICTIM_NOT_LOWER == check_victims(over(attempt("w-1")), capacity, Instant(0))


def test_victim_that_ended_meanwhile() -> None:
    """So much the better."""
    assert check_victims(over(attempt("w-1")), a_region().capacity, Instant(0)) is None


def test_victim_that_is_promised_to_another() -> None:
    """Its room is spoken for: the agent looks again."""
    taken = a_claim("w-2", priority=5, victims=(attempt("w-1"),))
    capacity = a_region(joined(), granted(a_claim("w-1")), promised(taken)).capacity
    assert Reason.CONFLICT == check_victims(over(attempt("w-1")), capacity, Instant(0))


def test_victim_named_twice() -> None:
    """Its room would be counted twice, and the claim granted over what nobody has."""
    history = [
        joined(),
        granted(a_claim("w-1", placed={0: 4})),
        granted(a_claim("w-2", placed={0: 4}, priority=6)),
    ]
    claim = over(attempt("w-1"), attempt("w-1"))
    capacity = a_region(*history).capacity
    assert (
        not is_well_formed(claim)
        or check_victims(claim, capacity, Instant(0))
        or nodes_without_capacity(claim, capacity)
    )


def test_claim_is_judged_by_the_capacity_that_is_free_now() -> None:
    """Every node that lacks something is named, in order."""
    capacity = a_region(joined(), granted(a_claim("w-1", placed={0: 3, 2: 8}))).capacity
    assert () == nodes_without_capacity(a_claim("w-9", placed={0: 5, 1: 8}), capacity)
    assert (0, 2) == nodes_without_capacity(a_claim("w-9", placed={2: 1, 1: 8, 0: 6}), capacity)


@pytest.mark.parametrize("job", [a_job(1, 1, cpus=65), a_job(1, 1, gib=513), a_job(1, 9)])
def test_capacity_when_one_resource_is_too_little(job: JobSpec) -> None:
    """CPUs and memory count as GPUs do."""
    claim = a_claim(jobs=(job,), spreads=(a_spread({0: 1}),))
    assert (0,) == nodes_without_capacity(claim, a_region().capacity)


def test_capacity_when_jobs_share_a_node() -> None:
    """Each fits alone, and both do not."""
    jobs = (a_job(1, 5), a_job(1, 5, name="eval"))
    claim = a_claim(jobs=jobs, spreads=(a_spread({0: 1}), a_spread({0: 1})))
    assert (0,) == nodes_without_capacity(claim, a_region().capacity)


def test_capacity_on_a_lost_node() -> None:
    """There is none, not even for a task that needs nothing of it but its name."""
    capacity = a_region(joined(), NodesLost(WorkerName("w0"), (0, 1, 2, 3))).capacity
    assert (1,) == nodes_without_capacity(a_claim(placed={1: 1}), capacity)
    assert (1,) == nodes_without_capacity(a_claim(placed={1: 1}, gpus=0), capacity)


def test_capacity_of_victims_counts_as_the_claims_own() -> None:
    """Stopping or not; but not capacity that is promised to another claim, and not their capacity elsewhere."""
    history = [joined(), granted(a_claim("w-1", placed={0: 6})), granted(a_claim("w-2", placed={1: 6}))]
    capacity = a_region(*history).capacity
    assert () == nodes_without_capacity(over(attempt("w-1"), placed={0: 8}), capacity)
    assert (1,) == nodes_without_capacity(over(attempt("w-1"), placed={0: 8, 1: 3}), capacity)
    stopping = a_region(*history, StopOrdered(*attempt("w-1"), EndCause.CANCELLED)).capacity
    assert () == nodes_without_capacity(over(attempt("w-1"), placed={0: 8}), stopping)
    reserved = promised(a_claim("w-3", placed={0: 2, 1: 7}, priority=5, victims=(attempt("w-2"),)))
    assert (0,) == nodes_without_capacity(
        over(attempt("w-1"), placed={0: 7}), a_region(*history, reserved).capacity
    )


def test_promised_capacity_is_not_free() -> None:
    """Capacity that a promise reserves is granted to no other claim."""
    history = [joined(), granted(a_claim("w-1", placed={0: 6}))]
    history.append(promised(a_claim("w-3", placed={0: 7}, priority=5, victims=(attempt("w-1"),))))
    capacity = a_region(*history).capacity
    assert Amount(1_000, 64_000, 512 << 30) == capacity.available(0)
    assert () == nodes_without_capacity(a_claim("w-9", placed={0: 1}), capacity)
    assert (0,) == nodes_without_capacity(a_claim("w-9", placed={0: 2}), capacity)
