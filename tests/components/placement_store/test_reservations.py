"""Starts that a placement store reserves: on whose word, for how long, and who may still come there."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from components import PlacementStore
from core.component import NOTHING, Decision
from core.events.control import ClaimRevised
from core.events.queue import CancelRequested, WorkloadBound, WorkloadHeld
from core.events.region import ClaimGranted, ClaimPromised, StopOrdered
from core.events.starts import StartPromised, StartPromiseEnded, StartReserved, StartUnreserved
from core.fact import Event
from core.images.reservations import ReservedStart
from core.messages.nodes import CloseNodes
from core.messages.reserved_starts import ReserveStart
from core.messages.store import RecordLoss, RecordStarted
from core.nouns.ids import GLOBAL_LOG, RegionName, TenantName, WorkerName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds, after, seconds
from core.nouns.limits import (
    END_SLACK,
    GRACE,
    PROMISE_SPAN,
    START_ALLOWANCE,
    START_PATIENCE,
    START_SPAN,
    STOP_SLACK,
)
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import OperationKind
from core.nouns.reasons import Reason
from core.nouns.starts import StartOver
from core.nouns.workload import EndCause, Kind
from core.rows import unpack_rows
from tests.builders import EU, EU_LOG, US, a_claim, a_job, a_spread, attempt, submitted
from tests.components.support.machine import Machine
from tests.components.support.placement_store import (
    a_store,
    agreed,
    award,
    claim,
    end,
    gone,
    place,
    refusal,
    revise,
    serve,
    stop,
    verdict,
)
from tests.matching import facts

Start = Callable[..., Machine[Any]]
GANG = WorkloadId("w-1")
LASTS = seconds(1000)
"""Of the work that is in the gang's way."""
FREE_IN = Nanoseconds(seconds(1000 + 90) + GRACE + END_SLACK)
"""When it is surely gone, with something to spare."""
REST = START_SPAN + GRACE + END_SLACK
"""Beside its longest duration, what a newcomer may take."""


def a_full_store(start: Start, **parts: Any) -> Machine[Any]:
    """Nodes 0 and 1 are full of work that may last `LASTS`, nodes 2 and 3 are empty; a gang waits in the queue."""
    machine = a_store(start, **parts)
    for number, node in ((8, 0), (9, 1)):
        made = a_claim(f"w-{number}", placed={node: 8}, award_sequence=award(machine, f"w-{number}"))
        assert "granted" == verdict(claim(machine, replace(made, max_duration=LASTS)))
    machine.fact(GLOBAL_LOG, submitted(1))
    return machine


def promise(
    machine: Machine[Any],
    workload: str = GANG,
    placed: dict[int, int] | None = None,
    *,
    revision: int = 1,
    level: int = 3,
    free_in: Nanoseconds = FREE_IN,
    region: RegionName = EU,
) -> ReserveStart:
    """The queue's log shows this promise. Returns what it says of it: one task of 8 GPUs on each of these nodes."""
    spread = a_spread(placed or {0: 1, 1: 1})
    promised = StartPromised(
        WorkloadId(workload),
        revision,
        region,
        Nanoseconds(free_in + START_ALLOWANCE),
        free_in,
        (spread,),
        level,
    )
    sequence = machine.fact(GLOBAL_LOG, promised)
    job = a_job(sum(spread.tasks), 8)
    tenant = TenantName("default")
    return ReserveStart(
        EU, WorkloadId(workload), revision, free_in, level, Kind.TRAINING, tenant, (job,), (spread,), sequence
    )


def reserve(machine: Machine[Any], *args: Any, **parts: Any) -> StartReserved:  # Any: as `promise` takes them
    """It is promised, and reserved."""
    (event,) = facts(machine.hear(promise(machine, *args, **parts)))
    assert isinstance(event, StartReserved)
    return event


def rows(machine: Machine[Any]) -> dict[str, ReservedStart]:
    """The reserved starts."""
    return dict(machine.state.image.starts.rows)


def over(workload: str, why: StartOver, revision: int = 1) -> StartUnreserved:
    """The fact that one is over."""
    return StartUnreserved(WorkloadId(workload), revision, why)


def try_to(
    machine: Machine[Any], workload: str, placed: dict[int, int], lasts: float = 0, **parts: Any
) -> Decision:  # Any: parts of a claim
    """It is awarded, and claims this: tasks of one GPU each that may last so many seconds."""
    made = a_claim(workload, placed=placed, award_sequence=award(machine, workload), **parts)
    return claim(machine, replace(made, max_duration=seconds(lasts)))


