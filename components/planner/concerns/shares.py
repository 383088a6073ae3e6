"""Shares of shared pools: solved when jobs, speeds, settings or open GPUs have changed. There is one key, `ALL_SHARES`.

The shares are sent to the queue. Without a solver the queue gives each job an equal part. A policy that reads the steps or the age of a
job is solved again before each round begins, as these change with time.
"""

from msgspec import Struct
from msgspec.structs import replace

from components.planner.loop import Found, LookAgain
from components.planner.state import Pace, PlannerState, Problem, Rows
from core.codec import encode
from core.events.sharing import PolicySet, SharesSet
from core.fact import Fact
from core.messages.sharing import SetShares
from core.nouns.ids import LogName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.limits import (
    MESSAGE_BYTES_MAX,
    MESSAGE_BYTES_SPARE,
    SHARES_AHEAD,
    SHARES_LOOK,
    SHARES_RETRY,
    SHARES_RETRY_MAX,
    SHARES_SAID_MAX,
    SHARES_SPAN,
)
from core.nouns.sharing import PoolShares, ShareColumn
from core.rules.expected_steps import expected_steps
from core.rules.shared_pools import CanRun, asked_of, open_gpus, widest_nodes
from core.sharing.policies import POLICIES
from core.sharing.problem import BadProblem

ALL_SHARES = ""


class SharesBasis(Struct, frozen=True):
    """The policy of a problem, and how far the queue's log was read for it."""

    policy: str
    sequence: int


class Sharing:
    """The concern for shares."""

    name = "shares"
    pace = Pace(SHARES_SPAN, SHARES_RETRY, SHARES_RETRY_MAX, SHARES_SAID_MAX, settle=SHARES_LOOK)
    of_queue: tuple[str, ...] = ("history", "sharing", "tenants")
    of_regions: tuple[str, ...] = ("attempts", "capacity")
    unrecorded = "the queue does not record the shares that were solved"

    def adopted(self, rows: Rows, log: LogName, at: Instant) -> None:
        """Begin again, whichever log it is: GPUs of every region are shared."""
        rows.begin(ALL_SHARES, at)

    def follow(self, state: PlannerState, rows: Rows, fact: Fact, at: Instant) -> None:
        """Note that shares were recorded, and that any fact may have changed a job, a setting or an open GPU."""
        if isinstance(fact.event, PolicySet):
            rows.forgive(ALL_SHARES)
        if isinstance(fact.event, SharesSet) and not fact.event.is_more:
            rows.recorded(ALL_SHARES)
        if state.queue.sharing.jobs:
            rows.moved(ALL_SHARES, at)

    def look(self, state: PlannerState, key: str, now: Instant) -> Found:
        """Return the sharing problem, if the shares are old."""
        columns = columns_of(state)
        if not _is_old(state, columns, now):
            return LookAgain(_next_look(state, now))
        sharing = state.queue.sharing
        expected = expected_steps(sharing, state.queue.history)
        try:
            asked = asked_of(
                sharing, columns, now, state.queue.tenants, expected, _can_run(state), _saved(state)
            )
        except BadProblem as error:
            return str(error)
        if asked is None:
            return LookAgain()
        return Problem(asked.revision, asked, SharesBasis(asked.policy, state.queue_sequence))

    def is_outdated(self, state: PlannerState, key: str, problem: Problem) -> bool:
        """Return whether the policy was replaced: shares of the old one are never told as those of the new one."""
        assert isinstance(problem.basis, SharesBasis), problem
        return problem.basis.policy != state.queue.sharing.settings.policy

    def command(self, state: PlannerState, key: str, problem: Problem, answer: Struct) -> Found:
        """Return the command to the queue."""
        assert isinstance(answer, PoolShares), problem
        assert isinstance(problem.basis, SharesBasis), problem
        shares = replace(answer, revision=problem.revision + 1)
        command = SetShares(shares, problem.basis.policy, problem.basis.sequence)
        if len(encode(command)) > MESSAGE_BYTES_MAX - MESSAGE_BYTES_SPARE:
            return f"shares of {len(shares.classes)} classes are too large for a message: give jobs fewer different models, weights and types"
        return (command,)


def columns_of(state: PlannerState) -> dict[ShareColumn, int]:
    """Return the open GPUs of each column of the shared pools of regions that are heard."""
    return {
        ShareColumn(region, node_type): gpus
        for region, image in sorted(state.regions.items())
        if not state.silent.get(region, False)
        for node_type, gpus in open_gpus(image.capacity).items()
    }


def _saved(state: PlannerState) -> dict[WorkloadId, int]:
    """Return the newest checkpoint's step of each job of a shared pool, also of those that run on from round to round."""
    found: dict[WorkloadId, int] = {}
    for image in state.regions.values():
        for workload in state.queue.sharing.jobs:
            for row in image.attempts.rows.get(workload, {}).values():
                found[workload] = max(found.get(workload, 0), row.saved_step)
    return found


def _can_run(state: PlannerState) -> CanRun:
    """Return whether a node of a column is as wide as a task of a class."""
    widest = {
        ShareColumn(region, node_type): gpus
        for region, image in state.regions.items()
        for node_type, gpus in widest_nodes(image.capacity).items()
    }
    classes = state.queue.sharing.classes
    return lambda kind, column: classes[kind].gpus <= classes[kind].tasks * widest.get(column, 0)


def _is_old(state: PlannerState, columns: dict[ShareColumn, int], now: Instant) -> bool:
    """Return whether something has changed since the newest shares, or if time changes them, whether a round is about to begin."""
    sharing = state.queue.sharing
    if not sharing.jobs:
        return False
    known = sharing.shares
    there = {column: gpus for column, gpus in columns.items() if gpus}
    told = {column: gpus for column, gpus in zip(known.columns, known.gpus, strict=True) if gpus}
    if known.changes != sharing.changes or there != told or sharing.policy != sharing.settings.policy:
        return True
    return _reads_time(state) and sharing.solved_in < sharing.number and now >= _before_round(state)


def _reads_time(state: PlannerState) -> bool:
    policy = state.queue.sharing.settings.policy
    return policy not in POLICIES or POLICIES[policy].is_by_job


def _before_round(state: PlannerState) -> Instant:
    """Return when to solve, so that the shares are there when the next round begins."""
    sharing = state.queue.sharing
    span = sharing.settings.round_span
    return Instant((sharing.number + 1) * span - min(SHARES_AHEAD, span // 4))


def _next_look(state: PlannerState, now: Instant) -> Instant | None:
    if not _reads_time(state) or not state.queue.sharing.jobs:
        return None
    before = _before_round(state)
    return before if before > now else None  # Else the next round's begin is looked at.
