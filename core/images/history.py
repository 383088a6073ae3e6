"""A section of the queue's image: past runs by family, with run times, hardware and datasets; and the errors of predictions.

Every workload is predicted at its submission, from the runs that had ended before, and compared with its outcome.

The run time of a workload is that of all its attempts with work that counted: an attempt that was cut short counts if it left a
checkpoint from which the next one continued, and not if all work was repeated. A workload that completed, or was stopped at its
time limit, shows how long such work runs. One that failed or was cancelled shows only how long it held its GPUs: it is used for
its family if no other run of the family is known, and in the spreads by which waits are estimated. Services end on request, and
are not predicted.
"""

from msgspec import Struct, field
from msgspec.structs import replace

from core.estimating.family import family_of
from core.estimating.prediction import PredictedBy, Prediction, predicted
from core.estimating.run_times import KnownRuns, PastRun, step_of
from core.estimating.scores import Errors
from core.estimating.waits import Flow, expected_rate
from core.events.pipelines import PipelineSubmitted
from core.events.queue import (
    AttemptClosed,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadChanged,
    WorkloadHeld,
    WorkloadSubmitted,
)
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import DatasetName, TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import FAMILY_DATASETS_MAX, FLOWS_MAX
from core.nouns.placement import gpu_milli_of
from core.nouns.workload import EndCause, Kind, Phase, WorkloadSpec


class LiveRun(Struct):
    """A workload that has not ended."""

    tenant: TenantName
    family: str
    gpu_milli: int
    gpu_type: str
    prediction: Prediction
    """From what was known at its submission."""
    flow: str
    """In which its GPUs are counted when they come free."""
    ran: Nanoseconds = Nanoseconds(0)
    """Run time of the ended attempts with work that counted."""
    up_at: Instant = Instant(0)
    """When the newest attempt was up; 0: it is not."""
    freeing: int = 0
    """Millionths of a GPU an hour that it adds to what is expected to come free."""
    is_service: bool = False
    data: tuple[DatasetName, ...] = ()
    """What it reads, as far as that is remembered of a family."""
    size: int = 0
    """Of its input, as its user said."""
    asked_at: Instant = Instant(0)
    """Since when it could have started, until it first does; 0: it could not yet, or nobody can say since when."""
    leads_to: tuple[WorkloadId, ...] = ()
    """Stages of its pipeline that may start at any time once it has completed, and all others that they wait for."""


class Told(Struct):
    """Of recurring workloads, whether hardware was predicted as it was then asked for."""

    count: int = 0
    right: int = 0


class ToldOfData(Struct):
    """Of recurring workloads, which datasets they read and which were predicted: how many of each, over all of them."""

    read: int = 0
    predicted: int = 0
    both: int = 0
    """Of those that are read, the ones that were predicted."""


def flow_key(spec: WorkloadSpec) -> str:
    """Return a key that is equal for workloads with GPUs of use to the same others: the node types of the first job."""
    return "|".join(spec.jobs[0].node_types)


