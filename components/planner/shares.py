"""The planner's loop for shared pools: shares are solved when jobs, speeds, settings or open GPUs have changed.

    old         the solver is asked; the answer arrives as a message
    solved      the shares are sent to the queue, at most SHARES_SAID_MAX times
    failed      the present shares stay; they are solved again later, with longer waits after each failure
    no solver   this process solves no shares; the queue gives each job an equal part

A policy that reads the steps or the age of a job is solved anew before each round begins, as these change with time.
"""

from msgspec.structs import replace

from components.planner.state import PlannerState, SharesRow
from components.replies import answered
from core.codec import encode
from core.component import NOTHING, Decision
from core.effects import SolveShares
from core.events.sharing import PolicySet, SharesSet
from core.fact import Fact, Note
from core.messages.base import LogHeard, LogSilent
from core.messages.sharing import SetShares, SharesShown, SharesSolved, SharesUnsolved
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkloadId, region_of
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import (
    COMMAND_SAY_AGAIN,
    MESSAGE_BYTES_MAX,
    MESSAGE_BYTES_SPARE,
    SHARES_AHEAD,
    SHARES_LOOK,
    SHARES_RETRY,
    SHARES_RETRY_MAX,
    SHARES_SAID_MAX,
    SHARES_SPAN,
)
from core.nouns.sharing import ShareColumn
from core.rules.expected_steps import expected_steps
from core.rules.shared_pools import CanRun, asked_of, open_gpus, widest_nodes
from core.sharing.policies import POLICIES
from core.sharing.problem import BadProblem


class SharesLooked(Note, frozen=True):
    """The shares are not old, or the solver's answer is of a policy that was replaced meanwhile."""

    again_at: Instant | None
    """None: at the next change."""


class PoolSilent(Note, frozen=True):
    """A region's log fell silent, or is heard again."""

    region: RegionName
    is_silent: bool


class SharesAsked(Note, frozen=True):
    """The solver was asked."""

    revision: int
    """Of the shares to be replaced."""
    sequence: int
    """Of the queue's log by then."""
    policy: str


class SharesTold(Note, frozen=True):
    """The solver answered, and the command was sent to the queue."""

    command: SetShares


class SharesToldAgain(Note, frozen=True):
    """The command was sent again, because the queue has not recorded the shares."""


class SharesGivenUp(Note, frozen=True):
    """The solver failed or did not answer, or the queue did not record the shares."""

    why: str
    """A sentence."""
    is_for_good: bool = False
    """True if this process has no solver."""


