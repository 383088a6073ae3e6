"""Jobs of a trace or a drawn load as workloads of a shared pool, and the pool that they run on, for the whole plane to play.

A gang has one task for each of its GPUs, so a gang fits wherever as many GPUs are free, as in a replay without placement.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from core.nouns.ids import TenantName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import NAME_LENGTH_MAX
from core.nouns.pool import SHARED_POOL
from core.nouns.quantities import MILLI, Amount
from core.nouns.sharing import MICRO_STEPS, WEIGHT, ShareSpec
from core.nouns.workload import Emulation, JobSpec, Kind, WorkloadSpec
from core.sharing.jobs import SharingJob
from core.sharing.speeds import Shape, SpeedTable
from runtime.fleet_file import RegionSpec
from scenarios.schema.fleet import mixed
from scenarios.workload import CPU_MILLI_PER_GPU, MEMORY_PER_GPU, Arrival

TENANT = TenantName("sharers")
GPUS_PER_NODE = 8
GRACE = seconds(30)


class Pauses(Struct, frozen=True):
    """What stopping and starting costs a job by itself, whatever the plane does."""

    stop_seconds: float = 10.0
    """From SIGTERM until the checkpoint is written and the job is gone."""
    set_up_seconds: float = 30.0
    """From the start of all tasks until the job makes steps."""
    checkpoint_seconds: float = 600.0
    """Between checkpoints while it runs."""


def pool_region(gpus: Mapping[str, int], agents: int = 2, nodes_per_worker: int = 16) -> RegionSpec:
    """Return a region with so many GPUs of each type, all in the shared pool, on nodes of 8 GPUs."""
    parts = []
    for gpu_type, count in gpus.items():
        nodes, rest = divmod(count, GPUS_PER_NODE)
        assert nodes, f"{count} {gpu_type} are less than one node"
        assert not rest, f"{count} {gpu_type} are no whole nodes"
        parts.append(
            RegionSpec(
                nodes=nodes,
                gpu_type=gpu_type,
                gpus_per_node=GPUS_PER_NODE,
                workers=-(-nodes // nodes_per_worker),
                agents=agents,
                pool=SHARED_POOL,
            )
        )
    return mixed(parts)


def arrivals_of(
    jobs: Sequence[SharingJob], table: SpeedTable, types: Sequence[str], pauses: Pauses
) -> list[Arrival]:
    """Return the jobs as users submit them, each at its time from the begin of the trace, in order."""
    first = min(job.arrival for job in jobs)
    made = [Arrival(seconds(job.arrival - first), workload_of(job, table, types, pauses)) for job in jobs]
    return sorted(made, key=lambda one: one.at)


def workload_of(job: SharingJob, table: SpeedTable, types: Sequence[str], pauses: Pauses) -> WorkloadSpec:
    """Return one job. Its users tell the speeds with which it is emulated."""
    speeds = speeds_of((job.model, job.gpus), table, types)
    steps = max(1, round(job.steps))
    fastest = max(speeds.values())
    emulation = Emulation(
        work=Nanoseconds(-(-steps * MICRO_STEPS * SECOND // fastest)),
        checkpoint_every=seconds(pauses.checkpoint_seconds),
        stop_span=seconds(pauses.stop_seconds),
        set_up=seconds(pauses.set_up_seconds),
        steps=steps,
        speeds=tuple(speeds.items()),
    )
    will_do = [gpu_type for gpu_type in types if gpu_type in speeds]
    task = JobSpec(
        "main",
        job.gpus,
        Amount(MILLI, CPU_MILLI_PER_GPU, MEMORY_PER_GPU),
        will_do[0],
        emulation,
        or_types=tuple(will_do[1:]),
    )
    return WorkloadSpec(
        name=f"job-{job.id}",
        jobs=(task,),
        tenant=TENANT,
        kind=Kind.SHARED,
        grace=GRACE,
        share=ShareSpec(model_name(job.model), speeds, steps, round(WEIGHT * job.weight)),
    )


def speeds_of(shape: Shape, table: SpeedTable, types: Sequence[str]) -> dict[str, int]:
    """Return the speed of the whole job by type where it runs, in millionths of a step a second."""
    known = table.alone[shape]
    return {
        gpu_type: max(1, round(MICRO_STEPS * known[gpu_type]))
        for gpu_type in types
        if known.get(gpu_type, 0.0) > 0
    }


def model_name(model: str) -> str:
    """Return the name of a model in letters that a job file may have: `ResNet-18 (batch size 16)` becomes `ResNet-18-16`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", model.replace("(batch size ", "").replace(")", "")).strip("-")[
        :NAME_LENGTH_MAX
    ]
