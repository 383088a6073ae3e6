"""A section of the queue's image: every pipeline, how far its stages have come, by when each must start, and what each tenant has
promised itself of its budget of work under deadlines.

A stage may be awarded once all stages that it waits for have completed; that is known from this section alone. A pipeline is forgotten
with the last of its workloads.
"""

from msgspec import Struct, field

from core.events.pipelines import PipelineEnded, PipelineSubmitted, StagesHeld, StagesReprioritised
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadsForgotten,
)
from core.events.regions import RegionAbandoned
from core.events.tenants import DeadlineBudgetSet
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import PipelineId, RegionName, TenantName, WorkloadId, submission_key
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import NUMBER_MAX
from core.nouns.pipeline import DailyWindow, Forerunner, NoDeadline, Outcome
from core.nouns.workload import EndCause, Phase

SHOWS_A_RUN = frozenset({EndCause.COMPLETED, EndCause.TASK_FAILED, EndCause.TIMEOUT})
"""Ends of attempts that ran, even if the queue did not hear of the start before."""


class StageRow(Struct):
    """One stage."""

    name: str
    workload: WorkloadId
    after: tuple[int, ...] = ()
    """The stages that it waits for, by their places."""
    begins: DailyWindow | None = None
    directory: str = ""
    """The checkpoint directory that its user named; empty: on the node."""
    start_by: int = 0
    """0: its pipeline has no deadline."""
    is_late: bool = False
    """While it waits: whether its pipeline would be late even if it started now."""
    phase: Phase = Phase.PENDING
    has_begun: bool = False
    """Whether it ever ran: from then on its window is no matter."""
    ready_at: int = 0
    """When the last stage that it waits for completed; 0: not yet."""
    started_at: int = 0
    """When its gang was up; 0: the newest attempt was never up, or has ended before its time."""
    ended_at: int = 0
    saved_epoch: int = 0
    """Of its newest checkpoint, or else of its last attempt; known once it has completed."""
    saved_step: int = 0


class PipelineRow(Struct):
    """One pipeline."""

    number: int
    name: str
    tenant: TenantName
    stages: list[StageRow]
    submitter: str
    key: str
    submitted_at: int
    due_at: int = 0
    asked_due_at: int = 0
    no_deadline: NoDeadline = NoDeadline.NONE
    is_together: bool = True
    region: RegionName = RegionName("")
    """Where its first stage was awarded, if all are to run together; empty: nowhere yet, or the region was given up."""
    is_bound: bool = False
    """Whether a stage has run there."""
    is_lost: bool = False
    """Whether that region was given up since, or an attempt in it."""
    outcome: Outcome = Outcome.NONE
    late_by: Nanoseconds = Nanoseconds(0)
    ended_at: int = 0
    remembered: int = 0
    """Its workloads that the image still has."""

    @property
    def is_held_together(self) -> bool:
        """Whether its stages may be held to one region."""
        return self.is_together and len(self.stages) > 1

    @property
    def is_over(self) -> bool:
        """Whether every stage has ended."""
        return all(stage.phase.is_terminal for stage in self.stages)

    @property
    def is_free(self) -> bool:
        """Whether it is held to a region for no reason any more: the region was given up, or no stage ran there and none is to."""
        is_used = self.is_bound or any(stage.phase in (Phase.AWARDED, Phase.RUNNING) for stage in self.stages)
        return bool(self.region) and (self.is_lost or not is_used)

    def is_ready(self, index: int) -> bool:
        """Return whether all stages that one waits for have completed."""
        return all(self.stages[before].phase is Phase.COMPLETED for before in self.stages[index].after)

    def before(self, index: int) -> list[int]:
        """Return the places of all stages that must have completed before one begins, also those before these, ascending."""
        found: set[int] = set()
        todo = list(self.stages[index].after)
        while todo:
            place = todo.pop()
            if place not in found:
                found.add(place)
                todo += self.stages[place].after
        return sorted(found)

    def waits_for(self, index: int) -> list[StageRow]:
        """Return the stages that one waits for and that have not completed."""
        stages = self.stages
        return [stages[one] for one in stages[index].after if stages[one].phase is not Phase.COMPLETED]


