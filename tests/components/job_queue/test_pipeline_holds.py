"""Stages that are to run in one region: to which regions they are held, from the submission until the first award and beyond."""

from typing import Any

from core.events.pipelines import StagesHeld
from core.events.queue import WorkloadAwarded
from core.messages.regions import AbandonRegion, ReadmitRegion
from core.nouns.ids import GLOBAL_LOG, RegionName
from core.nouns.workload import EndCause, WorkloadSpec
from tests.builders import EU, US, US_LOG, a_job, a_spec, joined
from tests.components.support.data import CLICKS, a_queue_with_data, place
from tests.components.support.job_queue import (
    W1,
    W2,
    Start,
    a_job_queue,
    asked,
    awarded,
    declined,
    ended,
    grant,
    happens,
    shown,
)
from tests.components.support.machine import Machine
from tests.components.support.pipelines import (
    P1,
    a_pipeline,
    a_stage,
    ends,
    passes,
    starts,
    submit_pipeline,
)

ANYWHERE = a_spec()


def held(machine: Machine[Any]) -> list[StagesHeld]:
    """All facts about where stages are held."""
    return [fact.event for fact in machine.logs[GLOBAL_LOG] if isinstance(fact.event, StagesHeld)]


def regions(machine: Machine[Any]) -> list[tuple[RegionName, ...]]:
    """Where each stage may run; empty: anywhere."""
    rows = machine.state.image.workloads.rows
    return [rows[stage.workload].spec.regions for stage in machine.state.image.pipelines.rows[P1].stages]


def two_stages(
    machine: Machine[Any], first: WorkloadSpec = ANYWHERE, second: WorkloadSpec = ANYWHERE
) -> None:
    """The second waits for the first."""
    submit_pipeline(machine, a_pipeline(a_stage("a", spec=first), a_stage("b", "a", spec=second)))


# The first hold.


def test_stages_are_awarded_only_where_all_fit(start: Start) -> None:
    """The first could run anywhere, the second in eu alone."""
    machine = a_job_queue(start)
    two_stages(machine, second=a_spec(regions=[EU]))
    assert {("w-1", "eu")} == set(asked(machine.wake()))


def test_stages_whose_only_region_is_abandoned_run_apart(start: Start) -> None:
    """Nobody knows when it is taken back; the first stage may run elsewhere. When it is, both are held to it again."""
    machine = a_job_queue(start)
    two_stages(machine, second=a_spec(regions=[EU]))
    machine.wake()
    machine.hear(AbandonRegion(EU, 0, is_forced=True))
    machine.wake()
    assert [(), (EU,)] == regions(machine)
    machine.hear(ReadmitRegion(EU, 1))
    machine.wake()
    assert [(EU,), (EU,)] == regions(machine)


def test_nodes_that_join_widen_the_hold(start: Start) -> None:
    """Within a minute: us had no node wide enough for the second stage."""
    machine = a_job_queue(start, us=joined(nodes=1))
    two_stages(machine, second=a_spec(a_job(2, 8)))
    machine.wake()
    assert [(EU,), (EU,)] == regions(machine)
    machine.fact(US_LOG, joined("w1", 1, 3))
    passes(machine, seconds=60)
    assert [(), ()] == regions(machine)
    assert [StagesHeld(P1, (W1, W2), regions=(EU,)), StagesHeld(P1, (W1, W2))] == held(machine)


def test_nothing_is_recorded_while_the_first_hold_stays(start: Start) -> None:
    """However often it is looked at."""
    machine = a_job_queue(start)
    two_stages(machine, second=a_spec(regions=[EU]))
    for _ in range(5):
        passes(machine, seconds=60)
    assert [StagesHeld(P1, (W1, W2), regions=(EU,))] == held(machine)


# The hold by the first award.


def test_stages_follow_the_first_award(start: Start) -> None:
    """From the award on, the other stage may run in that region alone."""
    machine = a_job_queue(start)
    two_stages(machine)
    starts(machine, W1)
    assert [StagesHeld(P1, (W1, W2), EU)] == held(machine)
    ends(machine, W1)
    machine.wake()
    assert (EU,) == machine.state.auctions.open[W2].asked


def test_declined_first_award_holds_nobody(start: Start) -> None:
    """Nothing ran there: all may go elsewhere again."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_pipeline(a_stage("a", spec=ANYWHERE), a_stage("b", spec=ANYWHERE)))
    awarded(machine, EU, W1)
    happens(machine, declined())
    assert [StagesHeld(P1, (W1, W2), EU), StagesHeld(P1, (W1, W2))] == held(machine)
    assert [(), ()] == regions(machine)


def test_stage_that_ran_unheard_holds_the_others(start: Start) -> None:
    """The log shows its end at once, and not its start: it completed there all the same."""
    machine = a_job_queue(start)
    two_stages(machine)
    awarded(machine, EU, W1)
    happens(machine, grant(), ended(EndCause.COMPLETED))
    assert [StagesHeld(P1, (W1, W2), EU)] == held(machine)
    assert (EU,) == regions(machine)[1]


def test_stages_leave_a_region_that_is_given_up(start: Start) -> None:
    """The first one ran there."""
    machine = a_job_queue(start)
    two_stages(machine)
    starts(machine, W1)
    ends(machine, W1)
    machine.hear(AbandonRegion(EU, 0, is_forced=True))
    machine.wake()
    assert [StagesHeld(P1, (W1, W2), EU), StagesHeld(P1, (W2,))] == held(machine)
    (award,) = [fact.event for fact in machine.logs[GLOBAL_LOG] if isinstance(fact.event, WorkloadAwarded)]
    assert (W1, EU) == (award.workload, award.region)
    assert "region_excluded" != shown(machine, W2).reason


def test_data_comes_before_togetherness(start: Start) -> None:
    """The second stage reads clicks, at home in us, and is held nowhere; the third follows the first."""
    machine = a_queue_with_data(start)
    place(machine, CLICKS, US)
    reads = a_spec(data=[CLICKS])
    submit_pipeline(
        machine,
        a_pipeline(
            a_stage("a", spec=ANYWHERE), a_stage("b", "a", spec=reads), a_stage("c", "b", spec=ANYWHERE)
        ),
    )
    starts(machine, W1)
    assert [(EU,), (), (EU,)] == regions(machine)
    machine.hear(AbandonRegion(EU, 0, is_forced=True))
    machine.wake()
    assert [(), (), ()] == regions(machine)
    assert all(W2 not in event.workloads for event in held(machine)), "it never was held, so nothing frees it"
