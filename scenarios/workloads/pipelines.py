"""Pipelines that recur: runs of templates, each a chain or a diamond of stages under one deadline.

A benchmark may take templates and runs one by one: `templates_of` and `a_run` need no scenario.
"""

import math
import random
from collections.abc import Sequence
from typing import Annotated, Self

from msgspec import Meta, Struct
from msgspec.structs import fields, replace

from core.nouns.ids import DatasetName, TenantName
from core.nouns.instant import Instant, Nanoseconds, seconds
from core.nouns.pipeline import DAY, DailyWindow, OnLate, PipelineSpec, StageSpec
from core.nouns.workload import NEVER, WorkloadSpec
from core.rules.pipelines.deadlines import Known, Step, earliest_end, forecast
from runtime.fleet_file import RegionSpec
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import Count, FieldError, Hours, Minutes, NotNegative, Positive, Share, Steps
from scenarios.workload import Arrival, Workload, draw_region, draw_retry
from scenarios.workloads.philly import Philly

STAGES = ("train", "prep", "publish", "evaluate", "fetch", "distil", "index", "report")
"""Names of stages. A pipeline of so many stages has the first so many of them."""
IN_TURN = ("fetch", "prep", "train", "distil", "evaluate", "index", "report", "publish")
"""The same in the order in which stages follow each other."""
DIAMOND_STAGES_MIN, DIAMOND_SHARE = 4, 0.5
"""Of templates with so many stages, those of which the two before the last run beside each other. A guess."""
STAGE_SIGMA = 1.0
"""Of the logarithm of the typical lengths of stages. A guess, where no trace tells them."""
GPUS, GPU_WEIGHTS = (1, 2, 4, 8), (4.0, 3.0, 2.0, 2.0)
"""Of a stage. A guess too."""
MINUTES_MIN = 1.0
"""A shorter stage of a trace did not come far, and would measure starts alone."""
LONG_MINUTES = 10.0
"""A stage that usually takes longer writes checkpoints."""
CHECKPOINT_SECONDS = (300.0, 600.0)
INPUT_SIZES = (20, 2_000)
"""Between which the usual size of a template's input lies, in its user's unit."""
WINDOW_PARTS = (0.5, 1.5)
"""A window opens after such a part of the time that the stages before it typically take."""
MIDNIGHT = Instant(0)
SPREAD = 4.0
"""Sigmas within which run times surely lie."""
NOT_OF_STAGES = (
    "kind",
    "controller",
    "unavailable_max",
    "is_strict",
    "other_kinds_share",
    "limited_share",
    "pinned_share",
    "alone_share",
    "two_jobs_share",
)
"""Fields of other loads that this one does not draw."""
Stages = Annotated[int, Meta(ge=1, le=len(STAGES))]
Slack = Annotated[float, Meta(ge=1.0, le=1_000.0)]
Factor = Annotated[float, Meta(ge=1.0, le=100.0)]
Word = Annotated[str, Meta(pattern="^[A-Za-z]{1,20}$")]


class StageTemplate(Struct, frozen=True):
    """A stage, as most runs of a template have it."""

    name: str
    minutes: float
    """Its typical run time with an input of the usual size, before `compression`."""
    gpus: int
    after: tuple[int, ...]
    """The stages that it waits for, by place; all of them are earlier ones."""


class Template(Struct, frozen=True):
    """A pipeline that recurs."""

    name: str
    """Letters alone, so that they are all that its runs' families differ by from those of other templates."""
    stages: tuple[StageTemplate, ...]
    input_size: int
    """The usual size of its input, in its user's unit."""
    tenant: TenantName
    priority: int | None
    hardware: RegionSpec
    """A region that could hold each of its stages."""
    data: tuple[DatasetName, ...] = ()
    """What its first stage reads."""

    def steps(self, last: DailyWindow | None = None) -> list[Step]:
        """Return its stages as the arithmetic of pipelines has them; the last one may begin in a window."""
        windows = [None] * (len(self.stages) - 1) + [last]
        return [Step(one.after, window) for one, window in zip(self.stages, windows, strict=True)]


