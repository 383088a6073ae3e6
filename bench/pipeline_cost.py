"""How long the queue takes to compute the start deadlines of a pipeline again after an event of one of its stages: `python -m bench pipeline_cost`.

1,000 pipelines of 8 stages, each a diamond within a chain, are among 100,000 workloads that wait, through the component itself. Each stage's
family has run 16 times with sizes of its input, so that each cost is a quantile of a fit. Events are the start and the end of first stages, of
pipelines in turn; the ends change what is known of the families of others. Timed is all that an event costs beside the award itself: the fold with its
places in the order, the look at the pipeline, and the fold of what the look records.

`python -m bench scan` tells what the order costs with the same number of workloads.
"""

import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bench.support.report import Findings, at_most
from components.job_queue.component import JobQueue
from components.job_queue.pipelines.looks import look_at_pipelines
from components.job_queue.state.queue_state import QueueState
from core.component import Decision, Images
from core.estimating.family import family_of
from core.estimating.run_times import PastRun
from core.events.pipelines import PipelineSubmitted, StagesReprioritised, SubmittedStage
from core.events.queue import AttemptClosed, RegionAdded, WorkloadAwarded, WorkloadBound, WorkloadSubmitted
from core.fact import NO_LOG, Event, Fact
from core.images import GlobalImage
from core.nouns.ids import GLOBAL_LOG, PipelineId, RegionName, TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.limits import FAMILY_RUNS_MAX
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import EndCause, JobSpec, Phase, Program, WorkloadSpec

WAITING, QUICK_WAITING = 100_000, 1_000
PIPELINES, QUICK_PIPELINES = 1_000, 20
AFTER = ((), (0,), (0,), (1, 2), (3,), (4,), (5,), (6,))
"""Of each pipeline, the stages that each waits for."""
TENANTS = 50
TEMPLATES_OF_TENANT = 6
REGION = RegionName("r0")
NOW = Instant(1_800_000_000 * SECOND)
HOUR = 3_600 * SECOND
JOB = JobSpec("main", 1, Amount(8 * MILLI, 0, 0), "H100", program=Program("true"))
LIMIT = "durations of eight stages are quantiles of fits, in plain Python"


def run(_: Path, *, is_quick: bool) -> Findings:
    """Let stages start and end, and time each look."""
    waiting, pipelines = (QUICK_WAITING, QUICK_PIPELINES) if is_quick else (WAITING, PIPELINES)
    queue = Waiting(waiting, pipelines)
    spans = sorted(queue.events())
    figures = {
        "waiting": float(waiting),
        "pipelines": float(pipelines),
        "events": float(len(spans)),
        "moved_share": queue.moved / len(spans),
        "p50_ms": statistics.median(spans),
        "max_ms": spans[-1],
    }
    bars = [at_most("p99_ms", spans[len(spans) * 99 // 100], 5, LIMIT)]
    return Findings({**figures, **{bar.name: bar.value for bar in bars}}, bars)


class Waiting:
    """A queue with so many workloads, some of which are stages."""

    def __init__(self, waiting: int, pipelines: int) -> None:
        self.dice = random.Random(36)
        self.pipelines = pipelines
        self.now = NOW
        self.moved = 0
        self._sequence = 0
        self.image = GlobalImage.empty()
        self._fold(RegionAdded(REGION))
        for number in range(pipelines):
            self._submit(number)
        for number in range(len(AFTER) * pipelines, waiting):
            spec = WorkloadSpec(f"job-{number}", (JOB,), TenantName(f"t{number % TENANTS}"))
            self._fold(WorkloadSubmitted(WorkloadId(f"w-{number}"), number, spec, "ada"))
        self.component = JobQueue((REGION,))
        self.state: QueueState = self.component.initial(Images(NOW, self.image, {}))
        while look_at_pipelines(self.state, self.now).events:
            self._evolve(look_at_pipelines(self.state, self.now))

    def _submit(self, number: int) -> None:
        tenant, template = TenantName(f"t{number % TENANTS}"), number // TENANTS % TEMPLATES_OF_TENANT
        first = len(AFTER) * number
        stages = []
        for place, after in enumerate(AFTER):
            workload = WorkloadId(f"w-{first + place}")
            spec = WorkloadSpec(
                f"nightly{'abcdef'[template]}-{number}.stage{'abcdefgh'[place]}",
                (JOB,),
                tenant,
                input_size=self.dice.randrange(100, 200),
            )
            self._fold(WorkloadSubmitted(workload, first + place, spec, "ada"))
            self._known(spec)
            stages.append(SubmittedStage(f"stage{'abcdefgh'[place]}", workload, after))
        due_at = Instant(NOW + self.dice.randrange(12, 60) * HOUR)
        self._fold(
            PipelineSubmitted(
                PipelineId(f"p-{number}"), number, "nightly", tenant, tuple(stages), "ada", due_at=due_at
            )
        )

    def _known(self, spec: WorkloadSpec) -> None:
        """Let a stage's family have run, if it has not."""
        family, runs = family_of(spec.name), self.image.history.runs
        if runs.family(spec.tenant, family) is not None:
            return
        for _ in range(FAMILY_RUNS_MAX):
            size = self.dice.randrange(50, 300)
            ran = Nanoseconds(round(size * 15 * SECOND * self.dice.lognormvariate(0, 0.25)))
            runs.add(spec.tenant, family, PastRun(ran, 8 * MILLI, "H100", is_whole=True, size=size))

    def _fold(self, event: Event) -> None:
        self.image.fold(self._fact(event))

    def _fact(self, event: Event) -> Fact:
        self._sequence += 1
        return Fact(GLOBAL_LOG, self._sequence, self.now, "cause", "actor", event, self.now)

    def events(self) -> Iterator[float]:
        """Let the first stage of each pipeline start, and then end; yield the milliseconds of each."""
        for number in range(self.pipelines):
            self._told(WorkloadAwarded(WorkloadId(f"w-{len(AFTER) * number}"), 1, REGION, 0, ()))
        for number in range(self.pipelines):
            self.now = Instant(self.now + SECOND)
            yield self._timed(WorkloadBound(WorkloadId(f"w-{len(AFTER) * number}"), 1, REGION, 1))
        for number in range(self.pipelines):
            self.now = Instant(self.now + SECOND)
            workload = WorkloadId(f"w-{len(AFTER) * number}")
            yield self._timed(AttemptClosed(workload, 1, EndCause.COMPLETED, Phase.COMPLETED, REGION, 2))

    def _timed(self, event: Event) -> float:
        self._drain()
        begun = time.perf_counter()
        self._told(event)
        decision = look_at_pipelines(self.state, self.now)
        self._evolve(decision)
        taken = 1e3 * (time.perf_counter() - begun)
        self.moved += any(isinstance(one, StagesReprioritised) for one in decision.events)
        return taken

    def _drain(self) -> None:
        """Look at what is due by time alone, so that the next look is of one pipeline."""
        while (decision := look_at_pipelines(self.state, self.now)).events:
            self._evolve(decision)

    def _told(self, event: Event) -> None:
        self.state = self.component.evolve(self.state, self._fact(event))

    def _evolve(self, decision: Decision) -> None:
        for event in decision.events:
            if isinstance(event, Event):
                self._told(event)
            else:
                note = Fact(NO_LOG, 0, self.now, "", "bench", event, self.now)
                self.state = self.component.evolve(self.state, note)