def test_start_that_is_promised_is_reserved(start: Start) -> None:
    """At the queue's word, once, and kept from then on."""
    machine = a_full_store(start)
    said = promise(machine)
    (event,) = facts(machine.hear(said))
    assert (
        StartReserved(
            GANG,
            1,
            FREE_IN,
            3,
            Kind.TRAINING,
            TenantName("default"),
            said.jobs,
            said.spreads,
            said.global_sequence,
        )
        == event
    )
    row = rows(machine)[GANG]
    assert (after(machine.now, FREE_IN), [0, 1]) == (row.starts_at, row.nodes())
    assert NOTHING == machine.hear(said)


def test_promise_that_is_not_read_or_does_not_stand(start: Start) -> None:
    """Ahead of the log, for another region, or superseded: nothing is recorded, and the queue says what counts again."""
    machine = a_full_store(start)
    said = promise(machine)
    assert NOTHING == machine.hear(replace(said, global_sequence=said.global_sequence + 1))
    newer = promise(machine, revision=2)
    assert NOTHING == machine.hear(said)
    assert NOTHING == machine.hear(replace(promise(machine, "w-2", region=US), region=EU))
    assert [GANG] == [
        event.workload for event in facts(machine.hear(newer)) if isinstance(event, StartReserved)
    ]


def test_start_without_capacity(start: Start) -> None:
    """A start too soon, on nodes that are held for ever, or on unknown nodes is refused with that reason, once, and for that revision."""
    machine = a_full_store(start)
    place(machine, "w-7", {3: 1})
    for revision, placed, free_in in ((1, {0: 1}, seconds(100)), (2, {3: 1}, FREE_IN), (3, {77: 1}, FREE_IN)):
        said = promise(machine, placed=placed, free_in=free_in, revision=revision)
        assert [over(GANG, StartOver.NO_ROOM, revision)] == facts(machine.hear(said))
        assert NOTHING == machine.hear(said)
    machine.hear(CloseNodes(EU, ClosureKind.QUARANTINE, (2,), "ill"))
    said = promise(machine, placed={2: 1}, revision=4)
    assert [over(GANG, StartOver.NODE_CLOSED, 4)] == facts(machine.hear(said))


def test_only_backfill_may_come(start: Start) -> None:
    """To the nanosecond of its bound, by the store's clock. Work that may last for ever, and services, stay away."""
    machine = a_full_store(start)
    end(machine, "w-8")
    reserve(machine)
    fits = (FREE_IN - REST) / SECOND
    assert ("conflict", Reason.START_RESERVED) == refusal(try_to(machine, "w-2", {0: 1}))
    assert ("conflict", Reason.START_RESERVED) == refusal(try_to(machine, "w-3", {0: 1}, fits + 1e-9))
    late = try_to(machine, "w-4", {0: 1}, 1, kind=Kind.SERVICE)
    assert ("conflict", Reason.START_RESERVED) == refusal(late)
    assert "granted" == verdict(try_to(machine, "w-5", {0: 1}, fits))
    assert "granted" == verdict(try_to(machine, "w-6", {2: 1})), "other nodes are for everybody"
    machine.wait(seconds(10))
    assert ("conflict", Reason.START_RESERVED) == refusal(try_to(machine, "w-7", {0: 1}, fits))


def test_refusals_for_a_start_dispute_no_node(start: Start) -> None:
    """However often: nodes are closed where agents and the store disagree, and here only time passes."""
    machine = a_full_store(start)
    end(machine, "w-8")
    reserve(machine)
    for number in range(20, 26):
        view = machine.sequence(EU_LOG)
        assert "conflict" == verdict(try_to(machine, f"w-{number}", {0: 1}, view_sequence=view))
    assert not machine.state.image.capacity.closures


def test_its_own_workload_takes_its_capacity(start: Start) -> None:
    """There, or elsewhere in the region: nothing is kept for it any more."""
    machine = a_full_store(start)
    end(machine, "w-8")
    end(machine, "w-9")
    reserve(machine)
    assert "granted" == verdict(try_to(machine, GANG, {0: 8, 1: 8}))
    assert {} == rows(machine)
    assert StartOver.USED == machine.state.image.starts.over[GANG].reason
    assert NOTHING == machine.hear(promise(machine, revision=2)), "it has what it needs"


def test_higher_level_displaces(start: Start) -> None:
    """Strictly higher, and not if it ends before; the region's log says so in the same batch."""
    machine = a_full_store(start)
    end(machine, "w-8")
    reserve(machine)
    assert [ClaimGranted] == [type(event) for event in facts(try_to(machine, "w-2", {0: 1}, 10, priority=4))]
    taken = facts(try_to(machine, "w-3", {0: 1}, priority=4))
    assert over(GANG, StartOver.DISPLACED) == taken[1]
    assert {} == rows(machine)