class Pipelines(Workload, frozen=True, kw_only=True):
    """So many runs of templates, most of them in bursts. All runs of a template are of one tenant, and have the same stages."""

    workloads: Count = 0
    """Must not be said: `pipelines` tells how many there are."""
    pipelines: Positive
    """Runs, beside the earlier ones."""
    templates: Positive = 15
    """Pipelines that recur; there are about as many runs of each."""
    called: Word = "nightly"
    """The beginning of their names. Loads with the same one, of the same tenant, have the same families."""
    stages_min: Stages = 3
    stages_max: Stages = 5
    """Stages of a template. Of half of those with four or more, two stages run beside each other."""
    burst_share: Share = 0.7
    """Who arrive in a burst; the others arrive at any time."""
    bursts: Positive = 6
    """Of the whole load."""
    burst_minutes: Minutes = 10.0
    """How long each burst lasts."""
    slack_min: Slack = 1.5
    slack_max: Slack = 3.0
    """A deadline is so many times as long as the typical run times of the template's critical path, the wait for a window included."""
    no_deadline_share: Share = 0.0
    """Who have no deadline."""
    on_late: OnLate = OnLate.REFUSE
    """What is to become of a run that cannot meet its deadline: `refuse`, or `accept` without the deadline."""
    together: bool = True
    """Whether all stages run in one region."""
    minutes_median: Minutes = 20.0
    """Of the typical run times of stages."""
    minutes_max: Minutes = 180.0
    """The longest typical run time of a stage."""
    gpus_max: Positive | None = 8
    """Of one stage."""
    sigma: NotNegative = 0.25
    """Of the logarithm of a stage's run time, from run to run."""
    long_share: Share = 0.15
    """Runs with an input that is larger than usual."""
    long_factor: Factor = 2.5
    """By so much it is larger, and all stages take so much longer."""
    tells_size: bool = True
    """Whether users say how large the input is."""
    told: bool = False
    """Whether users say of each stage how long it will run, rightly; then each run's families are its own, so that nothing else is known."""
    earlier_runs: Count = 0
    """Runs of each template, without a deadline, before the first of the others."""
    earlier_hours: Hours = 24.0
    """Over which these arrive evenly; only after that the others do, for `hours`."""
    window_share: Share = 0.0
    """Runs of which the last stage may begin at a time of day alone, about when the stages before it are through. The load must begin at
    midnight, as in the simulated world."""
    window_hours: Hours = 6.0
    """How long such a window lasts."""
    trace: str = ""
    """A folder with the Philly trace: the run times and GPUs of stages are those of its jobs, but for larger and longer ones than are allowed
    here, and those of less than a minute."""
    fails_share: Share = 0.0
    """Stages that fail once they ran for a while, in each attempt."""
    cancels_share: Share = 0.0
    """Pipelines that are cancelled whole; a hold or a requeue is of one stage."""

    @property
    def amount(self) -> int:
        """The number of pipelines."""
        return self.pipelines

    def of_amount(self, amount: int) -> Self:
        """Return the same load with another number of pipelines."""
        return replace(self, pipelines=amount)

    @property
    def earlier_span(self) -> float:
        """Seconds over which the earlier runs arrive."""
        return 3600 * self.earlier_hours / self.compression if self.earlier_runs else 0.0

    @property
    def span(self) -> float:
        """Seconds over which all arrive."""
        return self.earlier_span + super().span

    @property
    def lasts(self) -> float:
        """Seconds that no stage runs longer than."""
        return super().lasts * self.long_factor * math.exp(SPREAD * self.sigma)

    def problem(self, fleet: FleetSpec, path: Steps) -> FieldError | None:
        """What is wrong with it on this fleet."""
        for name, problem in self._problems().items():
            if problem:
                return FieldError((*path, name), problem)
        try:
            self.lengths()
        except FieldError as error:
            return FieldError((*path, *error.path), error.text)
        return super().problem(fleet, path)

    def _problems(self) -> dict[str, str]:
        """Return by field what no fleet mends; empty texts where nothing is wrong."""
        known = {field.name: field.default for field in fields(Workload)}
        not_drawn = {
            name: "stages of pipelines have none"
            for name in NOT_OF_STAGES
            if getattr(self, name) != known[name]
        }
        shorter = f"a burst of {self.burst_minutes:g} minutes does not fit in {self.hours:g} hours"
        return {
            "workloads": "how many there are is said by `pipelines`" if self.workloads else "",
            "stages_max": "it is less than `stages_min`" if self.stages_max < self.stages_min else "",
            "slack_max": "it is less than `slack_min`" if self.slack_max < self.slack_min else "",
            "burst_minutes": shorter if self.burst_minutes > 60 * self.hours else "",
            **not_drawn,
        }

    def lengths(self) -> Sequence[tuple[float, int]]:
        """Return the minutes and GPUs of the trace's jobs that may be stages; empty without a trace. Raises FieldError."""
        if not self.trace:
            return ()
        try:
            jobs = Philly(workloads=1, hours=1.0, directory=self.trace).jobs()
        except FieldError as error:
            raise FieldError(("trace",), error.text) from error
        found = [
            (job.seconds / 60, job.gpus)
            for job in jobs
            if job.seconds is not None
            and MINUTES_MIN <= job.seconds / 60 <= self.minutes_max
            and job.gpus <= (self.gpus_max or job.gpus)
        ]
        if not found:
            raise FieldError(("trace",), "none of its jobs is as short and as small as this")
        return found

    def times(self, dice: random.Random) -> list[float]:
        """When each arrives, as a share of `hours`: most in a burst that is drawn for it, and at a time within that."""
        length = self.burst_minutes / (60 * self.hours)
        begins = [dice.uniform(0.0, 1.0 - length) for _ in range(self.bursts)]
        return [
            dice.choice(begins) + dice.uniform(0.0, length)
            if dice.random() < self.burst_share
            else dice.random()
            for _ in range(self.pipelines)
        ]

    def arrivals(self, fleet: FleetSpec, dice: random.Random) -> list[Arrival]:
        """All of them, by arrival: the earlier runs, template by template in turn, and then the others."""
        templates = templates_of(dice, self, fleet)
        every = self.earlier_span / max(1, self.earlier_runs * len(templates))
        earlier = [
            (every * place, place % len(templates)) for place in range(self.earlier_runs * len(templates))
        ]
        wanted = [number % len(templates) for number in range(self.pipelines)]
        dice.shuffle(wanted)
        begins, span = self.earlier_span, super().span
        later = sorted(begins + share * span for share in self.times(dice))
        counts = [0] * len(templates)
        found = []
        for at, place in [*earlier, *zip(later, wanted, strict=True)]:
            spec, _ = a_run(
                templates[place],
                dice,
                self,
                counts[place],
                at=Instant(seconds(at)),
                is_earlier=counts[place] < self.earlier_runs,
            )
            counts[place] += 1
            arrival = self.arrival(spec.stages[0].workload, at, dice)
            found.append(replace(arrival, pipeline=spec, stage=dice.randrange(len(spec.stages))))
        return found


