"""The planner's concern for pools: when a region is planned, from what, and that its store hears of the plan until its log shows it."""

# rows: M24

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from components.placement_store.component import PlacementStore
from components.planner.component import Planner
from core.effects import Solve
from core.events.control import NodesClosed, NodesOpened
from core.events.pools import PoolChanged, PoolingPolicySet, PoolsPlanned
from core.events.queue import NotedRefusal, RefusalsNoted, RefusedShape, RegionAdded
from core.events.region import NodesLost, NodesReturned
from core.fact import Event
from core.messages.planning import ConcernShown, ShowConcern
from core.messages.pools import SetPool, SetPoolingPolicy, SetPoolsPlan
from core.messages.solving import Solved, Unsolved
from core.messages.store import RecordJoin
from core.nouns.fleet import Inventory
from core.nouns.ids import GLOBAL_LOG, WorkerName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import (
    COMMAND_SAY_AGAIN,
    POOLS_EVERY,
    POOLS_LOOK,
    POOLS_PATIENCE,
    POOLS_RETRY,
    POOLS_SETTLE,
)
from core.nouns.maintenance import ClosureKind, Scope, ScopeKind
from core.nouns.pool import PoolSettings, Survives
from core.nouns.pooling import MoveReason, PoolingPolicy
from core.nouns.reasons import Reason
from core.pooling.moving import pools_by_node
from core.pooling.problem import PoolingProblem
from runtime.planning.concerns import solved_at_once
from tests.builders import EU, EU_LOG, a_claim, an_inventory, granted
from tests.components.support.machine import Machine
from tests.matching import said, said_once

Start = Callable[..., Machine[Any]]  # Any: a component's state
SOON = Nanoseconds(POOLS_LOOK + POOLS_SETTLE)
DOMAINS = ("north", "south", "west")


class Planning:
    """A planner and a store of one region: three power domains of four nodes with 8 GPUs each, in racks of two; the first of each is in `free`."""

    def __init__(self, start: Start, policy: PoolingPolicy | None = None) -> None:
        self.store = start(PlacementStore(EU))
        self.store.fact(GLOBAL_LOG, RegionAdded(EU))
        for number, domain in enumerate(DOMAINS):
            (group,) = an_inventory("", 4 * number, 4).groups
            groups = tuple(
                replace(part, power_domain=domain)
                for part in (group.part(4 * number, 1, "free"), group.part(4 * number + 1, 3, "training"))
            )
            groups = tuple(
                replace(part, into_rack=0, nodes_per_rack=1, rack_first=part.first) for part in groups
            )
            self.store.hear(RecordJoin(EU, Inventory(WorkerName(f"w{number}"), groups)))
        self.store.hear(SetPoolingPolicy(EU, policy or PoolingPolicy(at_once=1_000), 0))
        self.machine = start(Planner((EU,)))
        self._told = 0
        self.follow()

    def follow(self) -> None:
        """The planner hears what the store has recorded."""
        news = self.store.logs[EU_LOG][self._told :]
        self._told += len(news)
        for fact in news:
            assert isinstance(fact.event, Event)
            self.machine.fact(EU_LOG, fact.event)

    def happen(self, *events: Event) -> None:
        """The region's log goes on."""
        self.store.now = self.machine.now
        self.store.fact(EU_LOG, *events)
        self.follow()

    def need(self, pool: str, gpus: int, survives: Survives = Survives.POWER_DOMAIN) -> None:
        """An operator states it."""
        revision = self.store.state.image.pools.revision
        self.store.now = self.machine.now
        self.store.hear(SetPool(EU, pool, PoolSettings(needs=(("H100", gpus),), survives=survives), revision))
        self.follow()

    def asked(self, span: Nanoseconds = SOON) -> list[Solve]:
        """Return what the solver is asked meanwhile."""
        return [
            one
            for one in self.machine.wait(span).effects
            if isinstance(one, Solve) and one.concern == "pools"
        ]

    def answer(self, asked: Solve) -> list[SetPoolsPlan]:
        """The real solver answers; return the command that follows."""
        answer = solved_at_once(asked)
        assert isinstance(answer, Solved), answer
        return said(self.machine.hear(answer), SetPoolsPlan)

    def planned(self, span: Nanoseconds = SOON) -> SetPoolsPlan:
        """A plan is asked for, made, recorded and applied."""
        (asked,) = self.asked(span)
        (command,) = self.answer(asked)
        self.record(command)
        return command

    def record(self, command: SetPoolsPlan) -> None:
        """The store hears a plan."""
        self.store.now = self.machine.now
        self.store.hear(command)
        self.follow()

    @property
    def pools(self) -> str:
        """The first letter of each node's pool, as the store has it."""
        return "".join(pool[0] for pool in pools_by_node(self.store.state.image.capacity))

    def status(self) -> ConcernShown:
        """As operators are told."""
        return said_once(self.machine.hear(ShowConcern("pools", EU)), ConcernShown)


