"""A pipeline: a directed acyclic graph of stages, each a workload, with one deadline for all of them."""

from enum import StrEnum

from msgspec import Struct

from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.workload import NEVER, UNNAMED, WorkloadSpec

NO_DEADLINE = Instant(0)
"""The deadline of a pipeline without one."""
DAY = Nanoseconds(86_400 * SECOND)


class OnLate(StrEnum):
    """The user's wish for a pipeline that cannot meet its deadline even without any waiting."""

    REFUSE = "refuse"
    ACCEPT = "accept"
    """The pipeline is accepted without a deadline."""


class DailyWindow(Struct, frozen=True, forbid_unknown_fields=True):
    """A time of each day, UTC, in which a stage may begin."""

    opens: Nanoseconds
    """From midnight; less than a day."""
    lasts: Nanoseconds
    """More than 0, and a day at most."""

    def opened_at(self, at: Instant) -> Instant:
        """Return the newest opening that is not after `at`; negative before the first."""
        return Instant((at - self.opens) // DAY * DAY + self.opens)

    def opens_at(self, at: Instant) -> Instant:
        """Return the first opening that is not before `at`."""
        return Instant(self.opened_at(Instant(at - 1)) + DAY)

    def begins_from(self, at: Instant) -> Instant:
        """Return the first instant from `at` on at which a stage may begin."""
        return at if at < self.opened_at(at) + self.lasts else self.opens_at(at)


class StageSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """One stage of a pipeline, as submitted."""

    name: str
    workload: WorkloadSpec
    """Named `pipeline.stage`; a plain job with a deadline keeps its name."""
    after: tuple[str, ...] = ()
    """Names of the stages that must have completed before."""
    begins: DailyWindow | None = None
    """None: at any time."""


class PipelineSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A pipeline as submitted."""

    name: str
    stages: tuple[StageSpec, ...]
    deadline: Instant = NO_DEADLINE
    """All stages must have completed by then."""
    within: Nanoseconds = NEVER
    """The same, counted from the submission; only one of both is given."""
    on_late: OnLate = OnLate.REFUSE
    is_together: bool = True
    """All stages run in the region where the first of them was bound."""

    @property
    def tenant(self) -> TenantName:
        """The tenant of all stages."""
        return self.stages[0].workload.tenant if self.stages else UNNAMED

    def due_at(self, now: Instant) -> Instant:
        """Return the deadline of a submission made now; `NO_DEADLINE` if there is none."""
        return Instant(now + self.within) if self.within else self.deadline


class Cause(StrEnum):
    """The event by which the start deadlines of a pipeline were computed again."""

    BOUND = "bound"
    """A stage runs."""
    ENDED = "ended"
    """A stage completed."""
    FAILED = "failed"
    """An attempt of a stage ended without its completion."""
    MOVED = "moved"
    """A stage moves to another region."""
    CHANGED = "changed"
    """A user changed a stage."""
    TIME = "time"
    """A minute has passed, in which other runs ended, or a stage became late."""


class Outcome(StrEnum):
    """The end of a pipeline. Each but the first is final."""

    NONE = ""
    """The pipeline has not ended."""
    MET = "met"
    """All stages completed, by the deadline if there was one."""
    LATE = "late"
    """All stages completed, the last one after the deadline."""
    FAILED = "failed"
    """A stage failed or was stopped at its time limit."""
    CANCELLED = "cancelled"
    """A stage was cancelled, and none failed."""


class NoDeadline(StrEnum):
    """The reason why a pipeline that asked for a deadline has none."""

    NONE = ""
    INFEASIBLE = "infeasible"
    """Even without any waiting it would have been late, and its user accepted that."""
    OVER_BUDGET = "over_budget"
    """Its tenant's budget of work under deadlines was spent."""


def stage_variable(stage: str) -> str:
    """Return the beginning of the names of the environment variables about a stage."""
    return "MIZZEN_STAGE_" + "".join(letter if letter.isalnum() else "_" for letter in stage).upper()


class Forerunner(Struct, frozen=True, gc=False):
    """A completed stage, as the stages that depend on it see it."""

    stage: str
    workload: WorkloadId
    epoch: int
    """The attempt with the newest checkpoint; without any checkpoint, the last attempt."""
    step: int = 0
    """The step of that checkpoint; 0: there is none."""
    directory: str = ""
    """The checkpoint directory that its user named; empty: a directory on the node."""
