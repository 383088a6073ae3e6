"""An agent that takes in rows alone, driven by hand."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from components import AllocationAgent
from core.component import Decision
from core.events.agents import AgentsSet
from core.fact import Event
from core.messages.agents import AwardHandedBack, BidSettled, FindBid, PlaceAward, RequestHandedBack
from core.messages.broker import ExecuteAward, SolicitBid
from core.messages.queue import Bid
from core.messages.store import SubmitClaim
from core.nouns.agents import AgentSettings, AgentView, Turn
from core.nouns.ids import AgentName, WorkloadId
from core.nouns.placement import Claim, View
from core.nouns.workload import JobSpec, Kind
from tests.builders import EU, EU_LOG, a_job, joined
from tests.components.support.machine import Machine
from tests.matching import all_of, said

Start = Callable[..., Machine[Any]]  # Any: an agent's state
A0 = AgentName("a0")
FOUR = AgentSettings(view=AgentView.PARSYNC, partitions=4)
"""Four partitions: of eight nodes in racks of two, one rack each."""


def turn(number: int = 0, agents: int = 4, index: int = 0) -> Turn:
    """A turn of an agent with partitions."""
    return Turn(index, agents, number, is_full=False)


FIRST = turn()


def by_rows(start: Start, *events: Event, settings: AgentSettings = FOUR, nodes: int = 8) -> Machine[Any]:
    """It knows a region of so many nodes of 8 GPUs, and its first request made it take in rows alone."""
    machine = start(AllocationAgent(EU, A0))
    machine.fact(EU_LOG, joined("w0", 0, nodes), *events, AgentsSet(settings))
    machine.wake()
    ask(machine, a_job(1, 8), workload="w-first", turn=turn())
    settle(machine, "w-first", has_won=False)
    return machine


def settle(machine: Machine[Any], workload: str, *, has_won: bool) -> None:
    """The auction is over."""
    machine.hear(BidSettled(EU, A0, WorkloadId(workload), f"auction of {workload}", has_won))


def ask(
    machine: Machine[Any], *jobs: JobSpec, workload: str = "w-1", turn: Turn = FIRST, **fields: Any
) -> Decision:
    """The broker hands it a request, and it is woken until that is decided."""
    request = SolicitBid(
        EU, WorkloadId(workload), f"auction of {workload}", jobs or (a_job(),), 3, Kind.TRAINING
    )
    heard = machine.hear(FindBid(EU, A0, replace(request, **fields), turn))
    return all_of([heard, machine.wake()])


def award_of(workload: str, *jobs: JobSpec, **fields: Any) -> ExecuteAward:
    """An award for which nobody bid a place."""
    award = ExecuteAward(EU, WorkloadId(workload), 1, 7, 3, Kind.TRAINING, jobs or (a_job(),), A0, ())
    return replace(award, **fields)


def place(machine: Machine[Any], award: ExecuteAward, turn: Turn = FIRST) -> Decision:
    """The broker hands it an award, and it is woken until that is decided."""
    return all_of([machine.hear(PlaceAward(EU, A0, award, turn)), machine.wake()])


def nodes_of(decision: Decision) -> list[dict[int, int]]:
    """Where it bids or claims to place the tasks, by job."""
    words = _choices(decision)
    return [dict(zip(spread.nodes, spread.tasks, strict=True)) for spread in words[0].spreads]


def view_of(decision: Decision) -> View:
    """On which it bids or claims."""
    return _choices(decision)[0].view


def _choices(decision: Decision) -> list[Bid | Claim]:
    """The one bid or claim of a decision."""
    words: list[Bid | Claim] = [*said(decision, Bid), *(one.claim for one in said(decision, SubmitClaim))]
    assert 1 == len(words), words
    return words


def claim_of(decision: Decision) -> Claim:
    """What it claims."""
    (word,) = said(decision, SubmitClaim)
    return word.claim


def is_handed_back(decision: Decision) -> bool:
    """Whether it gave a request or an award back to the broker, and nothing else came of that."""
    back = [*said(decision, RequestHandedBack), *said(decision, AwardHandedBack)]
    assert not back or not [*said(decision, Bid), *said(decision, SubmitClaim)]
    return len(back) == 1