def test_promise_over_victims_counts_its_wait(start: Start) -> None:
    """Its victims may take their time; what would end before if it were granted at once may not."""
    machine = a_full_store(start)
    place(machine, "w-5", {2: 8}, priority=1)
    reserve(machine, placed={3: 1}, free_in=seconds(700))
    victims = (attempt("w-5"),)
    lasts = (seconds(700) - REST) / SECOND
    wide: dict[str, Any] = {"spreads": (a_spread({2: 4, 3: 4}),), "jobs": (a_job(8, 1),), "victims": victims}
    late = try_to(machine, "w-6", {}, lasts, **wide)
    assert ("conflict", Reason.START_RESERVED) == refusal(late)
    early = try_to(machine, "w-7", {}, lasts - PROMISE_SPAN / SECOND, **wide)
    assert "promised" == verdict(early)
    end(machine, "w-5", EndCause.PREEMPTED)
    assert [GANG] == list(rows(machine))


def test_promise_of_higher_level_displaces(start: Start) -> None:
    """From when it is promised: its victims are told to stop already."""
    machine = a_full_store(start)
    place(machine, "w-5", {2: 8}, priority=1)
    reserve(machine, placed={3: 1})
    made: dict[str, Any] = {
        "spreads": (a_spread({2: 4, 3: 4}),),
        "jobs": (a_job(8, 1),),
        "victims": (attempt("w-5"),),
    }
    events = facts(try_to(machine, "w-6", {}, priority=5, **made))
    assert [ClaimPromised, StartUnreserved] == [type(event) for event in events]


def test_capacity_promised_over_victims_is_not_reserved_again(start: Start) -> None:
    """The victim surely ends, and its capacity is for the workload that preempts it."""
    machine = a_full_store(start)
    made = try_to(machine, "w-6", {0: 8}, priority=5, victims=(attempt("w-8"),))
    assert "promised" == verdict(made)
    said = promise(machine, placed={0: 1})
    assert [over(GANG, StartOver.NO_ROOM)] == facts(machine.hear(said))


def test_two_starts_lie_on_different_nodes(start: Start) -> None:
    """Of one level the first stays; one of a higher level displaces it."""
    machine = a_full_store(start)
    reserve(machine)
    said = promise(machine, "w-2", {1: 1, 2: 1})
    assert [over("w-2", StartOver.NO_ROOM)] == facts(machine.hear(said))
    assert [over(GANG, StartOver.DISPLACED), StartReserved] == [
        event if isinstance(event, StartUnreserved) else type(event)
        for event in facts(machine.hear(promise(machine, "w-3", {1: 1, 2: 1}, level=4)))
    ]
    assert ["w-3"] == list(rows(machine))


def test_newer_promise_takes_the_place_of_an_older_one(start: Start) -> None:
    """Its nodes are its own."""
    machine = a_full_store(start)
    reserve(machine)
    reserve(machine, placed={1: 1, 2: 1}, revision=2)
    assert [1, 2] == rows(machine)[GANG].nodes()


