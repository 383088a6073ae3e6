"""What a witness makes of promised starts, from facts alone."""

import pytest

from core.events.queue import CancelRequested, WorkloadHeld
from core.events.starts import StartPromised, StartPromiseEnded, StartReserved
from core.fact import Event
from core.nouns.ids import GLOBAL_LOG, TenantName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.starts import StartOver
from core.nouns.workload import Kind
from scenarios.accounting.reservations import KeptStarts
from tests.builders import EU, EU_LOG, US_LOG, a_claim, a_fact, a_job, a_spread, granted

W1 = WorkloadId("w-1")
SPREAD = a_spread({0: 1})
PROMISED = StartPromised(W1, 1, EU, seconds(100), seconds(85), (SPREAD,), 3)
RESERVED = StartReserved(
    W1, 1, seconds(85), 3, Kind.TRAINING, TenantName("default"), (a_job(1, 8),), (SPREAD,), 1
)
HAS_IT = granted(a_claim())
AGAIN = StartPromised(W1, 2, EU, seconds(500), seconds(485), (SPREAD,), 3, "displaced")


def told(*events: tuple[float, Event], until: float = 1000.0) -> tuple[float, ...]:
    """Promised, kept, replaced, broken, when these happened at these seconds."""
    starts = KeptStarts()
    for at, event in events:
        log = EU_LOG if isinstance(event, StartReserved) else US_LOG if event is HAS_IT else GLOBAL_LOG
        starts.take(a_fact(event, log=log), at)
    figures = starts.figures(until)
    return tuple(figures[f"promises{name}"] for name in ("", "_kept", "_replaced", "_broken"))


@pytest.mark.parametrize(
    ("at", "outcome"), [(50.0, (1, 1, 0, 0)), (100.0, (1, 1, 0, 0)), (100.1, (1, 0, 0, 1))]
)
def test_start_in_time_and_too_late(at: float, outcome: tuple[int, ...]) -> None:
    """Wherever it got its capacity; it counts once, though it starts again later."""
    assert outcome == told((0.0, PROMISED), (1.0, RESERVED), (at, HAS_IT), (900.0, HAS_IT))


def test_promise_that_was_never_shown() -> None:
    """Its region never reserved it."""
    assert (0, 0, 0, 0) == told((0.0, PROMISED), (5.0, StartPromiseEnded(W1, 1, StartOver.NO_ROOM)))
    assert (0, 0, 0, 0) == told((0.0, PROMISED), (300.0, HAS_IT))


@pytest.mark.parametrize(
    ("why", "at", "outcome"),
    [
        (StartOver.NODE_CLOSED, 50.0, (1, 0, 1, 0)),
        (StartOver.DISPLACED, 50.0, (1, 0, 1, 0)),
        (StartOver.DISPLACED, 101.0, (1, 0, 0, 1)),
        (StartOver.LAPSED, 50.0, (1, 0, 0, 1)),
        (StartOver.UNREACHABLE, 50.0, (1, 0, 0, 1)),
    ],
)
def test_promise_that_ended(why: StartOver, at: float, outcome: tuple[int, ...]) -> None:
    """Replaced for what the plane cannot help, if that was said in time."""
    assert outcome == told((0.0, PROMISED), (1.0, RESERVED), (at, StartPromiseEnded(W1, 1, why)), (at, AGAIN))


def test_promise_that_another_silently_replaces() -> None:
    """It never ended, and so it is broken: no promise moves silently."""
    assert (1, 0, 0, 1) == told((0.0, PROMISED), (1.0, RESERVED), (50.0, AGAIN), until=60.0)


@pytest.mark.parametrize("word", [CancelRequested(W1), WorkloadHeld(W1, 1)])
def test_promise_that_its_user_took_back(word: Event) -> None:
    """Neither kept nor broken, unless it was late by then."""
    assert (1, 0, 0, 0) == told((0.0, PROMISED), (1.0, RESERVED), (50.0, word))
    assert (1, 0, 0, 1) == told((0.0, PROMISED), (1.0, RESERVED), (101.0, word))


def test_promise_that_still_waits() -> None:
    """Broken as soon as its time has passed."""
    assert (1, 0, 0, 0) == told((0.0, PROMISED), (1.0, RESERVED), until=100.0)
    assert (1, 0, 0, 1) == told((0.0, PROMISED), (1.0, RESERVED), until=100.1)
