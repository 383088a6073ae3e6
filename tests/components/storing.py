"""A placement store with four empty nodes, and awards that the queue's log shows."""

from collections.abc import Callable
from typing import Any

from components.placement_store import PlacementStore
from core.component import Decision
from core.events.queue import AttemptClosed, AwardReturned, RegionAdded, WorkloadAwarded
from core.messages.agents import ClaimAnswered
from core.messages.store import DeclineAward, OrderStop, RecordEnd, RecordJoin, SubmitClaim
from core.nouns.ids import GLOBAL_LOG, AttemptKey, LogName, RegionName, WorkloadId
from core.nouns.placement import Claim
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Phase
from tests.builders import EU, US, a_claim, an_inventory, attempt
from tests.components.machine import Machine
from tests.matching import said_once

Start = Callable[..., Machine[Any]]
REGIONS = (RegionAdded(EU), RegionAdded(US))
FIRST = 3
"""Sequence of the first award."""
W1, W2, W3 = WorkloadId("w-1"), WorkloadId("w-2"), WorkloadId("w-3")


def a_store(start: Start, *, unknown: tuple[LogName, ...] = ()) -> Machine[Any]:
    """Worker `w0` with nodes 0 to 3 of 8 GPUs each has joined, and the queue's log shows two regions."""
    machine = start(PlacementStore(EU), unknown=unknown)
    if GLOBAL_LOG not in unknown:
        machine.fact(GLOBAL_LOG, *REGIONS)
    machine.hear(RecordJoin(EU, an_inventory()))
    return machine


def award(machine: Machine[Any], workload: str = "w-1", epoch: int = 1, region: RegionName = EU) -> int:
    """The queue's log shows this award standing. Returns its sequence."""
    return machine.fact(GLOBAL_LOG, WorkloadAwarded(WorkloadId(workload), epoch, region, 0, ()))


def close(machine: Machine[Any], workload: str = "w-1", epoch: int = 1) -> int:
    """The queue's log shows that the attempt is closed."""
    closed = AttemptClosed(WorkloadId(workload), epoch, EndCause.PREEMPTED, Phase.PENDING, EU, 1)
    return machine.fact(GLOBAL_LOG, closed)


def give_back(machine: Machine[Any], workload: str = "w-1", epoch: int = 1) -> int:
    """The queue's log shows that the award was returned."""
    return machine.fact(GLOBAL_LOG, AwardReturned(WorkloadId(workload), epoch, "", EU, 1))


def claim(machine: Machine[Any], made: Claim) -> Decision:
    """An agent claims."""
    return machine.hear(SubmitClaim(EU, made))


def place(
    machine: Machine[Any], workload: str = "w-1", placed: dict[int, int] | None = None, **parts: Any
) -> Claim:  # Any: parts of a claim
    """It is awarded, and granted exactly this."""
    made = a_claim(workload, placed=placed, award_sequence=award(machine, workload), **parts)
    assert "granted" == verdict(claim(machine, made))
    return made


def promise(
    machine: Machine[Any],
    workload: str,
    placed: dict[int, int],
    victims: tuple[AttemptKey, ...],
    priority: int = 5,
) -> Claim:
    """It is awarded, and promised this."""
    made = a_claim(
        workload, placed=placed, victims=victims, priority=priority, award_sequence=award(machine, workload)
    )
    assert "promised" == verdict(claim(machine, made))
    return made


def answer(decision: Decision) -> ClaimAnswered:
    """What the agent hears."""
    return said_once(decision, ClaimAnswered)


def verdict(decision: Decision) -> str:
    """The word of it that counts."""
    return answer(decision).verdict


def refusal(decision: Decision) -> tuple[str, str]:
    """The verdict and the reason."""
    told = answer(decision)
    return told.verdict, told.reason


def stop(
    machine: Machine[Any], workload: str = "w-1", cause: EndCause = EndCause.CANCELLED, by: str = ""
) -> Decision:
    """It must end."""
    return machine.hear(OrderStop(EU, *attempt(workload), cause, WorkloadId(by)))


def end(machine: Machine[Any], workload: str = "w-1", cause: EndCause = EndCause.COMPLETED) -> Decision:
    """No node runs any of it."""
    return machine.hear(RecordEnd(EU, *attempt(workload), cause))


def decline(
    machine: Machine[Any],
    workload: str = "w-1",
    epoch: int = 1,
    *,
    reason: Reason = Reason.NO_CAPACITY,
    sequence: int = FIRST,
) -> Decision:
    """The region will not start it."""
    return machine.hear(DeclineAward(EU, WorkloadId(workload), epoch, sequence, reason))
