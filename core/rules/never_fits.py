"""The reasons why a fleet could never hold a workload, even if all nodes were empty: in numbers, and job by job.

Such a workload is one for which `could_fit` is false in every region; each reason names the figures
that would have to change.
"""

from collections.abc import Iterable, Mapping, Sequence

from core.images.region import Hardware, HardwareRow
from core.nouns.fleet import ANY_TYPE, gpu_type_of, node_type_of, will_do
from core.nouns.ids import RegionName
from core.nouns.pool import SHARED_POOL
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import ANY_TEXT, JobSpec, Kind, WorkloadSpec

RESOURCES = Amount.__struct_fields__
"""Names of the resources of a need."""
GIB = 1 << 30
GPU_MEMORY = "gpu_memory"
PER_NODE = {**{resource: f"need.{resource}" for resource in RESOURCES}, GPU_MEMORY: GPU_MEMORY}
"""What a task takes of its node, by the figure of the hardware, each with the job's field."""
Regions = Mapping[RegionName, Mapping[str, HardwareRow]]
"""The nodes of each region that take work of the workload's kind, by node type."""
Known = tuple[RegionName, str, HardwareRow]
"""The nodes of one type in one region."""
TYPES_NAMED_MAX = 10
"""The most GPU types named in one text. A fleet has a handful; a sentence holds no more."""


def could_fit(spec: WorkloadSpec, hardware: Hardware) -> bool:
    """Return whether the region's nodes, if all were empty, might hold a workload. False is final; True is no promise.

    All tasks of a job are on one type; jobs that can only be on the same few types need capacity on these together. Figures that
    are not known exclude nothing.
    """
    rows = hardware.of(spec.kind)
    mine = [types_that_hold(job, rows) for job in spec.jobs]
    if len(mine) == 1:
        return bool(mine[0])  # Each of these types could hold the whole job.
    return all(mine) and all(fit_together(spec.jobs, mine, rows, resource) for resource in RESOURCES)


def fit_together(
    jobs: Sequence[JobSpec],
    types: Sequence[frozenset[str]],
    rows: Mapping[str, HardwareRow],
    resource: str,
) -> bool:
    """Return whether a region has enough of one resource for all jobs together.

    types   node types that could hold each job
    """
    wanted = [getattr(job.need, resource) * job.tasks for job in jobs]
    if not any(wanted):
        return True
    has = {node_type: rows[node_type].total_of(resource) for mine in types for node_type in sorted(mine)}
    if sum(wanted) <= min(has.values()):
        return True  # Each of these types has enough for all.
    return all(
        sum(amount for amount, mine in zip(wanted, types, strict=True) if mine <= where)
        <= sum(has[node_type] for node_type in sorted(where))
        for where in dict.fromkeys(types)
    )


def types_that_hold(job: JobSpec, rows: Mapping[str, HardwareRow]) -> frozenset[str]:
    """Return the node types of a region of which each, if empty, could hold all tasks of a job."""
    asked, is_for_gpus = job.node_types, job.need.gpu_milli > 0
    return frozenset(
        node_type
        for node_type, row in rows.items()
        if _holds(row, job) and will_do(node_type, asked, is_for_gpus=is_for_gpus)
    )


def _holds(row: HardwareRow, job: JobSpec) -> bool:
    """Return whether nodes could hold a job. Equals a comparison with `most_of` and `total_of`, but is read in each auction."""
    need, tasks, together = job.need, job.tasks, job.tasks_together
    if need.gpu_milli * together > row.gpu_milli_max or need.gpu_milli * tasks > row.gpu_milli:
        return False
    if row.measured < row.nodes:
        return True
    most, total = row.most, row.total
    return (
        need.cpu_milli * together <= most.cpu_milli
        and need.memory_bytes * together <= most.memory_bytes
        and need.cpu_milli * tasks <= total.cpu_milli
        and need.memory_bytes * tasks <= total.memory_bytes
        and (not job.gpu_memory or job.gpu_memory <= (row.gpu_memory_max or job.gpu_memory))
    )


def reasons_never(spec: WorkloadSpec, hardware: Mapping[RegionName, Hardware]) -> tuple[str, ...]:
    """Return the reasons why no region of these could hold a workload, each with its field."""
    where = f"region {next(iter(hardware))}" if len(hardware) == 1 else "the fleet"
    if spec.regions and len(hardware) > 1:
        where = f"regions {' and '.join(hardware)}"
    regions = {region: one.of(spec.kind) for region, one in hardware.items()}
    is_shared = spec.kind is Kind.SHARED
    if is_shared and not any(regions.values()):
        return (f"share: {where} has no node in the pool {SHARED_POOL}",)
    if is_shared:
        where = f"the pool {SHARED_POOL} of {where}"
    elsewhere = {name for one in hardware.values() for name in (one.rows if is_shared else one.shared)}
    found = []
    for index, job in enumerate(spec.jobs):
        reason = _of_job(job, regions, where, elsewhere)
        found += [f"jobs[{index}].{reason}"] if reason else []
    return tuple(found) or (_of_all(spec.jobs, regions, where),)


