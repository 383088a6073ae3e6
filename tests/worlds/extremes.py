"""Workloads with extreme values: every field of a submission has ordinary values, and the least and the most that are accepted."""

from typing import Any

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields, replace

from core.nouns.harvest import IDLE_SPANS_MAX, LEND_INTERVAL
from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds
from core.nouns.limits import (
    CHECKPOINT_BYTES_MAX,
    CHECKPOINT_EVERY_MIN,
    EXIT_CODE_MAX,
    ISOLATION_MAX,
    ISOLATION_MIN,
    NAME_LENGTH_MAX,
    NEED_MAX,
    NODE_BYTES_MAX,
    NODE_CPU_MILLI_MAX,
    NODE_GPU_MILLI_MAX,
    NUMBER_MAX,
    RETRIES_MAX,
    SPAN_MAX,
    TASKS_MAX,
    WEIGHT_MAX,
)
from core.nouns.operation import ControlSpec
from core.nouns.pipeline import DAY, DailyWindow, OnLate, PipelineSpec, StageSpec
from core.nouns.quantities import Amount
from core.nouns.sharing import WHOLE, ShareSpec
from core.nouns.workload import (
    Emulation,
    Extent,
    JobSpec,
    Kind,
    PlacementMode,
    Program,
    RetryLimits,
    Serves,
    Topology,
    WorkloadSpec,
)
from core.rules.submission import problems_of

Values = dict[str, tuple[Any, ...]]  # Any: each field has a type of its own
LONGEST = "n" * NAME_LENGTH_MAX
BEYOND = (NUMBER_MAX, NUMBER_MAX + 1, (1 << 64) - 1)
"""Numbers that a message just holds, or a log does not."""
SPANS = (0, 1, 60 * SECOND, SPAN_MAX, SPAN_MAX + 1, *BEYOND)

