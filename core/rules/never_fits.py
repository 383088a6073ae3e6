"""The reasons why a fleet could never hold a workload, even if all nodes were empty: in numbers, and job by job.

Such a workload is one for which `could_fit` (core/rules/submission.py) is false in every region; each reason names the figures
that would have to change.
"""

from collections.abc import Iterable, Mapping, Sequence

from core.images.region import Hardware, HardwareRow
from core.nouns.fleet import ANY_TYPE, gpu_type_of, node_type_of, will_do
from core.nouns.ids import RegionName
from core.nouns.quantities import MILLI
from core.nouns.workload import ANY_TEXT, JobSpec, WorkloadSpec

TYPES_NAMED_MAX = 10
"""The most GPU types named in one text. A fleet has a handful; a sentence holds no more."""


def reasons_never(spec: WorkloadSpec, hardware: Mapping[RegionName, Hardware]) -> tuple[str, ...]:
    """Return the reasons why no region of these could hold a workload, each with its field."""
    where = f"region {next(iter(hardware))}" if len(hardware) == 1 else "the fleet"
    if spec.regions and len(hardware) > 1:
        where = f"regions {' and '.join(hardware)}"
    found = []
    for index, job in enumerate(spec.jobs):
        reason = _of_job(job, [region.rows for region in hardware.values()], where)
        found += [f"jobs[{index}].{reason}"] if reason else []
    return tuple(found) or (_of_all(spec.jobs, hardware, where),)


def _of_job(job: JobSpec, regions: Sequence[Mapping[str, HardwareRow]], where: str) -> str:
    """Return the reason why no region could hold this job alone; empty if one could."""
    rows = [row for region in regions for node_type, row in region.items() if job.takes(node_type)]
    if not rows:
        return f"gpu_type: {_of_type(job, regions, where)}"
    per_node = max(row.gpu_milli_max for row in rows)
    if job.need.gpu_milli > per_node:
        asked = f"a task asks for {_asked(job.need.gpu_milli, job.type_text)}"
        return f"need.gpu_milli: {asked}, and no node of {where} has more than {_count(per_node)}"
    in_all = max(row.gpu_milli for row in rows if row.gpu_milli_max >= job.need.gpu_milli)
    wanted = job.need.gpu_milli * job.tasks
    if wanted > in_all:
        asked = f"{job.tasks} tasks ask for {_asked(wanted, job.type_text)}"
        kind = "" if job.has_one_type else " of one type"
        most = f"no region with such nodes has more than {_count(in_all)}{kind}"
        has = f"{where} has {_count(in_all)}{kind}" if len(regions) == 1 else most
        return f"tasks: {asked}, and {has}"
    return ""


def _of_type(job: JobSpec, regions: Sequence[Mapping[str, HardwareRow]], where: str) -> str:
    """Return the reason for which no node suits the job: no node of the requested type, or only nodes for other kinds of work."""
    runs_programs = job.program is not None
    others = {node_type_of(name, runs_programs=not runs_programs) for name in (job.gpu_type, *job.or_types)}
    verb = "have" if where.startswith("regions") else "has"
    has = f"{where} {verb} {_named(regions, runs_programs=runs_programs)}"
    is_for_gpus = job.need.gpu_milli > 0
    if job.gpu_type == ANY_TYPE:
        work = "programs" if runs_programs else "emulated work"
        return f"no node{' with GPUs' if is_for_gpus else ''} is for {work}; for that {has}"
    if any(will_do(name, tuple(others), is_for_gpus=is_for_gpus) for rows in regions for name in rows):
        if runs_programs:
            return f"all nodes with {job.type_text} are emulated and run no programs; for programs {has}"
        return f"all nodes with {job.type_text} run programs and emulate none; for emulated work {has}"
    return f"no node has {job.type_text}; {has}"


def _named(regions: Iterable[Mapping[str, HardwareRow]], *, runs_programs: bool) -> str:
    """Return the GPU types of nodes for such work, each with the most GPUs that one node has."""
    most: dict[str, int] = {}
    for rows in regions:
        for node_type, row in rows.items():
            gpu_type, is_for_programs = gpu_type_of(node_type)
            if is_for_programs == runs_programs:
                most[gpu_type] = max(most.get(gpu_type, 0), row.gpu_milli_max)
    named = [f"{gpu_type} ({_count(most[gpu_type])} a node)" for gpu_type in sorted(most)]
    more = [f"{len(named) - TYPES_NAMED_MAX} more"] if len(named) > TYPES_NAMED_MAX else []
    return ", ".join([*named[:TYPES_NAMED_MAX], *more]) or "none"


def _of_all(jobs: Sequence[JobSpec], hardware: Mapping[RegionName, Hardware], where: str) -> str:
    """Return the reason where each job would fit somewhere by itself, but no region holds all jobs together."""
    wanted: dict[str, int] = {}
    for job in jobs:
        wanted[job.type_text] = wanted.get(job.type_text, 0) + job.need.gpu_milli * job.tasks
    asked = " and ".join(_asked(amount, type_text) for type_text, amount in wanted.items())
    has = (
        f"{where} has not as much" if len(hardware) == 1 else "no region has as much; one must hold them all"
    )
    return f"jobs: together they ask for {asked}, and {has}"


def _asked(gpu_milli: int, type_text: str) -> str:
    of = "GPUs of " if type_text == ANY_TEXT else ""
    return f"{_count(gpu_milli)} {of}{type_text}"


def _count(gpu_milli: int) -> str:
    return f"{gpu_milli / MILLI:g}" if gpu_milli % MILLI else str(gpu_milli // MILLI)
