"""A trace: pods of an Alibaba cluster of shared GPUs, of which most want a part of one.

source    Weng et al., "Beware of Fragmentation", USENIX ATC 2023 (cluster-trace-gpu-v2023 of github.com/alibaba/clusterdata),
          as `openb_pod_list_<pods>.csv.gz`. Its lists differ in how many pods share a GPU, want several or none, or one of a
          certain type. It names no tenants; the lists `multigpuNN` tell neither times nor who failed: those are drawn.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from core.nouns.quantities import MILLI
from scenarios.schema.parts import FieldError, unknown
from scenarios.trace import Trace, TracedJob, read_csv

PREFIX, SUFFIX = "openb_pod_list_", ".csv.gz"
COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
PRIORITIES = {"Guaranteed": 6, "LS": 5, "Burstable": 3, "BE": 1}
"""By what the trace calls a pod's quality of service; LS is latency-sensitive, BE is best-effort."""


class Openb(Trace, frozen=True):
    """A stretch of five months. A pod that is bound to GPU types runs on one of them, if the fleet has it."""

    directory: str = "../shared/data/alibaba-openb-2023"
    pods: str = "default"
    """Which list: default, cpu050, gpushare40, multigpu20, gpuspec10 and so on."""

    def jobs(self) -> Sequence[TracedJob]:
        """As the list has them."""
        path = self.folder / f"{PREFIX}{self.pods}{SUFFIX}"
        if not path.is_file() and (known := lists(self.folder)):
            raise FieldError(("pods",), unknown(self.pods, known, what="list"))
        return _read(path)


def lists(folder: Path) -> list[str]:
    """Names of the lists of pods that are there."""
    return sorted(path.name[len(PREFIX) : -len(SUFFIX)] for path in folder.glob(f"{PREFIX}*{SUFFIX}"))


@lru_cache(maxsize=4)
def _read(path: Path) -> Sequence[TracedJob]:
    return sorted(read_csv(path, COLUMNS, _job), key=lambda job: job.at or 0.0)


def _job(row: dict[str, str]) -> TracedJob:
    created, deleted = row.get("creation_time"), row.get("deletion_time")
    begun = row.get("scheduled_time") or created
    gpus = int(row["num_gpu"])
    return TracedJob(
        gpus=gpus,
        at=float(created) if created else None,
        seconds=float(deleted) - float(begun) if deleted and begun else None,
        gpu_milli=int(row["gpu_milli"]) if gpus == 1 else MILLI,
        gpu_types=tuple(filter(None, (row.get("gpu_spec") or "").split("|"))),
        cpu_milli=int(row["cpu_milli"]),
        memory_bytes=int(row["memory_mib"]) << 20,
        priority=PRIORITIES.get(row.get("qos") or ""),
        has_failed=row["pod_phase"] == "Failed" if row.get("pod_phase") else None,
    )