OF_AMOUNT: Values = {
    "gpu_milli": (0, 1, 500, 1_000, 8_000, 9_000, NODE_GPU_MILLI_MAX, 3_000_000_000, NEED_MAX // 1000 * 1000),
    "cpu_milli": (0, 1, 96_000, 96_001, NODE_CPU_MILLI_MAX, (1 << 31) - 1, 1 << 31, 3_000_000_000, NEED_MAX),
    "memory_bytes": (0, 1, 1 << 40, (1 << 40) + 1, NODE_BYTES_MAX, NEED_MAX, NEED_MAX + 1),
}
OF_EMULATION: Values = {
    "work": (1, 30 * SECOND, *SPANS),
    "checkpoint_every": (1, CHECKPOINT_EVERY_MIN, *SPANS),
    "fails_after": SPANS,
    "exit_code": (0, 1, 85, EXIT_CODE_MAX, *BEYOND),
    "stop_span": SPANS,
    "set_up": SPANS,
    "steps": (0, 1, 1_000, NEED_MAX, *BEYOND),
    "speeds": ((), (("H100", 1),), (("H100", 1_000_000), ("A100", NEED_MAX)), (("H100", NEED_MAX + 1),)),
    "model": ("", "m", LONGEST, "?"),
    "beside": ((), (("m", 1),), (("m", WHOLE), (LONGEST, 1)), (("m", 0),), (("m", WHOLE + 1),)),
    "idle": (
        (),
        ((LEND_INTERVAL, 0), (LEND_INTERVAL, 1)),
        ((60 * SECOND, 8),) * IDLE_SPANS_MAX,
        ((SPAN_MAX, 8), (SPAN_MAX + 1, NUMBER_MAX)),
        ((1, 1),),
        ((60 * SECOND, -1),),
        ((60 * SECOND, 1),) * (IDLE_SPANS_MAX + 1),
    ),
    "keeps_bytes": (0, 1, NODE_BYTES_MAX, NEED_MAX, NEED_MAX + 1, -1),
}
OF_PROGRAM: Values = {
    "run": ("true", "x" * 1_000),
    "directory": ("/", ""),
    "env": ({}, {"A" * 200: "b" * 200}),
    "secrets": ((), ("TOKEN",)),
    "checkpoint_dir": ("", "/checkpoints"),
    "early_warning": SPANS,
    "has_slurm_env": (True,),
}
OF_TOPOLOGY: Values = {
    "pack": tuple(Extent),
    "spread": tuple(Extent),
    "tasks_per_node": (0, 1, 40_000, TASKS_MAX, TASKS_MAX + 1),
    "zones": ((), ("zone-0",), ("nowhere",)),
    "near": ((), ("zone-1",), ("nowhere",)),
}
OF_JOB: Values = {
    "name": ("j", LONGEST),
    "tasks": (1, 2, 9, 33, 64, 65, 32_768, TASKS_MAX, TASKS_MAX + 1),
    "gpu_type": ("H100", "A100", "cpu", "any", "B200", "H100 (real)", ""),
    "gpu_memory": (0, 1, 80 << 30, NEED_MAX, NEED_MAX + 1),
    "is_alone": (True,),
    "or_types": ((), ("A100",), ("A100", "B200")),
    "serves": tuple(Serves),
}
OF_RETRY: Values = {
    "task_failed": (-1, 0, 1, RETRIES_MAX, *BEYOND),
    "start_failed": (0, 1, RETRIES_MAX, *BEYOND),
}
OF_CONTROL: Values = {
    "controller": ("", "nobody"),
    "unavailable_max": (0, 1, TASKS_MAX, TASKS_MAX + 1),
    "is_strict": (True,),
    "isolation": (ISOLATION_MIN, ISOLATION_MAX, *SPANS),
}
OF_WORKLOAD: Values = {
    "name": ("w", LONGEST),
    "tenant": ("default", "t", LONGEST),
    "priority": (None, 0, 6, 7, -1),
    "kind": tuple(Kind),
    "regions": ((), ("r0",), ("r1", "r0"), ("r2",)),
    "max_duration": SPANS,
    "grace": SPANS,
    "placement": tuple(PlacementMode),
    "data": ((), ("clicks",)),
    "checkpoint_bytes": (0, 1, CHECKPOINT_BYTES_MAX, *BEYOND),
    "needs_fresh_data": (True,),
    "move_after": SPANS,
    "expected": SPANS,
    "input_size": (0, 1, 1 << 40, NEED_MAX, *BEYOND),
    "share": (
        None,
        ShareSpec(),
        ShareSpec(LONGEST, {"H100": 1}, NEED_MAX, 1, LONGEST, Nanoseconds(SPAN_MAX)),
        ShareSpec("m", {"H100": NEED_MAX}, 1, WEIGHT_MAX, "e", Nanoseconds(1)),
        ShareSpec("m", {"K80": 0}, NEED_MAX + 1, 0, "?", Nanoseconds(-1)),
        ShareSpec("m", beside={LONGEST: 1, "m": WHOLE}),
        ShareSpec("m", beside={"?": 0, "m": WHOLE + 1}),
    ),
}
PARTS: dict[type[Struct], Values] = {
    Amount: OF_AMOUNT,
    Emulation: OF_EMULATION,
    Program: OF_PROGRAM,
    Topology: OF_TOPOLOGY,
    JobSpec: OF_JOB,
    RetryLimits: OF_RETRY,
    ControlSpec: OF_CONTROL,
    WorkloadSpec: OF_WORKLOAD,
}
HELD_ELSEWHERE = {
    JobSpec: {"need", "emulation", "program", "topology"},
    WorkloadSpec: {"jobs", "retry", "control"},
}
"""Fields whose own fields are drawn."""


def missing_fields() -> list[str]:
    """Return the fields of a submission for which no values are named here."""
    return [
        f"{part.__name__}.{field.name}"
        for part, values in PARTS.items()
        for field in fields(part)
        if field.name not in values and field.name not in HELD_ELSEWHERE.get(part, ())
    ]


def _changed(part: Struct, most: int) -> st.SearchStrategy[Any]:
    """Draw the part with other values of a few fields, none as a rule."""
    values = PARTS[type(part)]
    names = st.lists(st.sampled_from(sorted(values)), max_size=most, unique=True)
    return names.flatmap(
        lambda chosen: st.tuples(*(st.sampled_from(values[name]) for name in chosen)).map(
            lambda drawn: replace(part, **dict(zip(chosen, drawn, strict=True)))
        )
    )


@st.composite
def jobs(draw: st.DrawFn, *, of_programs: bool) -> JobSpec:
    """Draw a job with some extreme values."""
    job = JobSpec("main", 1, Amount(1_000, 1_000, 1 << 30), "H100")
    if of_programs:
        job = replace(job, program=draw(_changed(Program("true"), 2)))
    else:
        job = replace(job, emulation=draw(_changed(Emulation(seconds(30)), 2)))
    topology = draw(_changed(Topology(), 1))
    job = replace(job, need=draw(_changed(job.need, 2)), topology=topology)
    changed: JobSpec = draw(_changed(job, 2))
    return changed


@st.composite
def workloads(draw: st.DrawFn) -> WorkloadSpec:
    """Draw a workload of one or two jobs with some extreme values."""
    of_programs = draw(st.integers(0, 7)) == 7
    mine = [draw(jobs(of_programs=of_programs))]
    if draw(st.integers(0, 3)) == 3:
        mine.append(replace(draw(jobs(of_programs=of_programs)), name="other"))
    spec = WorkloadSpec("w", tuple(mine))
    spec = replace(spec, retry=draw(_changed(spec.retry, 1)), control=draw(_changed(spec.control, 2)))
    changed: WorkloadSpec = draw(_changed(spec, 2))
    return changed


PIPELINE_SPANS = (0, 1, 60 * SECOND, 3_600 * SECOND, SPAN_MAX)
WINDOWS = (
    None,
    None,
    DailyWindow(Nanoseconds(0), Nanoseconds(1)),
    DailyWindow(Nanoseconds(0), DAY),
    DailyWindow(Nanoseconds(DAY - 1), DAY),
)


def longest_pipeline() -> PipelineSpec:
    """Return eight stages in a chain, each of a hundred years: its end, and the first start deadline, are no instants that a log could hold."""
    job = JobSpec("main", 1, Amount(1_000, 1_000, 1 << 30), "H100", Emulation(seconds(30)))
    names = [f"s{place}" for place in range(8)]
    stages = tuple(
        StageSpec(
            name,
            WorkloadSpec(f"p.{name}", (job,), expected=SPAN_MAX),
            tuple(names[max(0, place - 1) : place]),
        )
        for place, name in enumerate(names)
    )
    return PipelineSpec("p", stages, within=SPAN_MAX, on_late=OnLate.ACCEPT)


@st.composite
def pipelines(draw: st.DrawFn) -> PipelineSpec:
    """Draw a pipeline of up to eight stages with extreme deadlines, windows and run times, and plain workloads."""
    count, is_chain = draw(st.integers(1, 8)), draw(st.booleans())
    names = [f"s{place}" for place in range(count)]
    stages = []
    for place, name in enumerate(names):
        after = names[max(0, place - 1) : place]
        if place and not is_chain:
            after = draw(st.lists(st.sampled_from(names[:place]), unique=True))
        expected, size = draw(st.sampled_from(PIPELINE_SPANS)), draw(st.sampled_from((0, 1, NEED_MAX)))
        spec = WorkloadSpec(
            f"p.{name}" if count > 1 else "p",
            (
                JobSpec(
                    "main",
                    1,
                    Amount(1_000, 1_000, 1 << 30),
                    "H100",
                    Emulation(seconds(draw(st.integers(1, 40)))),
                ),
            ),
            expected=Nanoseconds(expected),
            input_size=size,
        )
        stages.append(StageSpec(name, spec, tuple(after), draw(st.sampled_from(WINDOWS))))
    within, deadline = Nanoseconds(draw(st.sampled_from(PIPELINE_SPANS))), Instant(0)
    if draw(st.booleans()):
        within, deadline = Nanoseconds(0), Instant(draw(st.sampled_from((NUMBER_MAX, NUMBER_MAX - 1))))
    on_late, is_together = draw(st.sampled_from(OnLate)), draw(st.booleans())
    return PipelineSpec("p", tuple(stages), deadline, within, on_late, is_together)


def well_formed() -> st.SearchStrategy[WorkloadSpec]:
    """Draw a workload that no submission refuses for itself alone."""
    return workloads().filter(lambda spec: not problems_of(spec))


def mostly_accepted() -> st.SearchStrategy[WorkloadSpec]:
    """Draw a workload, three of four well formed: what is not is refused at once."""
    return st.integers(0, 3).flatmap(lambda number: workloads() if number == 3 else well_formed())
