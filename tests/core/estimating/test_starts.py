"""What the queue's image remembers of estimates, and which of them are judged."""

import pytest
from msgspec.structs import replace

from core.estimating.bands import FLOOR, StartEstimate
from core.estimating.scores import log_ratio
from core.events.queue import (
    AttemptClosed,
    CancelRequested,
    RegionAdded,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadChanged,
    WorkloadHeld,
)
from core.fact import Event
from core.images import GlobalImage
from core.images.start_estimates import Starts
from core.nouns.ids import WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import STARTS_JUDGED_MAX
from core.nouns.workload import EndCause, Phase
from tests.builders import EU, a_job, submitted
from tests.builders import a_queue as a_log

W1 = WorkloadId("w-1")
BAND = StartEstimate(seconds(4), seconds(2), seconds(5), seconds(6), "1m")
AWARDED = WorkloadAwarded(W1, 1, EU, 0, ())
BOUND = WorkloadBound(W1, 1, EU, 1)


def a_queue(*events: Event) -> GlobalImage:
    """One that knows a region."""
    return a_log(RegionAdded(EU), *events)


def after(*events: Event, estimate: StartEstimate | None = BAND) -> Starts:
    """What is remembered when this happened a second after the other."""
    return a_queue(replace(submitted(), start=estimate), *events).starts


@pytest.mark.parametrize(("low", "high", "outcome"), [(2, 6, 0), (3, 6, 0), (2, 3, 0), (4, 6, -1), (1, 2, 1)])
def test_start_is_inside_its_band_or_not(low: float, high: float, outcome: int) -> None:
    """Three seconds after its submission it is up."""
    held = WorkloadHeld(WorkloadId("w-2"), 1)
    estimate = replace(BAND, low=seconds(low), high=seconds(high))
    image = a_queue(
        replace(submitted(), start=estimate), replace(submitted(2), start=BAND), AWARDED, BOUND, held
    )
    assert [outcome] == image.starts.outcomes
    assert (1, outcome == 0) == (image.starts.judged, image.starts.inside)
    assert {} == image.starts.awaited


@pytest.mark.parametrize(
    "events",
    [
        (WorkloadHeld(W1, 1), AWARDED, BOUND),
        (WorkloadChanged(W1, 1, (a_job(),)), AWARDED, BOUND),
        (AWARDED, CancelRequested(W1), BOUND),
        (WorkloadCancelled(W1),),
        (AWARDED, AttemptClosed(W1, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 1)),
    ],
    ids=("held", "changed", "to be cancelled", "cancelled", "over before it was seen up"),
)
def test_users_change_is_no_error(events: tuple[Event, ...]) -> None:
    """The estimate is left out, and so is that of a workload that was never seen to start."""
    starts = after(*events)
    assert ([], 0, {}) == (starts.outcomes, starts.judged, starts.awaited)


def test_only_the_first_start_counts() -> None:
    """An attempt that was never up is waited on; one that was interrupted starts again without a judgement."""
    lost = AttemptClosed(W1, 1, EndCause.START_FAILED, Phase.PENDING, EU, 1)
    again = (WorkloadAwarded(W1, 2, EU, 0, ()), WorkloadBound(W1, 2, EU, 1))
    assert [0] == after(AWARDED, lost, *again).outcomes
    assert 1 == after(AWARDED, BOUND, lost, *again).judged
    assert [] == after(AWARDED, BOUND, estimate=None).outcomes


def test_share_of_hits_is_of_the_newest() -> None:
    """Old ones are forgotten; that they were is still counted."""
    events: list[Event] = []
    for number in range(1, STARTS_JUDGED_MAX + 11):
        # The first ten are up at once, and all others after a second and later than said.
        band = replace(BAND, low=Nanoseconds(0), high=seconds(5 if number <= 10 else 1))
        workload = WorkloadId(f"w-{number}")
        awarded, bound = WorkloadAwarded(workload, 1, EU, 0, ()), WorkloadBound(workload, 1, EU, 1)
        events += [replace(submitted(number), start=band), awarded, bound]
    few, many = a_queue(*events[:60]).starts, a_queue(*events).starts
    assert (0.5, 20, 10) == (few.held_share(), few.judged, few.inside)
    assert (0.0, STARTS_JUDGED_MAX, 10) == (many.held_share(), len(many.outcomes), many.inside)
    assert 0.0 == Starts().held_share()


def test_of_a_crowd_the_first_that_is_submitted_is_remembered() -> None:
    """Not the first to start; and whoever leaves makes way for the next."""
    crowd = [replace(submitted(number), start=BAND) for number in (1, 2, 3)]
    second = (WorkloadAwarded(WorkloadId("w-2"), 1, EU, 0, ()), WorkloadBound(WorkloadId("w-2"), 1, EU, 1))
    first = (AWARDED, BOUND)
    image = a_queue(*crowd, *second)
    assert [] == image.starts.bands.groups["1m"].ratios
    image = a_queue(*crowd, *second, *first)
    (ratio,) = image.starts.bands.groups["1m"].ratios
    assert log_ratio(seconds(6) + FLOOR, BAND.span + FLOOR) == ratio
    image = a_queue(*crowd[:2], WorkloadCancelled(W1), crowd[2])
    assert [False, True] == [one.is_sampled for one in image.starts.awaited.values()]
