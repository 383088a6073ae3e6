"""A queue that starts again over its log goes on with its pipelines: windows, holds, looks that were due, and start deadlines."""

from typing import Any

import pytest

from core.events.pipelines import PipelineEnded, StagesHeld
from core.events.queue import WorkloadCancelled
from core.fact import Event
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import Nanoseconds
from core.nouns.pipeline import DailyWindow, Outcome
from core.nouns.workload import EndCause
from tests.builders import EU, EU_LOG, a_spec
from tests.components.support.job_queue import (
    W1,
    W2,
    Start,
    a_job_queue,
    asked,
    awarded,
    declined,
    ended,
    shown,
)
from tests.components.support.machine import Machine
from tests.components.support.pipelines import (
    DAY,
    HOUR,
    P1,
    a_chain,
    a_pipeline,
    a_stage,
    ends,
    passes,
    phases,
    pipeline_shown,
    start_by,
    starts,
    submit_pipeline,
)


def events(machine: Machine[Any], kind: type[Event]) -> list[Event]:
    """All facts of a kind that the queue has recorded."""
    return [fact.event for fact in machine.logs[GLOBAL_LOG] if isinstance(fact.event, kind)]


def a_window(machine: Machine[Any], opens_in: float, hours: float = 1) -> DailyWindow:
    """One that opens in so many hours."""
    opens = round(machine.now + opens_in * HOUR) % DAY
    return DailyWindow(Nanoseconds(opens), Nanoseconds(round(hours * HOUR)))


@pytest.mark.parametrize("is_open", [True, False])
def test_window_is_followed_after_a_restart(start: Start, is_open: bool) -> None:  # a case
    """Open or closed, the stage stands where it stood, and the window closes or opens as it should."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_pipeline(a_stage("a", begins=a_window(machine, 1))))
    passes(machine, 1.5 if is_open else 0.5)
    expected = ["waiting_turn", "waits_for_window"][:: 1 if is_open else -1]
    again = machine.restart()
    again.wake()
    assert expected[0] == shown(again).reason
    if is_open:
        assert [("w-1", "eu")] == asked(machine.restart().wake())
        return
    passes(again, 0.5)
    assert expected[1] == shown(again).reason


def test_hold_stands_after_a_restart(start: Start) -> None:
    """The second stage is asked for in the region of the first alone."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_pipeline(a_stage("a", spec=a_spec()), a_stage("b", "a", spec=a_spec())))
    starts(machine, W1)
    ends(machine, W1)
    again = machine.restart()
    assert {("w-2", "eu")} == set(asked(again.wake())) or (EU,) == again.state.auctions.open[W2].asked


def test_hold_that_was_to_end_ends_after_a_restart(start: Start) -> None:
    """The only award has been declined, and the queue dies before it looks."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_pipeline(a_stage("a", spec=a_spec()), a_stage("b", spec=a_spec())))
    awarded(machine, EU, W1)
    machine.fact(EU_LOG, declined())
    machine.hear_due_once()
    again = machine.restart()
    again.wake()
    assert [StagesHeld(P1, (W1, W2), EU), StagesHeld(P1, (W1, W2))] == events(again, StagesHeld)


def test_look_that_was_due_is_made_after_a_restart(start: Start) -> None:
    """A stage has failed, and the queue dies before it cancels those that wait for it and records the end."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_chain(1, 1, within=24))
    starts(machine, W1)
    machine.fact(EU_LOG, ended(EndCause.TASK_FAILED))
    machine.hear_due_once()
    assert [] == events(machine, WorkloadCancelled)
    again = machine.restart()
    again.wake()
    assert [WorkloadCancelled(W2)] == events(again, WorkloadCancelled)
    assert [PipelineEnded(P1, Outcome.FAILED)] == events(again, PipelineEnded)
    once_more = again.restart()
    once_more.wake()
    assert 1 == len(events(once_more, PipelineEnded))


def test_start_deadlines_and_order_are_those_before(start: Start) -> None:
    """Whatever was learnt, recorded and late; and no fact is repeated."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_chain(1, 2, within=24))
    submit_pipeline(machine, a_chain(1, 2, within=5))
    submit_pipeline(machine, a_chain(2, 2, within=4))
    starts(machine, W1)
    passes(machine, 3)
    ends(machine, W1)
    passes(machine, seconds=60)
    before = len(machine.logs[GLOBAL_LOG])
    again = machine.restart()
    again.wake()
    told = [fact.event for fact in again.logs[GLOBAL_LOG][before:]]
    assert ["LogOpened"] == [type(event).__name__ for event in told]
    for name in machine.state.image.pipelines.rows:
        assert start_by(machine, name) == start_by(again, name)
        assert phases(machine, name) == phases(again, name)
        assert pipeline_shown(machine, name) == pipeline_shown(again, name)
    assert [one.work for one in machine.state.order.ranked()] == [
        one.work for one in again.state.order.ranked()
    ]