def test_without_needs_nothing_is_asked(start: Start) -> None:
    """However long, and whatever happens."""
    planning = Planning(start)
    planning.happen(NodesLost(WorkerName("w0"), (0, 1, 2, 3)))
    assert [] == planning.asked(POOLS_EVERY)


def test_need_is_planned_and_nodes_follow(start: Start) -> None:
    """M24: soon, from counts; nodes of `free` come first, and the plan says what each pool has then."""
    planning = Planning(start)
    planning.need("training", 72)
    (asked,) = planning.asked()
    problem = asked.problem
    assert isinstance(problem, PoolingProblem)
    assert (("free", "training"), ((0,), (72,))) == (problem.pools, problem.needs)
    assert 12 == sum(one.count for one in problem.classes)
    (command,) = planning.answer(asked)
    plan = command.plan
    assert (1, MoveReason.NEED, 3) == (plan.number, plan.why, plan.nodes)
    (standing,) = plan.standings
    assert (72, 96, 64, 8) == (standing.needs, standing.has, standing.left, standing.short)
    for _ in range(2):
        assert command == said_once(planning.machine.wait(COMMAND_SAY_AGAIN), SetPoolsPlan)
    planning.record(command)
    assert "t" * 12 == planning.pools
    assert [] == said(planning.machine.wait(seconds(60)), SetPoolsPlan)


def test_plan_that_holds_is_made_again_after_half_an_hour(start: Start) -> None:
    """M24: on a timer, and not before."""
    planning = Planning(start)
    planning.need("training", 48)
    planning.planned()
    assert [] == planning.asked(Nanoseconds(POOLS_EVERY - seconds(60)))
    assert MoveReason.TIME is planning.planned(seconds(61)).plan.why


def test_failed_nodes_are_replaced_from_free_within_a_minute(start: Start) -> None:
    """The pool has what it needs again; nodes that come back are one more change."""
    planning = Planning(start)
    planning.need("training", 72, Survives.NOTHING)
    assert 0 == planning.planned().plan.nodes
    planning.happen(NodesClosed("quarantine", ClosureKind.QUARANTINE, ((1, 1), (5, 5)), "ill"))
    command = planning.planned(seconds(60))
    assert (MoveReason.HARDWARE, [("free", "training", 2)]) == (
        command.plan.why,
        [(move.pool_from, move.pool_to, command.plan.nodes) for move in command.plan.moves],
    )
    assert 1 == planning.pools.count("f")


def test_lost_domain_is_survived_with_what_is_left(start: Start) -> None:
    """Nodes of a lost domain count for no pool; once they are back the need survives the next loss again."""
    planning = Planning(start)
    planning.need("service", 16)
    planning.planned()
    assert 16 <= gpus_without(planning, "s", 0)
    planning.happen(NodesLost(WorkerName("w0"), (0, 1, 2, 3)))
    command = planning.planned()
    (standing,) = command.plan.standings
    assert 0 == standing.short
    planning.happen(NodesReturned(WorkerName("w0"), (0, 1, 2, 3)))
    assert MoveReason.HARDWARE is planning.planned().plan.why


