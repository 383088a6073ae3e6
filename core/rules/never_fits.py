"""Why a fleet could never hold a workload, were it all empty: in numbers, and job by job.

It equals `could_fit` of every region being false (core/rules/submission.py), and says what somebody would have to change.
"""

from collections.abc import Iterable, Mapping, Sequence

from core.images.region import Hardware, HardwareRow
from core.nouns.fleet import gpu_type_of, node_type_of
from core.nouns.ids import RegionName
from core.nouns.quantities import MILLI
from core.nouns.workload import JobSpec, WorkloadSpec

TYPES_NAMED_MAX = 10
"""A fleet has a handful; a sentence holds no more."""


def reasons_never(spec: WorkloadSpec, hardware: Mapping[RegionName, Hardware]) -> tuple[str, ...]:
    """What keeps a workload from each of these regions, none of which could hold it; each with its field."""
    where = f"region {next(iter(hardware))}" if len(hardware) == 1 else "the fleet"
    if spec.regions and len(hardware) > 1:
        where = f"regions {' and '.join(hardware)}"
    found = []
    for index, job in enumerate(spec.jobs):
        reason = _of_job(job, [region.rows for region in hardware.values()], where)
        found += [f"jobs[{index}].{reason}"] if reason else []
    return tuple(found) or (_of_all(spec.jobs, hardware, where),)


def _of_job(job: JobSpec, regions: Sequence[Mapping[str, HardwareRow]], where: str) -> str:
    """Why no region could hold this job alone; empty when one could."""
    rows = [rows[job.node_type] for rows in regions if job.node_type in rows]
    if not rows:
        return f"gpu_type: {_of_type(job, regions, where)}"
    per_node = max(row.gpu_milli_max for row in rows)
    if job.need.gpu_milli > per_node:
        asked = f"a task asks for {_count(job.need.gpu_milli)} {job.gpu_type}"
        return f"need.gpu_milli: {asked}, and no node of {where} has more than {_count(per_node)}"
    in_all = max(row.gpu_milli for row in rows if row.gpu_milli_max >= job.need.gpu_milli)
    wanted = job.need.gpu_milli * job.tasks
    if wanted > in_all:
        asked = f"{job.tasks} tasks ask for {_count(wanted)} {job.gpu_type}"
        most = f"no region with such nodes has more than {_count(in_all)}"
        has = f"{where} has {_count(in_all)}" if len(regions) == 1 else most
        return f"tasks: {asked}, and {has}"
    return ""


def _of_type(job: JobSpec, regions: Sequence[Mapping[str, HardwareRow]], where: str) -> str:
    """No node is of the type that it asks for, or only nodes that are not for such work."""
    runs_programs = job.program is not None
    other = node_type_of(job.gpu_type, runs_programs=not runs_programs)
    verb = "have" if where.startswith("regions") else "has"
    has = f"{where} {verb} {_named(regions, runs_programs=runs_programs)}"
    if any(other in rows for rows in regions):
        if runs_programs:
            return f"all nodes with {job.gpu_type} are emulated and run no programs; for programs {has}"
        return f"all nodes with {job.gpu_type} run programs and emulate none; for emulated work {has}"
    return f"no node has {job.gpu_type}; {has}"


def _named(regions: Iterable[Mapping[str, HardwareRow]], *, runs_programs: bool) -> str:
    """The types of nodes that are for such work, with the most that one node has of each."""
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
    """Each job would fit somewhere by itself, and all of them nowhere together."""
    wanted: dict[str, int] = {}
    for job in jobs:
        wanted[job.gpu_type] = wanted.get(job.gpu_type, 0) + job.need.gpu_milli * job.tasks
    asked = " and ".join(f"{_count(amount)} {gpu_type}" for gpu_type, amount in wanted.items())
    has = (
        f"{where} has not as much" if len(hardware) == 1 else "no region has as much; one must hold them all"
    )
    return f"jobs: together they ask for {asked}, and {has}"


def _count(gpu_milli: int) -> str:
    return f"{gpu_milli / MILLI:g}" if gpu_milli % MILLI else str(gpu_milli // MILLI)
