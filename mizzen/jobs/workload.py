"""A workload of a job file: one mapping of fields becomes its jobs and all that holds for them together."""

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from core.nouns.ids import DatasetName, RegionName, TenantName
from core.nouns.instant import Nanoseconds
from core.nouns.operation import ControlSpec
from core.nouns.workload import NEVER, JobSpec, Kind, PlacementMode, RetryLimits, WorkloadSpec
from mizzen.jobs.origins import Trail
from mizzen.jobs.parts import (
    CHECKPOINT_VARIABLE,
    OF_EACH,
    OF_JOB,
    STAND_IN,
    Around,
    longer_than_zero,
    path_of,
    read_one_job,
    read_program,
    tell_of_no_use,
    whole_seconds,
)
from mizzen.jobs.script import with_arguments
from mizzen.jobs.section import Section, as_fields, as_items, as_yes_or_no, one, word_of
from mizzen.jobs.shared import OF_SHARE, read_share, shared_kind, with_models
from mizzen.jobs.values import Unreadable, bytes_of, name_of, positive_span_of, span_of, whole_of
from runtime.yaml_tree import Fields, Place, Problem, Tree, within

OF_WORKLOAD = (
    "name", "jobs", "tenant", "priority", "kind", "regions", "max_duration", "retry", "checkpoint", "control",
    "placement", "data", "fresh_data", "on_region_loss", "share", "expected", "input",
)  # fmt: skip
OF_REGION_LOSS = ("move_after",)
OF_RETRY = ("task_failed", "start_failed")
OF_CHECKPOINT = ("dir", "every", "grace", "size")
OF_CONTROL = ("controller", "max_unavailable", "strict", "isolation")

ONLY_JOB = "main"
"""The name of a job that needs none, because it is the only one."""

_ARGUMENTS = re.compile(r"\$\{?[@*#1-9]")
_DEFAULTS = WorkloadSpec("", ())


def read_workload(top: Section, folder: Path) -> tuple[WorkloadSpec, tuple[Trail, ...]]:
    """Return the workload that a section asks for, submitted from this folder, and the way to each of its jobs."""
    jobs = _jobs(top, _around(top, folder))
    if any(job.emulation is not None for _, job in jobs) and "jobs" in top:
        tell_of_no_use(top)
    return _workload(top, tuple(job for _, job in jobs)), tuple(trail for trail, _ in jobs)


def given_to(
    workloads: Sequence[WorkloadSpec], arguments: Sequence[str], problems: list[Problem]
) -> list[WorkloadSpec]:
    """Return the workloads with arguments for their programs. One must ask for them: otherwise nobody would notice that none does."""
    if not arguments:
        return list(workloads)
    jobs = [job for workload in workloads for job in workload.jobs]
    if not any(_ARGUMENTS.search(job.program.run) for job in jobs if job.program is not None):
        problems.append(Problem(Place("arguments"), "", 'no run takes them; write "$@" where they belong'))
    return [
        replace(workload, jobs=tuple(_with_arguments(job, arguments) for job in workload.jobs))
        for workload in workloads
    ]


def named_parts(tree: Tree, field: str) -> list[tuple[Trail, str, str, Tree]]:
    """Return the parts that a field lists, or names: the way to each, its path, its name where that is its key, and its tree.

    Raises Unreadable.
    """
    if isinstance(tree, Fields):
        return [((field, name), within(field, name), name, part) for name, part in tree.entries.items()]
    return [((field, index), f"{field}[{index}]", "", part) for index, part in enumerate(as_items(tree))]


def _with_arguments(job: JobSpec, arguments: Sequence[str]) -> JobSpec:
    if job.program is None:
        return job
    return replace(job, program=replace(job.program, run=with_arguments(job.program.run, arguments)))


def _workload(top: Section, jobs: tuple[JobSpec, ...]) -> WorkloadSpec:
    if "name" not in top:
        top.missing("name", "say what to call it")
    checkpoint, retry = top.section("checkpoint"), top.section("retry", OF_RETRY)
    if checkpoint is not None and any(job.emulation is not None for job in jobs):
        tell_of_no_use(checkpoint, ("dir", "every"))
    loss = top.section("on_region_loss", OF_REGION_LOSS)
    kind = top.read("kind", one(_kind), _kind_without_word(top))
    share = top.section("share", OF_SHARE)
    if share is not None:
        kind = shared_kind(top, kind)
    spec = WorkloadSpec(
        name=top.read("name", one(str), STAND_IN.name),
        jobs=jobs,
        tenant=TenantName(top.read("tenant", one(name_of), str(_DEFAULTS.tenant))),
        priority=top.read("priority", one(whole_of), _DEFAULTS.priority),
        kind=kind,
        regions=tuple(RegionName(name) for name in top.items("regions", one(name_of))),
        retry=_retry(retry, kind),
        max_duration=top.read("max_duration", one(span_of), NEVER),
        grace=NEVER if checkpoint is None else _grace(checkpoint),
        control=_control(top.section("control", OF_CONTROL), kind),
        placement=top.read("placement", one(_placement), _DEFAULTS.placement),
        data=tuple(DatasetName(name) for name in top.items("data", one(name_of))),
        checkpoint_bytes=0 if checkpoint is None else checkpoint.read("size", one(bytes_of), 0),
        needs_fresh_data=top.read("fresh_data", as_yes_or_no, _DEFAULTS.needs_fresh_data),
        share=None if share is None else read_share(share),
        move_after=NEVER if loss is None else loss.read("move_after", one(longer_than_zero), NEVER),
        expected=top.read("expected", one(positive_span_of), NEVER),
        input_size=top.read("input", one(bytes_of), _DEFAULTS.input_size),
    )
    return spec if share is None else with_models(spec)


