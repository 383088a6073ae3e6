"""The placement store's records of pools: their settings and needs, and the plans of which nodes move between them."""

from collections.abc import Callable
from itertools import islice

from msgspec.structs import replace

from components.placement_store.node_joins import is_too_large
from components.placement_store.pool_moves import applying
from components.placement_store.state import StoreState
from components.replies import answered, refused
from core.component import Decision
from core.events.control import NodesClosed, NodesOpened
from core.events.pools import NodesPooled, PoolChanged, PoolingPolicySet, PoolsPlanned
from core.fact import Event
from core.images import RegionImage
from core.messages.base import Envelope, Message
from core.messages.pools import (
    ApplyPools,
    PoolAnswered,
    PoolingPolicyAnswered,
    PoolsAnswered,
    SetPool,
    SetPoolingPolicy,
    SetPoolsPlan,
)
from core.nouns.limits import NAME_LENGTH_MAX, RUNS_AT_ONCE_MAX
from core.nouns.placement import Claim, numbers_in, runs_of
from core.nouns.pool import POOLS
from core.nouns.pooling import NodesMove, PoolsPlan
from core.nouns.reasons import Reason
from core.pooling.moving import going_to, misplaced
from core.rules.headroom import Headroom
from core.rules.pool_needs import problems_of_needs, problems_of_plan, problems_of_policy
from core.rules.pool_settings import problems_with, reason_of

RUNS_TOLD_MAX = RUNS_AT_ONCE_MAX // 2
"""Runs of nodes in one fact of a plan: the first has the standings of pools beside them."""
HEARD_OF_POOLS: tuple[type[Message], ...] = (SetPool, SetPoolingPolicy, SetPoolsPlan, ApplyPools)