def _of_job(job: JobSpec, regions: Regions, where: str, elsewhere: Iterable[str]) -> str:
    """Return the reason why no region could hold this job alone; empty if one could.

    elsewhere   types of nodes on the other side of the border: in a shared pool, or for work of a shared pool those that are in none
    """
    every = list(regions.values())
    rows = [
        (region, node_type, row)
        for region, types in regions.items()
        for node_type, row in types.items()
        if job.takes(node_type)
    ]
    if not rows:
        return f"gpu_type: {_of_type(job, every, where, elsewhere)}"
    # Each check leaves the rows that hold the job as far as it was checked.
    such = ""
    for resource, field in PER_NODE.items():
        asked = job.gpu_memory if resource == GPU_MEMORY else getattr(job.need, resource) * job.tasks_together
        most = max(row.most_of(resource) for _, _, row in rows)
        if asked > most:
            return f"{field}: {_too_much_for_a_node(job, resource, asked, most, rows, where + such)}"
        fewer = [one for one in rows if asked <= one[2].most_of(resource)]
        such = " with as much of the rest" if len(fewer) < len(rows) else such
        rows = fewer
    for resource in RESOURCES:
        wanted = getattr(job.need, resource) * job.tasks
        in_all = max(row.total_of(resource) for _, _, row in rows)
        if wanted > in_all:
            asked_text = f"{job.tasks} tasks ask for {_asked(resource, wanted, job.type_text)}"
            kind = "" if job.has_one_type else " of one type"
            most_text = f"no region with such nodes has more than {_count(resource, in_all)}{kind}"
            has = f"{where} has {_count(resource, in_all)}{kind}" if len(regions) == 1 else most_text
            return f"tasks: {asked_text}, and {has}"
        rows = [one for one in rows if wanted <= one[2].total_of(resource)]
    return ""


def _too_much_for_a_node(
    job: JobSpec, resource: str, asked: int, most: int, rows: Sequence[Known], where: str
) -> str:
    """Return that no node has as much of a resource as a task asks for, with the largest node."""
    verb = "a task asks for" if job.tasks_together == 1 else f"{job.tasks} tasks on one node ask for"
    verb = "each GPU needs" if resource == GPU_MEMORY else verb
    text = f"{verb} {_asked(resource, asked, job.type_text)}, and no node of {where} has more than {_count(resource, most)}"
    if resource == "gpu_milli":
        return text
    region, node_type, _ = next(one for one in rows if one[2].most_of(resource) == most)
    gpu_type, _ = gpu_type_of(node_type)
    return f"{text} (the largest is one of type {gpu_type} in region {region})"


def _of_type(
    job: JobSpec, regions: Sequence[Mapping[str, HardwareRow]], where: str, elsewhere: Iterable[str]
) -> str:
    """Return the reason for which no node suits the job: no node of the requested type, or only nodes for other kinds of work.

    elsewhere   as in `_of_job`
    """
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
    if any(map(job.takes, elsewhere)):
        if where.startswith(f"the pool {SHARED_POOL}"):
            return f"no node with {job.type_text} is in the pool {SHARED_POOL}; {has}"
        return f"every node with {job.type_text} is in the pool {SHARED_POOL}, for jobs with `share` alone; for others {has}"
    return f"no node has {job.type_text}; {has}"


def _named(regions: Iterable[Mapping[str, HardwareRow]], *, runs_programs: bool) -> str:
    """Return the GPU types of nodes for such work, each with the most GPUs that one node has."""
    most: dict[str, int] = {}
    for rows in regions:
        for node_type, row in rows.items():
            gpu_type, is_for_programs = gpu_type_of(node_type)
            if is_for_programs == runs_programs:
                most[gpu_type] = max(most.get(gpu_type, 0), row.gpu_milli_max)
    resource = RESOURCES[0]
    named = [f"{gpu_type} ({_count(resource, most[gpu_type])} a node)" for gpu_type in sorted(most)]
    more = [f"{len(named) - TYPES_NAMED_MAX} more"] if len(named) > TYPES_NAMED_MAX else []
    return ", ".join([*named[:TYPES_NAMED_MAX], *more]) or "none"


def _of_all(jobs: Sequence[JobSpec], regions: Regions, where: str) -> str:
    """Return the reason where each job would fit somewhere by itself, but no region holds all jobs together."""
    resource = next((one for one in RESOURCES if _is_lacking(one, jobs, regions)), RESOURCES[0])
    wanted: dict[str, int] = {}
    for job in jobs:
        kind = job.type_text if resource == "gpu_milli" else ""
        wanted[kind] = wanted.get(kind, 0) + getattr(job.need, resource) * job.tasks
    asked = " and ".join(_asked(resource, amount, kind) for kind, amount in wanted.items())
    has = f"{where} has not as much" if len(regions) == 1 else "no region has as much; one must hold them all"
    return f"jobs: together they ask for {asked}, and {has}"


def _is_lacking(resource: str, jobs: Sequence[JobSpec], regions: Regions) -> bool:
    """Return whether every region lacks this resource for all jobs together, or has no nodes for some job."""
    for rows in regions.values():
        types = [types_that_hold(job, rows) for job in jobs]
        if all(types) and fit_together(jobs, types, rows, resource):
            return False
    return True


def _asked(resource: str, amount: int, type_text: str) -> str:
    if resource != "gpu_milli":
        return _count(resource, amount) + (" CPUs" if resource == "cpu_milli" else "")
    of = "GPUs of " if type_text == ANY_TEXT else ""
    return f"{_count(resource, amount)} {of}{type_text}"


def _count(resource: str, amount: int) -> str:
    """Return an amount as text, without the unit where the sentence names it."""
    if resource in (GPU_MEMORY, "memory_bytes"):
        if amount < GIB // 1024:
            return f"{amount} bytes"
        return f"{amount / GIB:.0f} GiB" if amount >= 1_000 * GIB else f"{amount / GIB:.4g} GiB"
    return f"{amount / MILLI:g}" if amount % MILLI else str(amount // MILLI)
