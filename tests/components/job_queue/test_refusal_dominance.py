"""A refusal that holds for larger requests of the same: who is asked, who is not, and who is told of it."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from components.job_queue.state.asked_shape import AskedShape
from components.job_queue.state.refusal_dominance import RefusalDominance
from core.component import Decision
from core.messages.broker import SolicitBid
from core.messages.queue import Abstention, ExplainWorkload, WorkloadExplained
from core.nouns.ids import AgentName, RegionName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.limits import PROSPECT_LOOK, RESERVE_AFTER
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, JobSpec, Topology, WorkloadSpec
from tests.builders import EU, EU_LOG, a_job, a_spec
from tests.components.support.job_queue import (
    W1,
    W2,
    Start,
    a_job_queue,
    abstain,
    asked,
    auction_of,
    awarded,
    ended,
    grant,
    refuse_open,
    submit,
)
from tests.components.support.machine import Machine
from tests.matching import said, said_once


def in_eu(*jobs: JobSpec, priority: int = 3) -> WorkloadSpec:
    """Work that may run in one region alone."""
    return a_spec(*jobs, regions=[EU], priority=priority)


def refused(start: Start, reason: Reason = Reason.NO_CAPACITY, missing: int = 1_000) -> Machine[Any]:
    """Two tasks of four GPUs have found no place."""
    queue = a_job_queue(start)
    submit(queue, in_eu(a_job(2, 4)))
    abstain(queue, auction_of(queue.wake()), reason=reason, missing=missing)
    queue.wake()
    return queue


def asked_for(queue: Machine[Any], spec: WorkloadSpec) -> list[tuple[str, str]]:
    """Where a second workload is asked for."""
    assert W2 == submit(queue, spec)
    return [one for one in asked(queue.wake()) if one[0] == W2]


@pytest.mark.parametrize(
    ("spec", "is_asked"),
    [
        pytest.param(in_eu(a_job(3, 4)), False, id="more"),
        pytest.param(in_eu(a_job(8, 4)), False, id="much more"),
        pytest.param(in_eu(a_job(3, 4), priority=1), False, id="more at a lower level"),
        pytest.param(in_eu(a_job(2, 4), priority=1), False, id="as much at a lower level"),
        pytest.param(in_eu(a_job(1, 4)), True, id="less"),
        pytest.param(in_eu(a_job(3, 4), priority=5), True, id="more at a higher level"),
        pytest.param(in_eu(a_job(3, 2)), True, id="other tasks"),
        pytest.param(a_spec(a_job(3, 4)), True, id="where the other may not run"),
        pytest.param(
            in_eu(replace(a_job(3, 4), topology=Topology(tasks_per_node=1))), True, id="otherwise placed"
        ),
        pytest.param(in_eu(a_job(3, 4), a_job(1, 1, name="reader")), True, id="of two jobs"),
    ],
)
def test_what_a_refusal_holds_for(start: Start, spec: WorkloadSpec, *, is_asked: bool) -> None:
    """M20: as many tasks or more of the same need, asked of the same regions, at the same level or a lower one."""
    assert is_asked == bool(asked_for(refused(start), spec))


@pytest.mark.parametrize(
    ("reason", "is_asked"),
    [
        (Reason.NO_CAPACITY, False),
        (Reason.START_RESERVED, False),
        (Reason.OVER_LIMIT, False),
        (Reason.OPEN_BIDS, True),
    ],
)
def test_reasons_that_hold_for_more(start: Start, reason: Reason, *, is_asked: bool) -> None:
    """Not those that pass by themselves."""
    assert is_asked == bool(asked_for(refused(start, reason), in_eu(a_job(3, 4))))


def test_it_holds_as_long_as_the_refusal_does(start: Start) -> None:
    """Once what that waits for is freed, all are asked for, each for itself."""
    queue = a_job_queue(start)
    submit(queue, in_eu(a_job(1, 8)), key="runs")
    awarded(queue)
    queue.fact(EU_LOG, grant())
    queue.wake()
    small, large = submit(queue, in_eu(a_job(2, 4)), key="a"), submit(queue, in_eu(a_job(3, 4)), key="b")
    opened = queue.wake()
    assert {small, large} == {workload for workload, _ in asked(opened)}
    for workload in (small, large):
        abstain(queue, auction_of(opened, workload), workload=workload, missing=4_000)
    larger = submit(queue, in_eu(a_job(4, 4)), key="c")
    assert [] == asked(queue.wake())
    assert Reason.NO_CAPACITY == explained(queue, larger).reason
    assert [] == asked(happens(queue, 3_999))
    assert {small, large, larger} == {workload for workload, _ in asked(happens(queue, 1))}


def happens(queue: Machine[Any], gpu_milli: int) -> Decision:
    """So much is freed."""
    queue.fact(EU_LOG, ended(EndCause.COMPLETED, gpu_milli=gpu_milli))
    return queue.wake()


def explained(queue: Machine[Any], workload: WorkloadId) -> WorkloadExplained:
    """Why it waits."""
    return said_once(queue.hear(ExplainWorkload(workload)), WorkloadExplained)


def prospects(decision: Decision) -> list[tuple[str, bool]]:
    """For whom regions were asked, and whether they are to say from when on it could start."""
    return [(one.workload, one.wants_prospect) for one in said(decision, SolicitBid)]


def test_gang_behind_a_smaller_one_is_promised_a_start_like_others(start: Start) -> None:
    """A gang counts as blocked though no region was asked for it; after `RESERVE_AFTER` regions are asked for the earliest starts of both."""
    queue = refused(start)
    assert [] == asked_for(queue, in_eu(a_job(3, 4), priority=3))
    assert {W1, W2} == set(queue.state.starts.blocked)
    found = prospects(queue.wait(RESERVE_AFTER))
    assert [(W1, True), (W2, False)] == found
    refuse_open(queue)
    queue.wake()
    assert (W2, True) in prospects(queue.wait(Nanoseconds(10 * PROSPECT_LOOK)))


@pytest.mark.parametrize("seed", range(20))
def test_any_refusals_that_come_and_pass(seed: int) -> None:
    """Each shape has the refusal of the fewest tasks, and of these of the highest level, that still holds for the shape."""
    dice = random.Random(seed)
    index, active = RefusalDominance(), dict[tuple[RegionName, AskedShape], Abstention]()
    for number in range(200):
        region = RegionName(dice.choice(("eu", "us")))
        shape = shape_of(dice.randint(-1, 3), dice.randint(1, 6))
        if dice.random() < 0.5:
            said = Abstention(region, AgentName("a"), W1, "1", Reason.NO_CAPACITY, number)
            active[region, shape] = said
            index.add(shape, said)
        else:
            active.pop((region, shape), None)
            index.drop(shape, region)
        asked = shape_of(dice.randint(-1, 3), dice.randint(1, 6))
        holding = [
            (one.tasks, -one.level, said.region, said)
            for (_, one), said in active.items()
            if one.tasks <= asked.tasks and one.level >= asked.level
        ]
        wanted = {
            name: min(one for one in holding if one[2] == name)[3] for name in {one[2] for one in holding}
        }
        assert wanted == index.of_smaller(asked)
        assert {} == index.of_smaller(replace(asked, types=(("H100",),)))
        assert {} == index.of_smaller(replace(asked, base=""))


def shape_of(level: int, tasks: int) -> AskedShape:
    """Return the request for a workload of one job."""
    base = "training||xH100:1/1/1"
    return AskedShape(level, f"training||{tasks}xH100:1/1/1", base, tasks, ())


def test_shape_and_its_base() -> None:
    """The base leaves out the number of tasks; workloads of several jobs have none."""
    few, many = (a_spec(a_job(tasks, 4), regions=(EU,)) for tasks in (2, 12))
    assert few.shape.replace("|2x", "|12x") == many.shape
    assert "|2x" in few.shape
    assert few.base == many.base == few.shape.replace("|2x", "|x")
    assert "" == a_spec(a_job(1, 1), a_job(1, 2, name="reader")).base
    assert "3|s|H100,A100|V100" == AskedShape(3, "s", "", 0, (("H100", "A100"), ("V100",))).text
