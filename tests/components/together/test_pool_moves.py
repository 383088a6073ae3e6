"""Nodes in use come into another pool: what is on them is asked, leaves or stays, and the nodes follow in few facts."""

from msgspec.structs import replace

from core.events.control import NodesClosed, NodesOpened, OperationsBegun, OperationsDone
from core.events.pools import NodesPooled
from core.events.region import AttemptEnded, StopOrdered
from core.messages.pools import SetPoolingPolicy, SetPoolsPlan
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import POOL_DRAIN_SPAN
from core.nouns.operation import Outcome
from core.nouns.placement import Claim, numbers_in
from core.nouns.pooling import PoolingPolicy
from core.nouns.workload import EndCause
from core.pooling.moving import pools_by_node
from core.rules.disruption_budget import POOLS
from tests.builders import EU, a_claim
from tests.components.support.pool_plans import a_plan
from tests.components.support.region import CONTROLLED, SERVICE, Region, Start, agrees, region_that_runs


def a_region(start: Start, *claims: Claim) -> Region:
    """They run, and any number of nodes may move at once."""
    region = region_that_runs(start, *claims)
    region.hear(SetPoolingPolicy(EU, PoolingPolicy(at_once=1_000), 0, "olga"))
    return region


def plan(region: Region, *nodes: int, pool: str = "free") -> None:
    """A planner wants these nodes in a pool."""
    region.hear(SetPoolsPlan(EU, a_plan(region.store, dict.fromkeys(nodes, pool)), "planner"))


def pools(region: Region) -> str:
    """The first letter of each node's pool."""
    return "".join(pool[0] for pool in pools_by_node(region.store.state.image.capacity))


def test_tasks_that_agree_move_and_their_nodes_follow(start: Start) -> None:
    """They count against a budget of their own, and find their places in the pool that they are in."""
    region = a_region(start, SERVICE)
    region.controller = agrees
    plan(region, 0, 1)
    region.until(lambda: pools(region) == "fftttt", seconds(120))
    assert {POOLS} == {begun.requester for begun in region.recorded(OperationsBegun)}
    assert 2 == sum(begun.charged for begun in region.recorded(OperationsBegun))
    assert set(region.nodes().values()) <= {2, 3, 4, 5}
    assert {} == region.store.state.image.capacity.closures
    assert [] == region.doubles()


def test_gang_ends_as_moved(start: Start) -> None:
    """It goes back to the queue, which places it anew; the node follows once it is vacant."""
    region = a_region(start, replace(a_claim("w-1", placed={0: 1, 2: 1}, gpus=2), control=CONTROLLED))
    region.controller = agrees
    plan(region, 0)
    region.until(lambda: pools(region) == "fttttt", seconds(120))
    assert [EndCause.MOVED] == [one.cause for one in region.recorded(StopOrdered)]


def test_what_does_not_agree_stays(start: Start) -> None:
    """Nothing is forced: after half an hour its node takes work again, and the request is withdrawn."""
    region = a_region(start, SERVICE)
    plan(region, 0)
    region.wait(Nanoseconds(POOL_DRAIN_SPAN + seconds(30)))
    assert "tttttt" == pools(region)
    (opened,) = region.recorded(NodesOpened)
    assert "its time is over" == opened.reason
    assert Outcome.WITHDRAWN in [one.outcome for one in region.recorded(OperationsDone)]
    assert [] == region.recorded(OperationsBegun)


def test_nodes_that_are_vacant_together_move_in_one_fact(start: Start) -> None:
    """Each such fact makes every agent lay out the region anew."""
    claims = [a_claim(f"w-{node + 1}", placed={node: 1}, gpus=2) for node in range(4)]
    region = a_region(start, *claims)
    plan(region, 0, 1, 2, 3)
    assert 1 == len(region.recorded(NodesClosed))
    region.until(lambda: pools(region) == "fffftt", seconds(120))
    assert 4 == len(region.recorded(AttemptEnded))
    moved = [numbers_in(fact.nodes) for fact in region.recorded(NodesPooled)]
    assert (1, 4) == (len(moved), sum(map(len, moved)))


def test_task_control_that_starts_again_goes_on(start: Start) -> None:
    """What is to be lifted follows from the log."""
    region = a_region(start, a_claim("w-1", placed={0: 1}, gpus=2))
    plan(region, 0)
    region.restart("control")
    region.until(lambda: pools(region) == "fttttt", seconds(120))