class DeadlineUse(Struct):
    """What a tenant has taken of its budget of work under deadlines."""

    period: Nanoseconds = Nanoseconds(0)
    """Of the budget; 0: it has none."""
    began: Instant = Instant(0)
    """The period of the newest use."""
    used: int = 0
    """In that period, in GPU milli seconds."""

    def began_at(self, now: Instant) -> Instant:
        """Return when the period in which `now` lies began."""
        return (
            Instant(self.began + (now - self.began) // self.period * self.period)
            if self.period
            else self.began
        )

    def used_at(self, now: Instant) -> int:
        """Return the use in the period in which `now` lies, in GPU milli seconds."""
        return self.used if self.began_at(now) == self.began else 0


class Pipelines(Section):
    """Every pipeline."""

    FOLDS = {
        PipelineSubmitted: "_submitted",
        StagesHeld: "_held",
        StagesReprioritised: "_reprioritised",
        PipelineEnded: "_ended",
        WorkloadAwarded: "_awarded",
        AwardReturned: "_award_returned",
        WorkloadBound: "_bound",
        AttemptClosed: "_attempt_closed",
        WorkloadCancelled: "_cancelled",
        WorkloadsForgotten: "_forgotten",
        RegionAbandoned: "_region_abandoned",
        DeadlineBudgetSet: "_budget_set",
    }

    submitted: int = 0
    rows: dict[PipelineId, PipelineRow] = field(default_factory=dict)
    keys: dict[str, PipelineId] = field(default_factory=dict)
    """Idempotency keys, as `Workloads.keys`."""
    of: dict[WorkloadId, tuple[PipelineId, int]] = field(default_factory=dict)
    """The pipeline of each workload that is a stage, and its place there."""
    uses: dict[TenantName, DeadlineUse] = field(default_factory=dict)

    def stage(self, workload: WorkloadId) -> StageRow | None:
        """Return the stage that a workload is, if it is one."""
        found = self.of.get(workload)
        return None if found is None else self.rows[found[0]].stages[found[1]]

    def pipeline(self, workload: WorkloadId) -> PipelineRow | None:
        """Return the pipeline of a workload, if it is a stage."""
        found = self.of.get(workload)
        return None if found is None else self.rows[found[0]]

    def is_ready(self, workload: WorkloadId) -> bool:
        """Return whether a workload is no stage, or all stages that it waits for have completed."""
        found = self.of.get(workload)
        return found is None or self.rows[found[0]].is_ready(found[1])

    def forerunners(self, workload: WorkloadId) -> tuple[Forerunner, ...]:
        """Return the completed stages before a workload, in the pipeline's order; none if it is no stage."""
        found = self.of.get(workload)
        if found is None:
            return ()
        row = self.rows[found[0]]
        before = (row.stages[place] for place in row.before(found[1]))
        return tuple(
            Forerunner(one.name, one.workload, one.saved_epoch, one.saved_step, one.directory)
            for one in before
        )

    def _submitted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PipelineSubmitted)
        self.submitted = event.number
        stages = [
            StageRow(
                one.name,
                one.workload,
                one.after,
                one.begins,
                one.directory,
                one.start_by,
                one.is_late,
                ready_at=0 if one.after else fact.at,
            )
            for one in event.stages
        ]
        self.rows[event.pipeline] = PipelineRow(
            event.number,
            event.name,
            event.tenant,
            stages,
            event.submitter,
            event.key,
            fact.at,
            event.due_at,
            event.asked_due_at,
            event.no_deadline,
            event.is_together,
            remembered=len(stages),
        )
        for place, one in enumerate(event.stages):
            self.of[one.workload] = event.pipeline, place
        if event.key:
            self.keys[submission_key(event.submitter, event.key)] = event.pipeline
        if event.gpu_milli_seconds and event.tenant in self.uses:
            use = self.uses[event.tenant]
            use.used = min(NUMBER_MAX, use.used_at(Instant(fact.at)) + event.gpu_milli_seconds)
            use.began = use.began_at(Instant(fact.at))

    def known_as(self, submitter: str, key: str) -> PipelineId | None:
        """Return the pipeline that a submitter has submitted under a key."""
        return self.keys.get(submission_key(submitter, key)) if key else None

    def _held(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StagesHeld)
        row = self.rows[event.pipeline]
        row.region, row.is_bound, row.is_lost = event.region, False, False

    def _reprioritised(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StagesReprioritised)
        stages = self.rows[event.pipeline].stages
        for change in event.stages:
            stages[change.stage].start_by, stages[change.stage].is_late = change.new, change.is_late

    def _ended(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PipelineEnded)
        row = self.rows[event.pipeline]
        row.outcome, row.late_by, row.ended_at = event.outcome, event.late_by, fact.at

    def _awarded(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadAwarded)
        stage = self.stage(event.workload)
        if stage is not None:
            stage.phase = Phase.AWARDED

    def _award_returned(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AwardReturned)
        stage = self.stage(event.workload)
        if stage is not None:
            stage.phase = Phase.PENDING

    def _bound(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadBound)
        stage, row = self.stage(event.workload), self.pipeline(event.workload)
        if stage is None or row is None or stage.phase.is_terminal:
            return
        stage.phase, stage.started_at, stage.is_late, stage.has_begun = Phase.RUNNING, fact.at, False, True
        row.is_bound = row.is_bound or event.region == row.region

    def _attempt_closed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptClosed)
        found = self.of.get(event.workload)
        if found is None:
            return
        row = self.rows[found[0]]
        stage = row.stages[found[1]]
        stage.phase = event.phase
        row.is_lost = row.is_lost or (event.cause is EndCause.ABANDONED and event.region == row.region)
        if event.cause in SHOWS_A_RUN:
            stage.has_begun = True
            row.is_bound = row.is_bound or event.region == row.region
        if not event.phase.is_terminal:
            stage.started_at = 0
            return
        stage.ended_at = fact.at
        stage.saved_epoch, stage.saved_step = event.saved_epoch or event.epoch, event.saved_step
        if event.phase is Phase.COMPLETED:
            for place, one in enumerate(row.stages):
                if found[1] in one.after and row.is_ready(place):
                    one.ready_at = fact.at

    def _cancelled(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadCancelled)
        stage = self.stage(event.workload)
        if stage is not None:
            stage.phase, stage.ended_at = Phase.CANCELLED, fact.at

    def _forgotten(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadsForgotten)
        for workload in event.workloads:
            found = self.of.pop(workload, None)
            if found is None:
                continue
            row = self.rows[found[0]]
            row.remembered -= 1
            if not row.remembered:
                self.keys.pop(submission_key(row.submitter, row.key), None)
                del self.rows[found[0]]

    def _region_abandoned(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, RegionAbandoned)
        for row in self.rows.values():
            row.is_lost = row.is_lost or row.region == event.region

    def _budget_set(self, fact: Fact) -> None:
        """A period begins with its budget, and goes on if only the number of GPU-hours is another."""
        event = fact.event
        assert isinstance(event, DeadlineBudgetSet)
        if event.budget is None:
            self.uses.pop(event.tenant, None)
            return
        use = self.uses.get(event.tenant)
        if use is None or use.period != event.budget.period:
            self.uses[event.tenant] = DeadlineUse(event.budget.period, Instant(fact.at))