class PoolRecords:
    """The store's decider for pools."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[StoreState, Envelope], Decision]] = {
            SetPool: self._set,
            SetPoolingPolicy: self._set_policy,
            SetPoolsPlan: self._set_plan,
            ApplyPools: self._apply,
        }

    def _set(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SetPool)
        headroom, pools = headroom_of(state), state.image.pools
        problems = problems_with(message.settings, message.pool, headroom, pools.of(message.pool))
        problems += problems_of_needs(message.settings, message.pool, pools, state.image.capacity)
        problems += _by_problems(message.by)
        known = sorted({*(zone.pool for zone in headroom.zones.values() if zone.nodes), *pools.settings})
        if message.pool not in known and not (message.settings.needs and message.pool in POOLS):
            listed = f"there are {', '.join(known)}" if known else "no node has joined"
            problems.insert(0, f"pool: there is no {message.pool[:NAME_LENGTH_MAX]}; {listed}")
            return refused(Reason.UNKNOWN_PLACE, tuple(problems))
        if problems:
            return refused(reason_of(message.settings), tuple(problems))
        if message.revision != pools.revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {pools.revision} now",))
        if message.settings == pools.of(message.pool):
            return answered(PoolAnswered(message.pool, message.settings, pools.revision))
        changed = PoolChanged(message.pool, message.settings, message.by)
        return answered(PoolAnswered(message.pool, message.settings, pools.revision + 1), changed)

    def _set_policy(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SetPoolingPolicy)
        pools = state.image.pools
        problems = problems_of_policy(message.policy) + _by_problems(message.by)
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        if message.revision != pools.revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {pools.revision} now",))
        if message.policy == pools.policy:
            return answered(PoolingPolicyAnswered(message.policy, pools.revision))
        changed = PoolingPolicySet(message.policy, message.by)
        return answered(PoolingPolicyAnswered(message.policy, pools.revision + 1), changed)

    def _set_plan(self, state: StoreState, envelope: Envelope) -> Decision:
        """Record a plan that follows on the newest one and rests on the present settings, and begin its moves unless operators do."""
        message = envelope.message
        assert isinstance(message, SetPoolsPlan)
        plan, pools = message.plan, state.image.pools
        if plan.number != pools.plan.number + 1:
            return refused(Reason.SUPERSEDED, (f"plan: the newest is {pools.plan.number}",))
        if plan.basis.revision != pools.revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {pools.revision} now",))
        problems = problems_of_plan(plan, state.image, state.sequence) + _by_problems(message.by)
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        stray = list(islice(misplaced(state.image.capacity, plan.moves), 1))
        if stray:
            return refused(Reason.SUPERSEDED, (f"moves: node {stray[0]} is not in that pool now",))
        planned = _told(plan, message.by)
        if any(map(is_too_large, planned)):
            return refused(Reason.TOO_LARGE)
        moves = applying(state.image, plan, message.by) if pools.policy.is_automatic else ()
        return answered(_answer(state.image, plan.number, moves), *planned, *moves)

    def _apply(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, ApplyPools)
        pools = state.image.pools
        problems = _by_problems(message.by)
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        if message.number != pools.plan.number or not message.number:
            newest = f"the newest is {pools.plan.number}" if pools.plan.number else "there is none"
            return refused(Reason.SUPERSEDED, (f"plan: {newest}",))
        if pools.is_applied:
            return answered(_answer(state.image, message.number, ()))
        if pools.plan.basis.revision != pools.revision:
            text = "needs or settings have changed since; a new plan comes within a minute"
            return refused(Reason.SUPERSEDED, (f"plan: {text}",))
        stray = set(misplaced(state.image.capacity, pools.plan.moves))
        plan = replace(pools.plan, moves=_without(pools.plan.moves, stray)) if stray else pools.plan
        moves = applying(state.image, plan, message.by)
        return answered(_answer(state.image, message.number, moves), *moves)


def _by_problems(by: str) -> list[str]:
    return [f"by: {NAME_LENGTH_MAX} characters are the most"] if len(by) > NAME_LENGTH_MAX else []


def _answer(image: RegionImage, number: int, moves: tuple[Event, ...]) -> PoolsAnswered:
    """Return the answer to a message that begins these moves."""
    moved = sum(len(numbers_in(event.nodes)) for event in moves if isinstance(event, NodesPooled))
    waiting = set(going_to(image.capacity))
    for event in moves:
        if isinstance(event, NodesOpened):
            waiting.difference_update(numbers_in(event.nodes))
        elif isinstance(event, NodesClosed):
            waiting.update(numbers_in(event.nodes))
    return PoolsAnswered(number, moved, len(waiting))


def _without(moves: tuple[NodesMove, ...], stray: set[int]) -> tuple[NodesMove, ...]:
    """Return moves without nodes that are in another pool by now."""
    left = [[node for node in numbers_in(move.nodes) if node not in stray] for move in moves]
    return tuple(
        replace(move, nodes=runs_of(nodes)) for move, nodes in zip(moves, left, strict=True) if nodes
    )


def _told(plan: PoolsPlan, by: str) -> list[PoolsPlanned]:
    """Return a plan as facts: as many runs of nodes in each as fit."""
    pieces = [
        replace(move, nodes=move.nodes[at : at + RUNS_TOLD_MAX], in_use=0 if at else move.in_use)
        for move in plan.moves
        for at in range(0, len(move.nodes), RUNS_TOLD_MAX)
    ]
    parts: list[list[NodesMove]] = [[]]
    for piece in pieces:
        if sum(len(one.nodes) for one in parts[-1]) + len(piece.nodes) > RUNS_TOLD_MAX:
            parts.append([])
        parts[-1].append(piece)
    further = [PoolsPlanned(PoolsPlan(plan.number, tuple(part)), is_more=True) for part in parts[1:]]
    return [PoolsPlanned(replace(plan, moves=tuple(parts[0])), by), *further]


def broken_setting(state: StoreState, claim: Claim) -> Reason | None:
    """Return the reason against a claim that fits but would break a setting of one of its pools, if any."""
    pools = state.image.pools
    if not any(one.keeps_something_free for one in pools.settings.values()):
        return None
    return headroom_of(state).broken_by(claim, pools)


def headroom_of(state: StoreState) -> Headroom:
    """Return the memo of free capacity by zone: counted over all nodes at the first call, and updated by each fact from then on."""
    if state.headroom is None:
        state.headroom = Headroom(state.image.capacity)
    return state.headroom
