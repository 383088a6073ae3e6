"""Plans of which nodes belong to which pool: a key is a region.

A region with needs is planned when a need, its hardware or a power domain changed, when work of a pool was refused for room for ten minutes while
other pools had idle nodes, and every half hour (core/pooling/feedback.py). The plan is sent to the region's store, which begins its moves. The
answer is in counts; nodes are chosen in the region as it is when the answer comes.
"""

from msgspec import Struct

from components.planner.loop import Found, LookAgain
from components.planner.state import Pace, PlannerState, Problem, RegionSilent, Rows
from core.events.control import DomainLost, NodesClosed, NodesOpened
from core.events.pools import NodesPooled, PoolChanged, PoolingPolicySet, PoolsApplied, PoolsPlanned
from core.events.queue import RefusalsNoted
from core.events.region import NodesJoined, NodesLost, NodesReturned
from core.fact import NO_LOG, Fact
from core.images.refusals import Refusals
from core.messages.pools import SetPoolsPlan
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, region_of
from core.nouns.instant import Instant, after, earliest
from core.nouns.limits import (
    POOLS_EVERY,
    POOLS_LOOK,
    POOLS_RETRY,
    POOLS_RETRY_MAX,
    POOLS_SAID_MAX,
    POOLS_SETTLE,
    POOLS_SPAN,
)
from core.nouns.pooling import MoveReason, PoolsBasis
from core.pooling.choice import chosen, plan_of
from core.pooling.classes import Standing, problem_of, standing_of
from core.pooling.feedback import wanted_in, why_planned
from core.pooling.problem import Pooled, PoolingProblem
from core.rules.pool_needs import moves_max

SETTINGS = (PoolChanged, PoolingPolicySet)
"""Facts that make an answer under way worthless."""
MOVED = (
    NodesJoined,
    NodesLost,
    NodesReturned,
    DomainLost,
    NodesClosed,
    NodesOpened,
    NodesPooled,
    PoolsApplied,
)
"""Other facts after which a plan may be old."""


class PoolsAsked(Struct, frozen=True):
    """The view from which a problem was made."""

    standing: Standing
    why: MoveReason
    basis: PoolsBasis


class Pooling:
    """The concern for pools."""

    name = "pools"
    pace = Pace(
        POOLS_SPAN, POOLS_RETRY, POOLS_RETRY_MAX, POOLS_SAID_MAX, settle=POOLS_SETTLE, between=POOLS_LOOK
    )
    of_queue: tuple[str, ...] = ("refusals",)
    of_regions: tuple[str, ...] = ("capacity", "maintenance", "pools", "starts")
    unrecorded = (
        "the region's store does not record the plan: its nodes or settings may have changed meanwhile"
    )

    def adopted(self, rows: Rows, log: LogName, at: Instant) -> None:
        """Begin a region again, once its nodes have joined; look at all regions once the queue is known."""
        if log == GLOBAL_LOG:
            _all_moved(rows, at)
        else:
            rows.begin(region_of(log), after(at, POOLS_SETTLE))

    def follow(self, state: PlannerState, rows: Rows, fact: Fact, at: Instant) -> None:
        """Note that a plan was recorded, or may be old now."""
        event = fact.event
        if isinstance(event, RefusalsNoted):
            _all_moved(rows, at)
        if fact.log in (GLOBAL_LOG, NO_LOG) or isinstance(event, RegionSilent):
            return
        region = region_of(fact.log)
        if (isinstance(event, PoolsPlanned) and not event.is_more) or isinstance(event, SETTINGS):
            rows.recorded(region)
            rows.moved(region, at)
        elif isinstance(event, MOVED):
            rows.moved(region, at)

    def look(self, state: PlannerState, key: str, now: Instant) -> Found:
        """Return the problem of a region that has needs, if a plan is due."""
        region = RegionName(key)
        image = state.regions[region]
        pools = image.pools
        if not pools.has_needs and not pools.plan.moves:
            return LookAgain()
        standing = standing_of(image)
        refusals = state.queue.refusals if pools.has_needs else Refusals()
        wanted, look_at = wanted_in(region, refusals, standing, now)
        why = why_planned(pools, standing, wanted, now)
        if why is None:
            return LookAgain(earliest(look_at, after(Instant(pools.planned_at), POOLS_EVERY)))
        if not standing.nodes:
            return LookAgain()
        wants = {place: one.gpus for place, one in wanted.items()}
        problem = problem_of(image, standing, wants, moves_max(pools.policy, image))
        basis = PoolsBasis(state.sequences[region], pools.revision, standing.digest, tuple(sorted(wants)))
        return Problem(pools.plan.number, problem, PoolsAsked(standing, why, basis))

    def is_outdated(self, state: PlannerState, key: str, problem: Problem) -> bool:
        """Return whether a setting has changed meanwhile, or another plan was recorded."""
        assert isinstance(problem.basis, PoolsAsked), problem
        pools = state.regions[RegionName(key)].pools
        return pools.plan.number != problem.revision or pools.revision != problem.basis.basis.revision

    def command(self, state: PlannerState, key: str, problem: Problem, answer: Struct) -> Found:
        """Return the command to the region's store, with the nodes that move."""
        region, asked = RegionName(key), problem.basis
        assert isinstance(answer, Pooled), answer
        assert isinstance(asked, PoolsAsked), asked
        assert isinstance(problem.problem, PoolingProblem), problem
        image = state.regions[region]
        choice = chosen(problem.problem, answer, standing_of(image), image.capacity.rack)
        plan = plan_of(
            problem.problem, answer, choice, asked.standing, problem.revision + 1, asked.why, asked.basis
        )
        return (SetPoolsPlan(region, plan, by="planner"),)


def _all_moved(rows: Rows, at: Instant) -> None:
    for region in rows.by_key:
        rows.moved(region, at)