def templates_of(dice: random.Random, load: Pipelines, fleet: FleetSpec) -> list[Template]:
    """Return the templates of a load; each could run in a region of the fleet. Raises FieldError for a trace that cannot be read."""
    lengths = load.lengths()
    found = []
    for number in range(load.templates):
        hardware = draw_region(fleet, dice, load.gpu_type)
        count = dice.randint(load.stages_min, load.stages_max)
        names = sorted(STAGES[:count], key=IN_TURN.index)
        is_diamond = dice.random() < DIAMOND_SHARE and count >= DIAMOND_STAGES_MIN
        stages = [
            StageTemplate(name, minutes, load.at_most(gpus, hardware), _after(place, count, is_diamond))
            for place, name in enumerate(names)
            for minutes, gpus in [_length(dice, load, lengths)]
        ]
        low, high = INPUT_SIZES
        found.append(
            Template(
                name=load.called + letters_of(number),
                stages=tuple(stages),
                input_size=round(low * (high / low) ** dice.random()),
                tenant=load.draw_tenant(dice),
                priority=load.draw_priority(dice),
                hardware=hardware,
                data=(DatasetName(dice.choice(load.data)),) if load.data else (),
            )
        )
    return found


def a_run(
    template: Template,
    dice: random.Random,
    load: Pipelines,
    number: int,
    *,
    at: Instant = MIDNIGHT,
    is_earlier: bool = False,
) -> tuple[PipelineSpec, dict[str, Nanoseconds]]:
    """Return one run of a template, and by stage how long it runs if nothing interrupts it.

    Dice are thrown alike whatever the load says of deadlines, sizes and words: loads that differ in these alone have the same runs.

    number       tells the runs of a template apart
    at           when it is submitted, from a midnight on
    is_earlier   whether it is one of the runs without a deadline before the others
    """
    is_long = dice.random() < load.long_share
    slack = dice.uniform(load.slack_min, load.slack_max)
    has_deadline = dice.random() >= load.no_deadline_share and not is_earlier
    has_window, part = dice.random() < load.window_share, dice.uniform(*WINDOW_PARTS)
    typical = [seconds(60 * one.minutes / load.compression) for one in template.stages]
    window = _window(template, load, typical, at, part) if has_window and not is_earlier else None
    path = earliest_end(template.steps(window), typical, at) - at
    factor = load.long_factor if is_long else 1.0
    size = round(template.input_size * factor) if load.tells_size else 0
    name = f"{template.name}-{f'run{letters_of(number)}' if load.told else number}"
    stages, spans = [], {}
    for place, (one, step) in enumerate(zip(template.stages, template.steps(window), strict=True)):
        called = f"{name}.{one.name}" if len(template.stages) > 1 else name
        drawn = _workload(template, one, load, factor, dice)
        (job,) = drawn.jobs
        assert job.emulation is not None, "a drawn load is emulated"
        spans[one.name] = span = job.emulation.work
        expected = span if load.told else NEVER
        data = () if place else template.data
        spec = replace(drawn, name=called, expected=expected, input_size=size, data=data)
        after = tuple(template.stages[before].name for before in one.after)
        stages.append(StageSpec(one.name, spec, after, step.begins))
    within = Nanoseconds(round(slack * path) if has_deadline else NEVER)
    found = PipelineSpec(name, tuple(stages), within=within, on_late=load.on_late, is_together=load.together)
    return found, spans