def _kind_without_word(top: Section) -> Kind:
    """Return the kind of a workload that names none."""
    if "serve" in top:
        return Kind.SERVICE
    return Kind.FUNCTION if "map" in top else _DEFAULTS.kind


def _grace(checkpoint: Section) -> Nanoseconds:
    return checkpoint.read("grace", one(longer_than_zero), NEVER)


def _control(control: Section | None, kind: Kind) -> ControlSpec:
    """Who must agree before tasks are touched. What would have no effect is told: somebody relies on it."""
    default = ControlSpec()
    if control is None:
        return default
    is_strict = control.read("strict", as_yes_or_no, default.is_strict)
    if "max_unavailable" in control and kind != Kind.SERVICE:
        control.misplaced(
            "max_unavailable",
            f"the tasks of kind {kind} are touched together; leave it out, or let kind be service",
        )
    if "isolation" in control and not is_strict:
        control.misplaced(
            "isolation", "only strict work stops by itself; leave it out, or let strict be true"
        )
    return ControlSpec(
        controller=control.read("controller", one(str), default.controller),
        unavailable_max=control.read("max_unavailable", one(_one_at_least), default.unavailable_max),
        is_strict=is_strict,
        isolation=control.read("isolation", one(longer_than_zero), default.isolation),
    )


def _one_at_least(text: str) -> int:
    count = whole_of(text)
    if count < 1:
        raise Unreadable(
            f"{count} would let nothing ever be done; without it a tenth may be down, and one at least"
        )
    return count


def _retry(retry: Section | None, kind: Kind) -> RetryLimits:
    """A service whose file says nothing has its tasks started again for ever."""
    default = replace(_DEFAULTS.retry, task_failed=-1) if kind == Kind.SERVICE else _DEFAULTS.retry
    if retry is None:
        return default
    return RetryLimits(
        task_failed=retry.read("task_failed", one(whole_of), default.task_failed),
        start_failed=retry.read("start_failed", one(whole_of), default.start_failed),
    )


def _kind(text: str) -> Kind:
    return Kind(word_of(text, [kind for kind in Kind if kind is not Kind.SHARED], "kind of work"))


def _placement(text: str) -> PlacementMode:
    return PlacementMode(word_of(text, list(PlacementMode), "way to place it"))


def _around(top: Section, folder: Path) -> Around:
    """What programs find, whatever their job says. Fields of programs at the top are part of it."""
    assert STAND_IN.program is not None
    program = replace(STAND_IN.program, directory=str(folder))
    checkpoint = top.section("checkpoint", OF_CHECKPOINT)
    if checkpoint is not None:
        every = checkpoint.read("every", one(whole_seconds), 0)
        directory = checkpoint.read("dir", lambda tree: path_of(tree, folder), "")
        env = {CHECKPOINT_VARIABLE: str(every)} if every else {}
        program = replace(program, checkpoint_dir=directory, env=env)
    around = Around(folder, program)
    return Around(folder, read_program(top, around)) if "jobs" in top else around


def _jobs(top: Section, around: Around) -> list[tuple[Trail, JobSpec]]:
    """Each job and the way to it: the only one is the top itself, several are a list, or a mapping by name."""
    if "jobs" not in top:
        return [((), read_one_job(top, ONLY_JOB, around))]
    for name in OF_EACH:
        if name in top:
            top.misplaced(name, "it belongs to each of the jobs")
    named = top.read("jobs", lambda tree: named_parts(tree, "jobs"), None)
    found: list[tuple[Trail, JobSpec]] = []
    for trail, path, name, tree in named or ():
        try:
            fields = as_fields(tree)
        except Unreadable as error:
            top.problems.append(Problem(tree.place, path, str(error)))
            continue
        job = Section(fields, top.problems, path, OF_JOB if name else ("name", *OF_JOB))
        if not name and "name" not in job:
            job.missing("name", "each job has one")
        called = name or job.read("name", one(str), f"{STAND_IN.name}-{len(found)}")
        found.append((trail, read_one_job(job, called, around)))
    if named == []:
        return []
    return found or [((), STAND_IN)]
