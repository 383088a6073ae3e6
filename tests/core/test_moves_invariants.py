"""The rules of moves between regions, by the queue's own log: what breaks them is found, and a move as it should be is not."""

import pytest

from core.events.moves import MoveBegun, MoveEnded, MovePlanned
from core.events.queue import AttemptClosed, RegionAdded, WorkloadAwarded, WorkloadBound
from core.events.starts import StartReserved, StartUnreserved
from core.fact import Event
from core.images import RegionImage
from core.invariants.moves import check_move
from core.nouns.ids import GLOBAL_LOG, RegionName, TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.moving import MoveCost
from core.nouns.starts import StartOver
from core.nouns.workload import EndCause, Kind, Phase
from tests.builders import EU, US, a_fact, a_job, a_queue, a_region, a_spread, joined, submitted

W1 = WorkloadId("w-1")
SHIP = seconds(40)
RUNNING = (
    RegionAdded(EU),
    RegionAdded(US),
    submitted(1),
    WorkloadAwarded(W1, 1, EU, 0, ()),
    WorkloadBound(W1, 1, EU, 3),
)
PLANNED = MovePlanned(W1, 1, 1, US, MoveCost(seconds(60), SHIP, 100))
BEGUN = MoveBegun(W1, 1, 1, seconds(300), US, 2)
STOPPED = AttemptClosed(W1, 1, EndCause.CANCELLED, Phase.PENDING, EU, 4)
RESERVED = StartReserved(
    W1, 1, seconds(600), 3, Kind.TRAINING, TenantName("default"), (a_job(1, 8),), (a_spread({0: 1}),), 3
)


def found(*history: Event, at: float = 0, regions: dict[RegionName, RegionImage] | None = None) -> list[str]:
    """What is wrong with the last of these, so many seconds after the one before it."""
    fact = a_fact(history[-1], len(history), log=GLOBAL_LOG)
    late = a_fact(history[-1], len(history), log=GLOBAL_LOG, at=Instant(fact.at + seconds(at)))
    return check_move(late, a_queue(*history[:-1]), regions or {})


def awarded(region: RegionName, epoch: int = 2) -> WorkloadAwarded:
    """The next attempt."""
    return WorkloadAwarded(W1, epoch, region, 0, ())


def test_move_as_it_should_be() -> None:
    """Planned for the attempt that runs, begun once capacity is reserved, and awarded there once the checkpoint has arrived."""
    there = {US: a_region(joined(), RESERVED)}
    assert [] == found(*RUNNING, PLANNED)
    assert [] == found(*RUNNING, PLANNED, BEGUN, regions=there)
    assert [] == found(*RUNNING, PLANNED, BEGUN, STOPPED, awarded(US), at=SHIP / SECOND)
    assert [] == found(*RUNNING, PLANNED, MoveEnded(W1, 1, StartOver.LAPSED), STOPPED, awarded(EU))


@pytest.mark.parametrize(
    ("history", "text"),
    [
        pytest.param(
            (*RUNNING, MovePlanned(W1, 1, 2, US, PLANNED.cost)),
            "a move of attempt 2 is planned, and it is RUNNING, attempt 1",
            id="another attempt",
        ),
        pytest.param(
            (*RUNNING, PLANNED, PLANNED),
            "a move of attempt 1 is planned, and it is RUNNING, attempt 1",
            id="a second move",
        ),
        pytest.param(
            (*RUNNING, STOPPED, PLANNED),
            "a move of attempt 1 is planned, and it is PENDING, attempt 1",
            id="not active",
        ),
    ],
)
def test_move_that_cannot_be_planned(history: tuple[Event, ...], text: str) -> None:
    """Of an attempt that is not the active one, or of a workload that moves already."""
    assert [f"w-1: {text}"] == found(*history)


@pytest.mark.parametrize(
    ("history", "begun"),
    [
        pytest.param(RUNNING, BEGUN, id="no plan"),
        pytest.param((*RUNNING, PLANNED), MoveBegun(W1, 2, 1, seconds(300), US, 2), id="another revision"),
        pytest.param((*RUNNING, PLANNED), MoveBegun(W1, 1, 1, seconds(300), EU, 2), id="another region"),
    ],
)
def test_move_that_begins_unplanned(history: tuple[Event, ...], begun: MoveBegun) -> None:
    """A move begins only as it was planned."""
    assert [f"w-1: move {begun.revision} begins, and is not planned"] == found(*history, begun)


def test_move_that_begins_without_reserved_capacity() -> None:
    """The new region must reserve the start, or have done so; a region whose image is not known here cannot be asked."""
    text = "w-1: move 1 begins, and us keeps no room for it"
    assert [text] == found(*RUNNING, PLANNED, BEGUN, regions={US: a_region(joined())})
    over = a_region(joined(), RESERVED, StartUnreserved(W1, 1, StartOver.LAPSED))
    assert [] == found(*RUNNING, PLANNED, BEGUN, regions={US: over})
    assert [] == found(*RUNNING, PLANNED, BEGUN, regions={EU: a_region(joined())})


def test_workload_that_moves_is_awarded_elsewhere_or_too_soon() -> None:
    """Only the new region may have it, and not before its checkpoint is there."""
    moving = (*RUNNING, PLANNED, BEGUN, STOPPED)
    assert ["w-1: awarded to eu while it moves to us"] == found(*moving, awarded(EU), at=SHIP / SECOND)
    assert ["w-1: awarded while its checkpoint is on its way"] == found(*moving, awarded(US))


def test_other_facts_and_unknown_workloads_are_left_alone() -> None:
    """A workload that the image has forgotten cannot be compared."""
    assert [] == found(RegionAdded(EU), PLANNED)
    assert [] == found(*RUNNING, PLANNED, WorkloadBound(W1, 1, EU, 3))