def letters_of(number: int) -> str:
    """Return a number from 0 on as letters: a to z, then aa, ab and so on."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def _length(dice: random.Random, load: Pipelines, lengths: Sequence[tuple[float, int]]) -> tuple[float, int]:
    """Return the minutes and GPUs of a stage."""
    if lengths:
        return dice.choice(lengths)
    minutes = load.minutes_median * dice.lognormvariate(0.0, STAGE_SIGMA)
    return min(minutes, load.minutes_max), dice.choices(GPUS, GPU_WEIGHTS)[0]


def _after(place: int, count: int, is_diamond: bool) -> tuple[int, ...]:
    """Return the places of the stages that one waits for. Of a diamond the two before the last one wait for the same, and it for both."""
    if is_diamond and place == count - 1:
        return place - 2, place - 1
    if is_diamond and place == count - 2:
        return (place - 2,)
    return (place - 1,) if place else ()


def _window(
    template: Template, load: Pipelines, typical: Sequence[Nanoseconds], at: Instant, part: float
) -> DailyWindow:
    """Return a window that opens when a part of the time has passed that the stages before the last one take."""
    count = len(template.stages)
    nothing = [Nanoseconds(0)] * count
    spans = forecast(template.steps(), typical, nothing, [Known()] * count, at)
    opens = at + round(part * (spans[-1].starts_at - at))
    lasts = seconds(3600 * load.window_hours / load.compression)
    return DailyWindow(Nanoseconds(opens % DAY), Nanoseconds(min(lasts, DAY)))


def _workload(
    template: Template, stage: StageTemplate, load: Pipelines, factor: float, dice: random.Random
) -> WorkloadSpec:
    """Return the workload of a stage, without what its pipeline says of it."""
    work = 60 * stage.minutes * factor * dice.lognormvariate(0.0, load.sigma)
    emulation = load.emulation(work, dice)
    every = seconds(dice.uniform(*CHECKPOINT_SECONDS) / load.compression)
    saves = emulation.checkpoint_every and stage.minutes > LONG_MINUTES
    emulation = replace(emulation, checkpoint_every=every if saves else NEVER)
    return WorkloadSpec(
        name="",
        jobs=(load.job(template.hardware, stage.gpus, emulation),),
        tenant=template.tenant,
        priority=template.priority,
        retry=draw_retry(dice),
        move_after=seconds(load.move_after_seconds),
        checkpoint_bytes=round(load.checkpoint_gib * (1 << 30)),
    )
