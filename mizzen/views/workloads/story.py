"""What the logs tell of one workload, also of one that every image has forgotten: its own facts, folded once more.

The queue's log says what was asked for and awarded, the logs of the regions what became of each attempt there.
"""

from collections.abc import Iterable

from msgspec import Struct, field

from bus.port import Bus
from core.events.control import ClaimRevised, OperationsBegun, OperationsDone, OperationsRequested, TasksDown
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    CancelRequested,
    RankedBid,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadChanged,
)
from core.events.region import (
    AttemptEnded,
    AwardDeclined,
    CheckpointCommitted,
    ClaimGranted,
    ClaimPromised,
    GangStarted,
    PromiseRevised,
    StopOrdered,
)
from core.fact import Fact
from core.images import GlobalImage
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkloadId, region_log
from core.nouns.operation import WHOLE
from core.nouns.placement import Spread, moved_spreads, runs_of
from core.nouns.preemption import PREEMPTION_REQUESTER
from core.nouns.workload import EndCause, Phase, WorkloadSpec
from mizzen.terminal.output import CommandError
from mizzen.views.plane_reads import facts_about


class Placement(Struct):
    """How a region placed an attempt."""

    claim: str
    agent: str
    view_sequence: int
    """Of the region's log: what the agent knew."""
    sequence: int
    """Of the fact that granted or promised it."""
    is_merged: bool
    """The view was old, but the claim still fitted."""
    victims: tuple[tuple[WorkloadId, int], ...]
    jobs: tuple[str, ...]
    spreads: tuple[Spread, ...]
    """By job."""

    @property
    def node_runs(self) -> tuple[tuple[int, int], ...]:
        """All nodes."""
        return runs_of(node for spread in self.spreads for node in spread.nodes)


class Attempt(Struct):
    """One attempt, as both logs tell of it. Instants are nanoseconds since 1970; 0: it did not happen, or is not told."""

    epoch: int
    region: RegionName
    award_sequence: int
    awarded_at: int
    rank: int
    bids: tuple[RankedBid, ...]
    resume_epoch: int = 0
    resume_step: int = 0
    placement: Placement | None = None
    promised_at: int = 0
    asked_until: int = 0
    """Until when the controllers of those who make room for it are asked."""
    granted_at: int = 0
    started_at: int = 0
    checkpoints: int = 0
    saved_step: int = 0
    saved_at: int = 0
    stop_cause: str = ""
    stopped_for: WorkloadId = WorkloadId("")
    stop_at: int = 0
    asked_by: str = ""
    """Who asked for the operation that began last on it."""
    end_cause: str = ""
    destroyed: int = 0
    """GPU-seconds of its work that were lost when it was preempted."""
    exit_code: int = 0
    ended_at: int = 0
    declined: str = ""
    declined_at: int = 0
    tries: int = 0
    """Claims that were made before it was declined; 0: none, or nobody said."""
    conflict: str = ""
    """Why the last of them that met a conflict was not granted."""
    conflict_nodes: tuple[int, ...] = ()
    closed_as: str = ""
    """What the workload was from then on."""
    tasks_down: int = 0
    """How often one of its tasks that stand alone failed."""
    tasks_placed: int = 0
    """That hold room."""
    tasks_unplaced: int = 0
    """That others left no room for at the grant, and that have had none since."""
    restarts: int = 0
    """How often one was started again, or the gang where it was."""
    operations_asked: int = 0
    operations_done: int = 0
    refusals: dict[RegionName, str] = {}
    """Why other regions did not bid for it, of those of which that is known."""

    @property
    def state(self) -> str:
        """Where it is in its life."""
        if self.declined:
            return "declined"
        if self.end_cause:
            return "ended"
        if self.stop_cause:
            return "stopping"
        if self.started_at:
            return "running"
        if self.granted_at:
            return "starting"
        return "promised" if self.promised_at else "awarded"


class Story(Struct):
    """One workload, from its submission on."""

    workload: WorkloadId
    name: str
    phase: Phase
    spec: WorkloadSpec
    submitter: str
    submitted_at: int
    epoch: int
    is_held: bool
    hold_revision: int
    tasks_failed: int
    starts_failed: int
    cancel_requested_at: int = 0
    cancelled_by: str = ""
    spec_revision: int = 0
    """How often its user changed what it is."""
    changed_at: int = 0
    changed_by: str = ""
    ended_at: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    untold: dict[RegionName, str] = field(default_factory=dict)
    """Regions whose part is missing, and why."""

    def attempt(self, epoch: int) -> Attempt | None:
        """One of them."""
        return next((attempt for attempt in self.attempts if attempt.epoch == epoch), None)

    @property
    def newest(self) -> Attempt | None:
        """The last one that was awarded."""
        return self.attempts[-1] if self.attempts else None


class Telling(Struct):
    """A story, and the facts that it is made of."""

    story: Story
    facts: list[Fact]
    """In the order in which they happened, as far as clocks agree."""


async def told(bus: Bus, workload: WorkloadId) -> Telling:
    """All that the plane's logs tell of a workload. Raises CommandError, also when they tell nothing."""
    found = await facts_about(bus, GLOBAL_LOG, workload)
    facts = [fact for fact in found if getattr(fact.event, "workload", "") == workload]
    if not facts:
        raise CommandError(
            f"there is no workload {workload}, nor was there ever; `mizzen queue --all` lists them"
        )
    story = story_of(facts)
    every = list(facts)
    for region in dict.fromkeys(attempt.region for attempt in story.attempts):
        try:
            of_region = await facts_about(bus, region_log(region), workload)
        except CommandError as error:
            story.untold[region] = str(error)
            continue
        add_region(story, region, of_region)
        every += of_region
    every.sort(key=lambda fact: (fact.at, fact.log != GLOBAL_LOG, fact.sequence))
    return Telling(story, every)


