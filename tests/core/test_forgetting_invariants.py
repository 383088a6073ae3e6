"""What leaves the images: a workload or an attempt that may still come to something is never forgotten."""

import pytest

from core.events.queue import (
    AttemptClosed,
    RegionAdded,
    WorkloadAwarded,
    WorkloadCancelled,
    WorkloadsForgotten,
)
from core.events.region import AttemptEnded, AttemptsForgotten, AwardDeclined, GangStarted
from core.fact import Event
from core.images import GlobalImage
from core.invariants.consistency import check_global_fact, check_region_fact
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.workload import EndCause, Phase
from tests.builders import (
    EU,
    a_claim,
    a_fact,
    a_queue,
    a_region,
    attempt,
    granted,
    joined,
    promised,
    submitted,
)

W1 = WorkloadId("w-1")
AWARDED = (RegionAdded(EU), submitted(1), WorkloadAwarded(W1, 1, EU, 0, ()))
CLOSED = AttemptClosed(W1, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 4)
GONE = WorkloadsForgotten((W1,))
LEFT = AttemptsForgotten((attempt(),), 4)
ENDED = (joined(), granted(a_claim()), AttemptEnded(*attempt(), EndCause.COMPLETED))


def of_queue(*history: Event) -> list[str]:
    """What is wrong with the last of these."""
    return check_global_fact(a_fact(history[-1], len(history), log=GLOBAL_LOG), a_queue(*history[:-1]), {})


def of_region(*history: Event, queue: GlobalImage | None = None) -> list[tuple[int, str]]:
    """The same, of a region."""
    return check_region_fact(EU, a_fact(history[-1], len(history)), a_region(*history[:-1]), queue)


def test_ended_workload_is_forgotten() -> None:
    """However it ended."""
    assert [] == of_queue(*AWARDED, CLOSED, GONE)
    assert [] == of_queue(RegionAdded(EU), submitted(1), WorkloadCancelled(W1), GONE)


@pytest.mark.parametrize(
    ("history", "phase"),
    [
        pytest.param((submitted(1),), "PENDING", id="pending"),
        pytest.param(AWARDED, "AWARDED", id="awarded"),
        pytest.param((submitted(2),), "not known", id="unknown"),
    ],
)
def test_workload_that_has_not_ended_is_not_forgotten(history: tuple[Event, ...], phase: str) -> None:
    """No accepted workload is lost: each one of the fact is looked at."""
    found = of_queue(
        *history,
        submitted(3),
        WorkloadCancelled(WorkloadId("w-3")),
        WorkloadsForgotten((WorkloadId("w-3"), W1)),
    )
    assert [f"w-1: forgotten, and it is {phase}"] == found


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(ENDED, id="ended"),
        pytest.param((joined(), AwardDeclined(*attempt(), "no_capacity", 3)), id="declined"),
    ],
)
def test_attempt_that_is_over_and_superseded_is_forgotten(history: tuple[Event, ...]) -> None:
    """The queue's log shows that it comes to nothing more; while that log is not known nothing is compared."""
    assert [] == of_region(*history, LEFT, queue=a_queue(*AWARDED, CLOSED))
    assert [] == of_region(*history, LEFT, queue=a_queue(RegionAdded(EU)))
    assert [] == of_region(*history, LEFT)


def test_attempt_whose_award_stands_is_not_forgotten() -> None:
    """Else the store would grant the same award once more."""
    wanted = [(3, "w-1.1: forgotten, and its award stands")]
    assert wanted == of_region(*ENDED, LEFT, queue=a_queue(*AWARDED))


@pytest.mark.parametrize(
    ("history", "phase"),
    [
        pytest.param((joined(), promised(a_claim())), "promised", id="promised"),
        pytest.param((joined(), granted(a_claim())), "granted", id="granted"),
        pytest.param((joined(), granted(a_claim()), GangStarted(*attempt())), "started", id="started"),
        pytest.param((joined(),), "not known", id="unknown"),
    ],
)
def test_attempt_that_is_not_over_is_not_forgotten(history: tuple[Event, ...], phase: str) -> None:
    """Its capacity would be held by nobody."""
    wanted = [(3, f"w-1.1: forgotten, and it is {phase}")]
    assert wanted == of_region(*history, LEFT, queue=a_queue(*AWARDED, CLOSED))
