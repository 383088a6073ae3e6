"""What an auditor finds wrong with reserved starts, and what it leaves alone."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.events.control import ClaimRevised
from core.events.queue import RegionAdded
from core.events.region import GangStarted, NodesLost, StopOrdered
from core.events.starts import StartPromised, StartPromiseEnded, StartReserved
from core.fact import Event
from core.images import GlobalImage
from core.invariants.consistency import check_region_fact, citation_of
from core.nouns.ids import GLOBAL_LOG, TenantName, WorkerName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.operation import TaskMove
from core.nouns.starts import StartOver
from core.nouns.workload import EndCause, Kind
from tests.builders import (
    EU,
    US,
    a_claim,
    a_fact,
    a_job,
    a_queue,
    a_region,
    a_spread,
    attempt,
    granted,
    joined,
    promised,
    submitted,
)

FREE_IN = seconds(1000)


def reserved(*nodes: int, workload: str = "w-9", level: int = 3, revision: int = 1) -> StartReserved:
    """One task of 8 GPUs on each of these nodes."""
    spread, job = a_spread(dict.fromkeys(nodes, 1)), a_job(len(nodes), 8)
    owner, tenant = WorkloadId(workload), TenantName("default")
    return StartReserved(owner, revision, FREE_IN, level, Kind.TRAINING, tenant, (job,), (spread,), 3)


def found(*history: Event, queue: GlobalImage | None = None) -> list[str]:
    """What is found at the last of these, a second after the one before it, of reserved starts."""
    before = a_region(*history[:-1])
    fact = a_fact(history[-1], len(history))
    told = [text for _, text in check_region_fact(EU, fact, before, queue)]
    return [text for text in told if "start of" in text or "a start is" in text]


def lasting(workload: str, node: int, lasts: float, **parts: Any) -> Event:  # Any: parts of a claim
    """One device of a node, for so long at the most; 0: for ever."""
    return granted(replace(a_claim(workload, placed={node: 1}, **parts), max_duration=seconds(lasts)))


SHELF = joined()
LONG = FREE_IN / SECOND - 1
"""It is granted a second after the start was reserved."""


@pytest.mark.parametrize(
    "event",
    [
        lasting("w-1", 0, 0),
        lasting("w-1", 0, LONG + 1e-9),
        lasting("w-1", 0, 5, kind=Kind.SERVICE),
        promised(a_claim("w-1", placed={0: 1}, victims=(attempt("w-2"),))),
    ],
)
def test_intruder_is_found(event: Event) -> None:
    """Whoever may still be there at the start."""
    (text,) = found(SHELF, reserved(0), event)
    assert "w-1.1: comes to nodes that are reserved for the start of w-9" == text


@pytest.mark.parametrize(
    "event",
    [
        lasting("w-1", 0, LONG),
        lasting("w-1", 1, 0),
        lasting("w-1", 0, 0, priority=4),
        granted(a_claim("w-9", placed={0: 8})),
    ],
)
def test_permitted_attempt_on_reserved_nodes_is_left_alone(event: Event) -> None:
    """Backfill, attempts elsewhere or of a higher level, and the reservation's own workload."""
    assert [] == found(SHELF, reserved(0), event)


def test_task_that_moves_there_is_found() -> None:
    """A service has no end; a task that starts again on its own node comes from nowhere."""
    held = granted(a_claim("w-1", placed={0: 1, 1: 1}, gpus=4, kind=Kind.SERVICE))
    away = ClaimRevised(*attempt("w-1"), 1, (TaskMove(1, 1, 2),))
    assert 1 == len(found(SHELF, held, reserved(2), away))
    again = ClaimRevised(*attempt("w-1"), 1, (TaskMove(1, 1, 1),))
    assert [] == found(SHELF, held, reserved(2), again)


@pytest.mark.parametrize(
    ("history", "text"),
    [
        ((reserved(0, workload="w-8"),), "on nodes of w-8's"),
        ((reserved(1, revision=1),), "with revision 1 after 1"),
        ((lasting("w-1", 0, 0),), "on node 0, where others may still be then"),
        ((lasting("w-1", 0, 1002),), "on node 0, where others may still be then"),
        ((lasting("w-1", 0, 5, kind=Kind.SERVICE),), "on node 0, where others may still be then"),
        ((NodesLost(WorkerName("w0"), (0, 1, 2, 3)),), "on node 0, which is not there"),
    ],
)
def test_start_without_capacity_is_found(history: tuple[Event, ...], text: str) -> None:
    """Where an attempt may still be, on another's nodes, or nowhere."""
    assert f"w-9: a start is reserved {text}" in found(SHELF, *history, reserved(0))


def test_start_with_capacity_is_left_alone() -> None:
    """The attempts there end before, by their duration or because they were told to."""
    stopped = StopOrdered(*attempt("w-2"), EndCause.CANCELLED)
    told = (lasting("w-2", 0, 0), stopped)
    assert [] == found(SHELF, lasting("w-1", 0, 900), GangStarted(*attempt("w-1")), *told, reserved(0))


def test_start_that_was_not_promised_is_found() -> None:
    """The queue's log is read up to the promise, or further, and shows a promise for this region."""
    said = StartPromised(WorkloadId("w-9"), 1, EU, Nanoseconds(9), Nanoseconds(9), (a_spread({0: 1}),), 3)
    known = a_queue(RegionAdded(EU), submitted(9), said)
    assert [] == found(SHELF, reserved(0), queue=known)
    assert (GLOBAL_LOG, 3) == citation_of(reserved(0))
    ended = StartPromiseEnded(WorkloadId("w-9"), 1, StartOver.NO_ROOM)
    over = a_queue(RegionAdded(EU), submitted(9), said, ended)
    assert [] == found(SHELF, reserved(0), queue=over)
    never = a_queue(RegionAdded(EU), submitted(9))
    elsewhere = a_queue(RegionAdded(EU), RegionAdded(US), submitted(9), replace(said, region=US))
    wrong = ["w-9: a start is reserved in eu that is not promised"]
    for queue in (never, elsewhere):
        assert wrong == found(SHELF, reserved(0), queue=queue)
    for queue in (known, over):
        assert wrong == found(SHELF, replace(reserved(0), revision=2), queue=queue)