def story_of(facts: Iterable[Fact]) -> Story:
    """What the queue's facts about one workload tell."""
    image = GlobalImage.empty(("workloads",))
    attempts: dict[int, Attempt] = {}
    cancelled_at, cancelled_by = 0, ""
    changed_at, changed_by = 0, ""
    for fact in facts:
        image.fold(fact)
        match fact.event:
            case WorkloadAwarded() as award:
                attempts[award.epoch] = Attempt(
                    award.epoch,
                    award.region,
                    fact.sequence,
                    fact.at,
                    award.rank,
                    award.bids,
                    award.resume_epoch,
                    award.resume_step,
                    refusals=award.refusals,
                )
            case AwardReturned(epoch=epoch, reason=reason):
                attempts[epoch].declined = attempts[epoch].declined or reason
            case WorkloadBound(epoch=epoch):
                attempts[epoch].started_at = attempts[epoch].started_at or fact.at
            case AttemptClosed(epoch=epoch, cause=cause, phase=phase, saved_epoch=saved, saved_step=step):
                attempts[epoch].end_cause = cause
                attempts[epoch].closed_as = phase
                attempts[epoch].ended_at = fact.at
                attempts[epoch].saved_step = step if saved == epoch else 0
            case CancelRequested() | WorkloadCancelled():
                # A cancelled one that was not granted yet ends by a second fact, which the queue says to itself.
                cancelled_at, cancelled_by = cancelled_at or fact.at, cancelled_by or fact.actor
            case WorkloadChanged():
                changed_at, changed_by = fact.at, fact.actor
    ((workload, row),) = image.workloads.rows.items()
    return Story(
        workload=workload,
        name=row.spec.name,
        phase=row.phase,
        spec=row.spec,
        submitter=row.submitter,
        submitted_at=row.submitted_at,
        epoch=row.epoch,
        is_held=row.is_held,
        hold_revision=row.hold_revision,
        tasks_failed=row.tasks_failed,
        starts_failed=row.starts_failed,
        cancel_requested_at=cancelled_at,
        cancelled_by=cancelled_by,
        spec_revision=row.spec_revision,
        changed_at=changed_at,
        changed_by=changed_by,
        ended_at=row.ended_at,
        attempts=list(attempts.values()),
    )


def add_region(story: Story, region: RegionName, facts: Iterable[Fact]) -> None:
    """What one region's facts tell besides: its instants are nearer to what happened than the queue's."""
    for fact in facts:
        epoch = getattr(fact.event, "epoch", 0)
        attempt = story.attempt(epoch)
        if attempt is not None and attempt.region == region:
            _add(attempt, fact)


def _add(attempt: Attempt, fact: Fact) -> None:
    match fact.event:
        case ClaimPromised() | ClaimGranted() as event:
            claim = event.claim
            promised = attempt.placement
            attempt.placement = Placement(
                claim=claim.claim,
                agent=claim.agent,
                view_sequence=claim.view.sequence,
                sequence=fact.sequence,
                is_merged=isinstance(event, ClaimGranted) and event.is_merged,
                # The grant of what was promised names nobody any more: they have ended.
                victims=claim.victims or (promised.victims if promised is not None else ()),
                jobs=tuple(job.name for job in claim.jobs),
                spreads=claim.spreads,
            )
            if isinstance(event, ClaimGranted):
                attempt.granted_at = fact.at
                attempt.tasks_placed = sum(job.tasks for job in claim.jobs)
                attempt.tasks_unplaced = sum(event.unplaced)
            else:
                attempt.promised_at = fact.at
                attempt.asked_until = fact.at + event.ask_span
        case AwardDeclined(reason=reason, tries=tries, conflict=conflict, nodes=nodes):
            attempt.declined, attempt.declined_at = reason, fact.at
            attempt.tries, attempt.conflict, attempt.conflict_nodes = tries, conflict, nodes
        case GangStarted():
            attempt.started_at = fact.at
        case CheckpointCommitted(step=step):
            attempt.checkpoints += 1
            attempt.saved_step, attempt.saved_at = step, fact.at
        case StopOrdered(cause=cause, by=by):
            attempt.stop_cause, attempt.stopped_for, attempt.stop_at = cause, by, fact.at
        case AttemptEnded(cause=cause, exit_code=exit_code, destroyed=destroyed):
            attempt.end_cause, attempt.exit_code, attempt.ended_at = cause, exit_code, fact.at
            attempt.destroyed = destroyed
        case PromiseRevised(victims=victims) if attempt.placement is not None:
            attempt.placement.victims = victims
        case TasksDown(tasks=tasks, cause=cause):
            attempt.tasks_down += len(tasks) if cause != EndCause.COMPLETED else 0
        case ClaimRevised(moves=moves):
            again = (min(move.node_from, move.node_to) >= 0 or move.task == WHOLE for move in moves)
            attempt.restarts += sum(again)
            came = sum(move.node_from < 0 <= move.node_to for move in moves)
            attempt.tasks_placed += came - sum(move.node_to < 0 for move in moves)
            attempt.tasks_unplaced = max(0, attempt.tasks_unplaced - came)
            if attempt.placement is not None:
                attempt.placement.spreads = moved_spreads(attempt.placement.spreads, moves)
        case OperationsRequested(tasks=tasks):
            attempt.operations_asked += len(tasks)
        case OperationsBegun(requester=requester):
            attempt.asked_by = "" if requester == PREEMPTION_REQUESTER else requester
        case OperationsDone(operations=operations):
            attempt.operations_done += len(operations)
