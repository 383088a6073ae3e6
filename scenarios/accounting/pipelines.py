"""Pipelines as the queue's log tells of them, counted anew: whether stages ran in turn and in one region, and how each pipeline ended."""

from collections import Counter

from msgspec import Struct

from core.events.pipelines import PipelineEnded, PipelineSubmitted, StagesHeld, StagesReprioritised
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadSubmitted,
)
from core.events.regions import RegionAbandoned
from core.fact import Fact
from core.nouns.ids import PipelineId, RegionName, WorkloadId
from core.nouns.pipeline import Outcome
from core.nouns.placement import gpu_milli_of
from core.nouns.workload import EndCause, Phase

NOWHERE = RegionName("")
SHOWS_A_RUN = (EndCause.COMPLETED, EndCause.TASK_FAILED, EndCause.TIMEOUT)
"""Such an attempt ran, even if the queue did not hear of its start before."""


class Stage(Struct):
    """One stage, as the facts about its workload have it."""

    workload: WorkloadId
    after: tuple[int, ...]
    gpu_milli: int
    is_held: bool = False
    """Whether the newest fact about where its pipeline is held names it."""
    phase: Phase = Phase.PENDING
    ended_at: int = 0


class Pipeline(Struct):
    """One pipeline."""

    stages: list[Stage]
    due_at: int
    is_together: bool
    """Whether all its stages must run in one region: it is to run together, and none reads data."""
    held: RegionName = NOWHERE
    """The region to which its stages are held."""
    ran: RegionName = NOWHERE
    """The region in which a held stage was bound since they were held."""
    is_lost: bool = False
    """Whether that region was given up since, or an attempt there."""
    was_lost: bool = False
    """Whether that was ever so: then no region may be left that suits all stages."""
    outcome: Outcome = Outcome.NONE

    def dependents(self, place: int) -> list[Stage]:
        """Return the stages that wait for one, and those that wait for these."""
        found = {place}
        for other, stage in enumerate(self.stages):
            if not found.isdisjoint(stage.after):
                found.add(other)
        return [self.stages[other] for other in sorted(found - {place})]

    def ended_as(self) -> tuple[Outcome, int]:
        """Return how it ended, from its stages, and by how much it was late."""
        phases = {stage.phase for stage in self.stages}
        if phases == {Phase.COMPLETED}:
            late = max(stage.ended_at for stage in self.stages) - self.due_at
            return (Outcome.LATE, late) if self.due_at and late > 0 else (Outcome.MET, 0)
        has_failed = Phase.FAILED in phases or Phase.TIMEOUT in phases
        return (Outcome.FAILED if has_failed else Outcome.CANCELLED), 0