ENDS: dict[str, tuple[tuple[Event, ...], StartOver]] = {
    "cancelled": ((CancelRequested(GANG),), StartOver.GIVEN_UP),
    "held": ((WorkloadHeld(GANG, 1),), StartOver.GIVEN_UP),
    "ended": ((StartPromiseEnded(GANG, 1, StartOver.UNREACHABLE),), StartOver.GIVEN_UP),
    "promised elsewhere": (
        (StartPromised(GANG, 2, US, Nanoseconds(9), Nanoseconds(9), (a_spread({0: 1}),), 3),),
        StartOver.GIVEN_UP,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_promise_that_does_not_stand_is_not_kept(start: Start, name: str) -> None:
    """As soon as the queue's log shows it."""
    machine = a_full_store(start)
    reserve(machine)
    events, why = ENDS[name]
    machine.fact(GLOBAL_LOG, *events)
    assert [over(GANG, why)] == facts(machine.wake())


def test_workload_that_started_elsewhere(start: Start) -> None:
    """Late binding stays: what was kept for it here is there for others."""
    machine = a_full_store(start)
    reserve(machine)
    award(machine, GANG, region=US)
    assert [] == facts(machine.wake())
    machine.fact(GLOBAL_LOG, WorkloadBound(GANG, 1, US, 1))
    assert [over(GANG, StartOver.USED)] == facts(machine.wake())


def test_node_that_is_lost_or_closed(start: Start) -> None:
    """The start is over, and why. A worker that has only missed beats may be back in time."""
    machine = a_full_store(start)
    reserve(machine, placed={2: 1})
    machine.hear(CloseNodes(EU, ClosureKind.SUSPECT, (2,), "missed beats"))
    assert [] == facts(machine.wake())
    machine.hear(CloseNodes(EU, ClosureKind.QUARANTINE, (2,), "ill"))
    assert [over(GANG, StartOver.NODE_CLOSED)] == facts(machine.wake())
    reserve(machine, "w-2", {3: 1})
    machine.hear(RecordLoss(EU, WorkerName("w0"), machine.sequence(EU_LOG)))
    assert [over("w-2", StartOver.NODE_CLOSED)] == facts(machine.wake())


def test_unused_start_lapses(start: Start) -> None:
    """Not before its time and some patience are over."""
    machine = a_full_store(start)
    reserve(machine, placed={2: 1}, free_in=seconds(10))
    machine.wait(Nanoseconds(seconds(10) + START_ALLOWANCE + START_PATIENCE - 1))
    assert [GANG] == list(rows(machine))
    assert over(GANG, StartOver.LAPSED) in facts(machine.wait(Nanoseconds(1)))


def test_restarted_store_keeps_its_reservations(start: Start) -> None:
    """Those that the queue abandoned meanwhile end."""
    machine = a_full_store(start)
    reserve(machine)
    reserve(machine, "w-2", {2: 1})
    machine.fact(GLOBAL_LOG, CancelRequested(GANG))
    again = machine.restart()
    assert [over(GANG, StartOver.GIVEN_UP)] == facts(again.wake())
    assert ["w-2"] == list(rows(again))


def test_task_of_a_service_does_not_move_to_reserved_nodes(start: Start) -> None:
    """It has no end; where its level is higher it may, and displaces."""
    machine = a_full_store(start)
    for workload, level in (("w-5", 3), ("w-6", 4)):
        serve(machine, {2: 1}, workload=workload, priority=level)
    reserve(machine, placed={3: 1})
    for workload, wanted in (("w-5", []), ("w-6", [ClaimRevised, StartUnreserved])):
        agreed(machine, OperationKind.MOVE, 0, workload=workload)
        gone(machine, 0, workload=workload)
        told = revise(machine, (0, 2, 3), workload=workload)
        assert wanted == [type(event) for event in facts(told)]


def test_attempt_that_no_broker_stops(start: Start) -> None:
    """Bounds hold though a broker is away, or was started anew and counts from then: the store stops it itself."""
    machine = a_store(start)
    for workload in ("w-1", "w-2", "w-3"):
        try_to(machine, workload, {0: 1}, 0 if workload == "w-3" else 100)
    machine.wait(seconds(10))
    for workload in ("w-1", "w-3"):
        machine.hear(RecordStarted(EU, *attempt(workload)))
    machine.wait(Nanoseconds(seconds(100) + STOP_SLACK - 1))
    assert not [event for event in machine.logs[EU_LOG] if isinstance(event.event, StopOrdered)]
    assert [StopOrdered(*attempt("w-1"), EndCause.TIMEOUT)] == facts(machine.wait(Nanoseconds(1)))
    assert [StopOrdered(*attempt("w-2"), EndCause.START_FAILED)] == facts(machine.wait(START_SPAN))
    assert [] == facts(machine.wait(seconds(10_000)))


def test_restarted_store_stops_attempts_in_time(start: Start) -> None:
    """Times are in its log. An attempt that is told to stop, or has ended, is not stopped again."""
    machine = a_store(start)
    for workload in ("w-1", "w-2", "w-3"):
        try_to(machine, workload, {0: 1}, 100)
        machine.hear(RecordStarted(EU, *attempt(workload)))
    stop(machine, "w-2")
    end(machine, "w-3")
    machine.wait(seconds(50))
    again = machine.restart()
    told = facts(again.wait(seconds(10_000)))
    assert [StopOrdered(*attempt("w-1"), EndCause.TIMEOUT)] == [
        event for event in told if isinstance(event, StopOrdered)
    ]


def test_rows_tell_which_nodes_are_kept(start: Start) -> None:
    """From the reservation on, and again once the workload runs elsewhere, though no capacity of these nodes changed."""
    machine = a_full_store(start)
    first = machine.sequence(EU_LOG) + 1
    reserve(machine)
    assert {0: 1, 1: 1} == kept_since(machine, first)
    then = machine.sequence(EU_LOG) + 1
    assert "granted" == verdict(try_to(machine, GANG, {2: 1, 3: 1}))
    assert {0: 0, 1: 0, 2: 0, 3: 0} == kept_since(machine, then)


def kept_since(machine: Machine[Any], first: int) -> dict[int, int]:
    """By node of the rows since a sequence, whether only agents that fold every fact may place tasks there."""
    assert isinstance(machine.component, PlacementStore)
    packed = machine.component.packed_rows(machine.state, first)
    assert packed is not None
    rows = unpack_rows(packed).tolist()
    return {row[0]: row[6] for row in rows}
