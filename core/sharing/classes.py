"""Which workloads of a shared pool are alike, so that a policy gives them equal shares."""

from core.estimating.family import family_of
from core.nouns.quantities import MILLI
from core.nouns.sharing import WEIGHT
from core.nouns.workload import Extent, JobSpec, WorkloadSpec


def model_of(spec: WorkloadSpec) -> str:
    """Return the model of a workload's job: as it is named, or else its family."""
    assert spec.share is not None
    return spec.share.model or family_of(spec.name)


def gpus_of(spec: WorkloadSpec) -> int:
    """Return the GPUs of the whole job."""
    (job,) = spec.jobs
    return job.need.gpu_milli * job.tasks // MILLI


def speed_key_of(spec: WorkloadSpec) -> str:
    """Return a key that jobs have in common of which one's speed tells those of all: model, GPUs, tasks, packing and entity."""
    (job,) = spec.jobs
    return f"{model_of(spec)} x{gpus_of(spec)} in {job.tasks}{_packing(job)} of {entity_of(spec)}"


def class_of(spec: WorkloadSpec) -> str:
    """Return the name of a workload's class: model, GPUs, tasks and packing, the types, regions and data by which columns will do, and
    weight and entity.

    Speeds that users tell are not part of it: of a class the newest told count, until they are measured.
    """
    share, (job,) = spec.share, spec.jobs
    assert share is not None
    parts = [f"{model_of(spec)} x{gpus_of(spec)}"]
    if job.tasks > 1:
        parts.append(f"in {job.tasks}{_packing(job)}")
    parts.append(f"on {'|'.join((job.gpu_type, *job.or_types))}")
    if spec.regions:
        parts.append(f"at {'|'.join(sorted(spec.regions))}")
    if spec.data:
        parts.append(f"with {'|'.join(sorted(spec.data))}")
    if share.weight != WEIGHT:
        parts.append(f"weight {share.weight / WEIGHT:g}")
    parts.append(f"of {entity_of(spec)}")
    return " ".join(parts)


def _packing(job: JobSpec) -> str:
    return " on one node" if job.tasks > 1 and job.topology.pack is Extent.NODE else ""


def entity_of(spec: WorkloadSpec) -> str:
    """Return whom a hierarchy shares among first: as it is named, or else the tenant."""
    assert spec.share is not None
    return spec.share.entity or spec.tenant
