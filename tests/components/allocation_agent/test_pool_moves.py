"""Nodes that come into another pool: the agent's next search is of the nodes that each pool has then."""

# rows: M23

from core.events.pools import NodesPooled
from core.messages.agents import FindBid
from core.messages.broker import SolicitBid
from core.nouns.ids import WorkloadId
from core.nouns.reasons import Reason
from core.nouns.workload import Kind
from tests.builders import EU, EU_LOG, a_claim, a_job, granted
from tests.components.allocation_agent.test_partitions import node_of
from tests.components.allocation_agent.test_pools import A0, an_agent, ask, nodes_bid, reason_of
from tests.components.support.by_rows import ask as ask_in_turn
from tests.components.support.by_rows import by_rows, turn
from tests.components.support.placement_store import Start


def test_moved_nodes_are_searched_from_the_next_request_on(start: Start) -> None:
    """M23: within the one fact, for work that their new pool takes, and no more for other work."""
    machine = an_agent(start, granted(a_claim("w-9", placed={0: 8})))
    machine.fact(EU_LOG, NodesPooled(((1, 2),), "service"))
    assert {3} == nodes_bid(ask(machine, a_job(1, 8)))
    assert Reason.OPEN_BIDS == reason_of(ask(machine, a_job(1, 8), workload="w-2"))
    request = SolicitBid(EU, WorkloadId("w-3"), "auction of w-3", (a_job(2, 8),), 3, Kind.SERVICE)
    assert {1, 2} == nodes_bid(machine.hear(FindBid(EU, A0, request)))


def test_gang_does_not_span_pools(start: Start) -> None:
    """Nodes that were given away leave the pool too small for it; once they are back it fits."""
    machine = an_agent(start)
    machine.fact(EU_LOG, NodesPooled(((2, 2),), "service"))
    assert Reason.NO_SUCH_HARDWARE == reason_of(ask(machine, a_job(4, 8)))
    machine.fact(EU_LOG, NodesPooled(((2, 2),), "training"))
    assert {0, 1, 2, 3} == nodes_bid(ask(machine, a_job(4, 8), workload="w-2"))


def test_agent_that_takes_in_rows_alone_hears_of_pools_at_once(start: Start) -> None:
    """M23: no partition is searched by the pools that were before."""
    machine = by_rows(start)
    machine.fact(EU_LOG, NodesPooled(((0, 6),), "service"))
    assert 7 == node_of(ask_in_turn(machine, a_job(1, 8), workload="w-1", turn=turn(0)))
    assert {"service", "training"} == set(machine.state.placer.pools.by_name)