class History(Section):
    """What ran, and how right predictions were."""

    FOLDS = {
        WorkloadSubmitted: "_submitted",
        WorkloadChanged: "_changed",
        WorkloadHeld: "_held",
        WorkloadBound: "_bound",
        AttemptClosed: "_closed",
        WorkloadCancelled: "_cancelled",
        PipelineSubmitted: "_pipeline_submitted",
    }

    runs: KnownRuns = field(default_factory=KnownRuns)
    live: dict[WorkloadId, LiveRun] = field(default_factory=dict)
    errors: dict[PredictedBy, Errors] = field(default_factory=dict)
    """By what it was predicted from."""
    hardware: Told = field(default_factory=Told)
    data: ToldOfData = field(default_factory=ToldOfData)
    flows: dict[str, Flow] = field(default_factory=dict)
    """How fast GPUs come free, by what was asked for: `flow_key`."""

    def _submitted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadSubmitted)
        spec = event.spec
        family = family_of(spec.name)
        prediction = predicted(self.runs, spec, family)
        gpu_milli, gpu_type = gpu_milli_of(spec.jobs), spec.jobs[0].type_text
        if prediction.gpu_type and spec.kind != Kind.SERVICE:
            self.hardware.count += 1
            self.hardware.right += (prediction.gpu_milli, prediction.gpu_type) == (gpu_milli, gpu_type)
            self.data.read += len(spec.data)
            self.data.predicted += len(prediction.data)
            self.data.both += len({*spec.data}.intersection(prediction.data))
        self.live[event.workload] = LiveRun(
            spec.tenant,
            family,
            gpu_milli,
            gpu_type,
            replace(prediction, data=()),
            flow_key(spec),
            is_service=spec.kind == Kind.SERVICE,
            data=spec.data[:FAMILY_DATASETS_MAX],
            size=spec.input_size,
            asked_at=Instant(fact.at),
        )

    def _pipeline_submitted(self, fact: Fact) -> None:
        """Count no wait of a stage before its forerunners have completed, and none of one that begins in a window."""
        event = fact.event
        assert isinstance(event, PipelineSubmitted)
        for stage in event.stages:
            row = self.live[stage.workload]
            if stage.after or stage.begins is not None:
                row.asked_at = Instant(0)
            for before in stage.after if stage.begins is None else ():
                self.live[event.stages[before].workload].leads_to += (stage.workload,)

    def _changed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadChanged)
        self.live[event.workload].gpu_milli = gpu_milli_of(event.jobs)

    def _held(self, fact: Fact) -> None:
        """Count no wait that was a person's wish."""
        event = fact.event
        assert isinstance(event, WorkloadHeld)
        row = self.live.get(event.workload)
        if row is not None:
            row.asked_at = Instant(0)

    def _bound(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadBound)
        row = self.live.get(event.workload)
        if row is None:
            return  # The log says of what has ended that it is up: others tell of it.
        row.up_at = fact.at
        if not row.is_service:
            row.freeing = expected_rate(row.gpu_milli, row.prediction.duration)
            flow = self._flow(row.flow)
            flow.begin(row.freeing, fact.at)
            if row.asked_at:
                flow.waited.add(step_of(Nanoseconds(fact.at - row.asked_at)))
        row.asked_at = Instant(0)

    def _closed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptClosed)
        row = self.live[event.workload]
        counts = event.phase.is_terminal or event.saved_epoch == event.epoch
        if row.up_at and counts:
            row.ran = Nanoseconds(row.ran + fact.at - row.up_at)
        if row.up_at:
            flow = self._flow(row.flow)
            flow.expected = max(0, flow.expected - row.freeing)
            flow.free(row.gpu_milli, fact.at)
        row.up_at, row.freeing = Instant(0), 0
        if event.phase.is_terminal:
            del self.live[event.workload]
            self._ended(row, event)
            for follower in row.leads_to if event.phase == Phase.COMPLETED else ():
                if follower in self.live:
                    self.live[follower].asked_at = Instant(fact.at)

    def usual_wait(self, spec: WorkloadSpec, part: float = 0.5) -> Nanoseconds:
        """Return the quantile of how long work of these node types waited of late, start included; 0: little is known."""
        flow = self.flows.get(flow_key(spec))
        found = flow.waited.quantile(part) if flow is not None else None
        return Nanoseconds(0) if found is None else found

    def _flow(self, key: str) -> Flow:
        """Of too many, so that asking for odd sets of types costs nothing, the one used longest ago is forgotten."""
        known = self.flows.pop(key, None)
        flow = self.flows[key] = known or Flow()
        if len(self.flows) > FLOWS_MAX:
            del self.flows[next(iter(self.flows))]
        return flow

    def _ended(self, row: LiveRun, event: AttemptClosed) -> None:
        if row.ran <= 0 or row.is_service:
            return
        is_whole = event.phase == Phase.COMPLETED or event.cause == EndCause.TIMEOUT
        if is_whole:
            kind = row.prediction.by
            self.errors.setdefault(kind, Errors()).add(row.prediction.duration, row.ran)
        self.runs.add(
            row.tenant,
            row.family,
            PastRun(row.ran, row.gpu_milli, row.gpu_type, is_whole, row.size),
            row.data,
        )

    def _cancelled(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadCancelled)
        self.live.pop(event.workload, None)