def gpus_without(planning: Planning, pool: str, domain: int) -> int:
    """Return the GPUs that a pool has outside a domain."""
    return sum(8 for node, name in enumerate(planning.pools) if name == pool and node // 4 != domain)


def test_nodes_in_use_count_where_they_go(start: Start) -> None:
    """An applied plan that waits for work to leave is not made again."""
    planning = Planning(start)
    claims = [granted(a_claim(f"w-{node}", placed={node: 8})) for node in range(12)]
    planning.happen(*claims)
    planning.need("service", 8, Survives.NOTHING)
    command = planning.planned()
    assert (1, 1) == (command.plan.nodes, sum(move.in_use for move in command.plan.moves))
    assert [] == planning.asked(seconds(600))


def test_refused_work_brings_idle_nodes(start: Start) -> None:
    """The feedback: ten minutes of refusals for room, while another pool's nodes are idle and beyond its need."""
    planning = Planning(start)
    planning.happen(*(granted(a_claim(f"w-{node}", placed={node: 8})) for node in range(12) if node % 4))
    planning.need("free", 8, Survives.NOTHING)
    planning.planned()
    refused(planning)
    assert [] == planning.asked(Nanoseconds(POOLS_PATIENCE - seconds(1)))
    command = planning.planned(seconds(30))
    assert (MoveReason.WORK, (("training", "H100"),)) == (command.plan.why, command.plan.basis.wants)
    assert (2, 1) == (command.plan.nodes, planning.pools.count("f"))
    assert [] == planning.asked(seconds(600))


def refused(planning: Planning, reason: Reason = Reason.NO_CAPACITY, kind: str = "training") -> None:
    """Two gangs of two nodes each are refused from now on."""
    shape = RefusedShape(
        "r", "s", a_claim().workload, (NotedRefusal(EU, reason, Nanoseconds(0)),), kind, ("H100",), 32_000
    )
    planning.machine.fact(GLOBAL_LOG, RefusalsNoted((shape,)))


@pytest.mark.parametrize(
    ("reason", "kind"),
    [(Reason.NO_DATA, "training"), (Reason.NO_CAPACITY, "shared"), (Reason.NO_CAPACITY, "")],
)
def test_other_refusals_move_nothing(start: Start, reason: Reason, kind: str) -> None:
    """What more nodes would not end, of a pool that the region has not, or as an older queue noted it."""
    planning = Planning(start)
    planning.need("free", 8, Survives.NOTHING)
    planning.planned()
    refused(planning, reason, kind)
    assert [] == planning.asked(Nanoseconds(POOLS_EVERY - seconds(60)))


def test_need_that_changes_meanwhile_drops_the_answer(start: Start) -> None:
    """It rests on older needs; the new ones are solved at once."""
    planning = Planning(start)
    planning.need("training", 72)
    (asked,) = planning.asked()
    planning.need("training", 48)
    assert [] == planning.answer(asked)
    (again,) = planning.asked()
    assert isinstance(again.problem, PoolingProblem)
    assert ((0,), (48,)) == again.problem.needs


def test_nodes_that_are_lost_meanwhile_do_not_move(start: Start) -> None:
    """What is left of the answer is applied, and another plan makes up for the rest."""
    planning = Planning(start)
    planning.need("training", 96, Survives.NOTHING)
    (asked,) = planning.asked()
    planning.happen(NodesLost(WorkerName("w0"), (0, 1, 2, 3)))
    (command,) = planning.answer(asked)
    assert [("free", "training", ((4, 4), (8, 8)))] == [
        (move.pool_from, move.pool_to, move.nodes) for move in command.plan.moves
    ]
    planning.record(command)
    assert MoveReason.HARDWARE is planning.planned().plan.why


def test_solver_that_fails_leaves_what_is(start: Start) -> None:
    """It is asked again later, and says why it failed."""
    planning = Planning(start)
    planning.need("training", 72)
    (asked,) = planning.asked()
    planning.machine.hear(Unsolved("pools", EU, asked.revision, "out of memory"))
    assert ("out of memory", 1) == (planning.status().why, planning.status().failures)
    assert "ftttftttfttt" == planning.pools
    assert 1 == len(planning.asked(POOLS_RETRY))


def test_plan_by_hand_waits_to_be_applied(start: Start) -> None:
    """It is not made again meanwhile, but for hardware that changes."""
    planning = Planning(start, PoolingPolicy(is_automatic=False, at_once=1_000))
    planning.need("training", 72)
    planning.planned()
    assert "ftttftttfttt" == planning.pools
    assert [] == planning.asked(seconds(600))
    planning.happen(NodesClosed("d-1", ClosureKind.DRAIN, ((1, 1),), "fan"))
    assert MoveReason.HARDWARE is planning.planned().plan.why


def test_next_plan_follows_where_one_may_not_move_enough(start: Start) -> None:
    """A tenth of twelve nodes is one: three plans, one after the other, bring what is needed."""
    planning = Planning(start, PoolingPolicy())
    planning.need("training", 96, Survives.NOTHING)
    moved = [planning.planned().plan for _ in range(3)]
    assert ([1, 1, 1], [True, True, False]) == (
        [plan.nodes for plan in moved],
        [plan.is_bounded for plan in moved],
    )
    assert "t" * 12 == planning.pools
    assert [] == planning.asked(seconds(600))


def test_needs_that_are_taken_back_call_nodes_back(start: Start) -> None:
    """Those that wait to be vacant take work again; then nothing is planned any more."""
    planning = Planning(start)
    planning.happen(*(granted(a_claim(f"w-{node}", placed={node: 8})) for node in range(12)))
    planning.need("service", 8, Survives.NOTHING)
    planning.planned()
    assert planning.store.state.image.capacity.closures
    planning.store.hear(SetPool(EU, "service", PoolSettings(), planning.store.state.image.pools.revision))
    planning.follow()
    assert 0 == planning.planned().plan.nodes
    assert {} == planning.store.state.image.capacity.closures
    assert [] == planning.asked(POOLS_EVERY)


def test_two_planners_make_one_plan(start: Start) -> None:
    """The store records the first; the other's is superseded, and forgotten once the log shows the first."""
    planning = Planning(start)
    planning.need("training", 72)
    (asked,) = planning.asked()
    (command,) = planning.answer(asked)
    planning.record(command)
    before = planning.store.sequence(EU_LOG)
    planning.record(command)
    assert before == planning.store.sequence(EU_LOG)
    assert 1 == len([fact for fact in planning.store.logs[EU_LOG] if isinstance(fact.event, PoolsPlanned)])


def test_facts_of_settings_are_the_stores(start: Start) -> None:
    """What the planner plans by is what the log says."""
    planning = Planning(start)
    planning.need("training", 72)
    assert [PoolingPolicySet, PoolChanged] == [
        type(fact.event)
        for fact in planning.store.logs[EU_LOG]
        if isinstance(fact.event, PoolingPolicySet | PoolChanged)
    ]
    assert planning.machine.state.regions[EU].pools == planning.store.state.image.pools


def test_nodes_that_came_into_use_meanwhile_are_made_up_for(start: Start) -> None:
    """The plan moves those that are left, and the next follows at once: a shortage that need not be does not last for half an hour."""
    planning = Planning(start)
    planning.need("training", 80, Survives.NOTHING)
    (asked,) = planning.asked()
    planning.happen(granted(a_claim("w-9", placed={0: 8})))
    (command,) = planning.answer(asked)
    planning.record(command)
    assert 0 == command.plan.nodes or "" != command.plan.after
    while planning.pools.count("t") < 10:
        planning.planned()
    assert [] == planning.asked(seconds(600))


def test_needs_that_are_all_taken_back_move_nothing(start: Start) -> None:
    """However much work is refused for room while other pools' nodes are idle."""
    planning = Planning(start)
    planning.happen(*(granted(a_claim(f"w-{node}", placed={node: 8})) for node in range(12) if node % 4))
    planning.need("service", 8, Survives.NOTHING)
    planning.planned()
    refused(planning)
    planning.machine.wait(POOLS_PATIENCE)
    planning.store.now = planning.machine.now
    planning.store.hear(SetPool(EU, "service", PoolSettings(), planning.store.state.image.pools.revision))
    planning.follow()
    before = planning.pools
    for asked in planning.asked(seconds(60)):
        for command in planning.answer(asked):
            planning.record(command)
    assert before == planning.pools
    assert [] == planning.asked(POOLS_EVERY)


@pytest.mark.parametrize(
    "is_lifted", [False, True], ids=["stays drained", "is opened while the solver works"]
)
def test_nodes_that_go_to_a_pool_that_is_drained_whole_may_go_elsewhere(
    start: Start, *, is_lifted: bool
) -> None:
    """They count where they are; what happens to the drains meanwhile changes nothing of that."""
    planning = Planning(start)
    planning.happen(*(granted(a_claim(f"w-{node}", placed={node: 8})) for node in range(12)))
    planning.need("service", 88, Survives.NOTHING)
    planning.planned()
    whole = Scope(ScopeKind.POOL, ("service",))
    planning.happen(NodesClosed("d-9", ClosureKind.DRAIN, (), "all of it", scope=whole))
    planning.store.hear(SetPool(EU, "service", PoolSettings(), planning.store.state.image.pools.revision))
    planning.follow()
    planning.need("harvest", 96, Survives.NOTHING)
    (asked,) = planning.asked()
    closures = planning.store.state.image.capacity.closures
    for name, closure in [(name, one) for name, one in closures.items() if one.pool and is_lifted]:
        planning.happen(NodesOpened(name, ClosureKind.DRAIN, closure.nodes, "its time is over"))
    (command,) = planning.answer(asked)
    assert 12 == command.plan.nodes