class PipelinesKept:
    """Told of each fact."""

    def __init__(self) -> None:
        self.rows: dict[PipelineId, Pipeline] = {}
        self.wrong: list[str] = []
        """What should not be, in sentences."""
        self._of: dict[WorkloadId, tuple[PipelineId, int]] = {}
        self._gpu_milli: dict[WorkloadId, int] = {}
        self._reads: set[WorkloadId] = set()
        """Workloads that read data."""
        self._dropped = self._reprioritised = 0

    def take(self, fact: Fact) -> None:
        """A fact that became durable."""
        match fact.event:
            case WorkloadSubmitted(workload=workload, spec=spec):
                self._gpu_milli[workload] = gpu_milli_of(spec.jobs)
                if spec.data:
                    self._reads.add(workload)
            case PipelineSubmitted():
                self._submitted(fact.event)
            case StagesHeld():
                self._held(fact.event)
            case StagesReprioritised():
                self._reprioritised += 1
            case PipelineEnded():
                self._ended(fact.event)
            case RegionAbandoned(region=region):
                for row in self.rows.values():
                    row.is_lost = row.is_lost or row.held == region
            case (
                WorkloadAwarded() | AwardReturned() | WorkloadBound() | AttemptClosed() | WorkloadCancelled()
            ):
                found = self._of.get(fact.event.workload)
                if found is not None:
                    self._stage(found[0], found[1], fact)

    def open(self) -> list[PipelineId]:
        """Return the accepted pipelines that have not ended."""
        return [name for name, row in self.rows.items() if not row.outcome]

    def figures(self) -> dict[str, float]:
        """Return the figures of a run that ends now."""
        outcomes = Counter(row.outcome for row in self.rows.values())
        with_deadline = [row.outcome for row in self.rows.values() if row.due_at]
        wanted = sum(outcome is not Outcome.CANCELLED for outcome in with_deadline)
        met = with_deadline.count(Outcome.MET)
        return {
            "pipelines": float(len(self.rows)),
            "pipelines_met": float(outcomes[Outcome.MET]),
            "pipelines_late": float(outcomes[Outcome.LATE]),
            "pipelines_failed": float(outcomes[Outcome.FAILED]),
            "pipelines_cancelled": float(outcomes[Outcome.CANCELLED]),
            "deadlines_met_share": met / wanted if wanted else 0.0,
            "deadlines_dropped": float(self._dropped),
            "stages_reprioritised": float(self._reprioritised),
        }

    def _submitted(self, event: PipelineSubmitted) -> None:
        stages = [Stage(one.workload, one.after, self._gpu_milli[one.workload]) for one in event.stages]
        reads = any(stage.workload in self._reads for stage in stages)
        is_together = event.is_together and not reads and len(stages) > 1
        self.rows[event.pipeline] = Pipeline(stages, event.due_at, is_together)
        self._of |= {stage.workload: (event.pipeline, place) for place, stage in enumerate(stages)}
        self._dropped += event.asked_due_at != event.due_at

    def _held(self, event: StagesHeld) -> None:
        row = self.rows[event.pipeline]
        if row.is_together and row.held and row.held != event.region:
            is_used = row.ran or any(stage.phase in (Phase.AWARDED, Phase.RUNNING) for stage in row.stages)
            if is_used and not row.is_lost:
                self.wrong.append(
                    f"{event.pipeline} is held to {event.region or 'no region'} and no more to {row.held}, which was not given up"
                )
        row.was_lost = row.was_lost or row.is_lost
        row.held, row.ran, row.is_lost = event.region, NOWHERE, False
        for stage in row.stages:
            if stage.workload in event.workloads:
                stage.is_held = bool(event.held_to)
        if row.is_together and not row.was_lost and event.held_to:
            widest = max((stage.gpu_milli for stage in row.stages if stage.is_held), default=0)
            # A wider stage may fit nowhere in a region of which nothing was known.
            self.wrong += [
                f"{stage.workload} of {event.pipeline} is not held to {event.region or 'a region'} with the others"
                for stage in row.stages
                if not (stage.is_held or stage.phase.is_terminal or stage.gpu_milli > widest)
            ]

    def _ended(self, event: PipelineEnded) -> None:
        name, row = event.pipeline, self.rows[event.pipeline]
        if row.outcome:
            self.wrong.append(f"{name} ended twice: {row.outcome} and {event.outcome}")
        row.outcome = event.outcome
        goes_on = [stage.workload for stage in row.stages if not stage.phase.is_terminal]
        if goes_on:
            self.wrong.append(f"{name} ended {event.outcome}, and {', '.join(goes_on)} had not")
            return
        outcome, late_by = row.ended_as()
        if (event.outcome, event.late_by) != (outcome, late_by):
            self.wrong.append(
                f"{name} ended {event.outcome}, late by {event.late_by} ns; its stages say {outcome}, {late_by} ns"
            )
        for place, stage in enumerate(row.stages):
            if stage.phase is not Phase.COMPLETED:
                self.wrong += [
                    f"{other.workload} of {name} is {other.phase}, and {stage.workload}, for which it waits, {stage.phase}"
                    for other in row.dependents(place)
                    if other.phase is not Phase.CANCELLED
                ]

    def _stage(self, name: PipelineId, place: int, fact: Fact) -> None:
        event, row = fact.event, self.rows[name]
        stage = row.stages[place]
        match event:
            case WorkloadAwarded(region=region):
                stage.phase = Phase.AWARDED
                waits = [row.stages[one] for one in stage.after]
                self.wrong += [
                    f"{stage.workload} of {name} is awarded, and {one.workload}, for which it waits, is {one.phase}"
                    for one in waits
                    if one.phase is not Phase.COMPLETED
                ]
                if row.is_together and row.held != region and (stage.is_held or not row.held):
                    self.wrong.append(
                        f"{stage.workload} of {name} is awarded to {region}, and held to {row.held or 'no region'}"
                    )
            case AwardReturned():
                stage.phase = Phase.PENDING
            case WorkloadBound(region=region):
                stage.phase = Phase.RUNNING
                if row.is_together and stage.is_held:
                    if row.ran not in (NOWHERE, region):
                        self.wrong.append(
                            f"{stage.workload} of {name} runs in {region}, and another stage ran in {row.ran}"
                        )
                    row.ran = region
            case AttemptClosed(phase=phase, cause=cause, region=region):
                stage.phase = phase
                row.is_lost = row.is_lost or (cause is EndCause.ABANDONED and region == row.held)
                if cause in SHOWS_A_RUN and region == row.held:
                    row.ran = region
                stage.ended_at = fact.at if phase.is_terminal else 0
            case WorkloadCancelled():
                stage.phase, stage.ended_at = Phase.CANCELLED, fact.at