class Sharing:
    """Deciders and folds for shares."""

    # Folding.

    def fold(self, state: PlannerState, fact: Fact) -> None:
        """Follow a fact, after the image has folded it."""
        row = state.shares
        if isinstance(fact.event, PolicySet) and row.solving < 0 and row.command is None:
            state.shares = SharesRow(look_at=row.look_at if not row.failures else None)
        if isinstance(fact.event, SharesSet) and not fact.event.is_more:
            state.shares = SharesRow()
        if not state.queue.sharing.jobs:
            return
        _look_soon(state, fact.heard_at)

    def note(self, state: PlannerState, fact: Fact) -> None:
        """Fold a note about shares; ignore others."""
        row = state.shares
        match fact.event:
            case SharesLooked(again_at):
                row.solving, row.look_at, row.failures = -1, again_at, 0
            case PoolSilent(region, is_silent):
                state.silent[region] = is_silent
                _look_soon(state, fact.at)
            case SharesAsked(revision, sequence, policy):
                row.solving, row.sequence, row.policy = revision, sequence, policy
                row.look_at = after(fact.at, SHARES_SPAN)
            case SharesTold(command):
                row.solving, row.command, row.said = -1, command, 1
                row.look_at = after(fact.at, COMMAND_SAY_AGAIN)
            case SharesToldAgain():
                row.said += 1
                row.look_at = after(fact.at, COMMAND_SAY_AGAIN)
            case SharesGivenUp(why, is_for_good):
                wait = Nanoseconds(min(SHARES_RETRY << row.failures, SHARES_RETRY_MAX))
                failures = min(row.failures + 1, 32)
                state.shares = SharesRow(failures=failures, why=why, look_at=after(fact.at, wait))
                state.has_solver = not is_for_good

    def adopt(self, state: PlannerState, at: Instant) -> None:
        """Follow an image that was adopted: a request under way may be of another history."""
        state.shares = SharesRow(look_at=at)

    def due(self, state: PlannerState) -> Instant | None:
        """Return the time of the next look; None without a solver."""
        return state.shares.look_at if state.has_solver else None

    # Deciding.

    def woken(self, state: PlannerState, now: Instant) -> Decision:
        """Look at the shares, if that is due."""
        row = state.shares
        if row.look_at is None or row.look_at > now:
            return NOTHING
        if row.command is not None and row.said < SHARES_SAID_MAX:
            return Decision((SharesToldAgain(),), (row.command,))
        if row.command is not None:
            return Decision((SharesGivenUp("the queue does not record the shares that were solved"),))
        if row.solving >= 0:
            return Decision((SharesGivenUp("the solver does not answer"),))
        columns = columns_of(state)
        if not _is_old(state, columns, now):
            return Decision((SharesLooked(_next_look(state, now)),))
        sharing = state.queue.sharing
        expected = expected_steps(sharing, state.queue.history)
        try:
            asked = asked_of(
                sharing, columns, now, state.queue.tenants, expected, _can_run(state), _saved(state)
            )
        except BadProblem as error:
            return Decision((SharesGivenUp(str(error)),))
        if asked is None:
            return Decision((SharesLooked(None),))
        begun = SharesAsked(asked.revision, state.queue_sequence, asked.policy)
        return Decision((begun,), effects=(SolveShares(asked),))

    def silence(self, state: PlannerState, message: LogSilent | LogHeard) -> Decision:
        """Note that a region is silent, or heard again."""
        is_silent = isinstance(message, LogSilent)
        if (
            message.log == GLOBAL_LOG
            or state.silent.get(region := region_of(message.log), False) is is_silent
        ):
            return NOTHING
        return Decision((PoolSilent(region, is_silent),))

    def solved(self, state: PlannerState, answer: SharesSolved, now: Instant) -> Decision:
        """Send the shares that the solver found to the queue."""
        row = state.shares
        if row.solving != answer.shares.revision:
            return NOTHING  # Late or repeated: other shares were set meanwhile, or are being solved.
        if row.policy != state.queue.sharing.settings.policy:
            return Decision((SharesLooked(now),))
        shares = replace(answer.shares, revision=answer.shares.revision + 1)
        command = SetShares(shares, row.policy, row.sequence)
        if len(encode(command)) > MESSAGE_BYTES_MAX - MESSAGE_BYTES_SPARE:
            why = f"shares of {len(shares.classes)} classes are too large for a message: give jobs fewer different models, weights and types"
            return Decision((SharesGivenUp(why),))
        return Decision((SharesTold(command),), (command,))

    def unsolved(self, state: PlannerState, answer: SharesUnsolved, now: Instant) -> Decision:
        """Note that the solver has no answer, if one is awaited; of a policy that was replaced, another is asked for at once."""
        row = state.shares
        if row.solving != answer.revision:
            return NOTHING
        if row.policy != state.queue.sharing.settings.policy and not answer.is_for_good:
            return Decision((SharesLooked(now),))
        return Decision((SharesGivenUp(answer.why, answer.is_for_good),))

    def shown(self, state: PlannerState, now: Instant) -> Decision:
        """Answer whether shares are solved, and why not."""
        row, look_at = state.shares, self.due(state)
        again_in = Nanoseconds(-1 if look_at is None else max(0, look_at - now))
        return answered(SharesShown(state.has_solver, row.solving >= 0, row.failures, row.why, again_in))


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


def _look_soon(state: PlannerState, now: Instant) -> None:
    """Schedule a look `SHARES_LOOK` after a change, unless one is due sooner or a request is under way."""
    row = state.shares
    if row.command is None and row.solving < 0 and not row.failures:
        soon = after(now, SHARES_LOOK)
        row.look_at = soon if row.look_at is None else min(row.look_at, soon)
