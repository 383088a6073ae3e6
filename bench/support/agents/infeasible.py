"""Requests that 100,000 nodes could never hold: how long an agent takes to say so, and what would help."""

import time
from collections.abc import Iterator

from msgspec.structs import replace

from bench.support.agents.region import GPU_TYPE, GPUS, AgentRegion
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import JobSpec
from core.placing.diagnosis.infeasible import EmptyRegion, Outlook
from core.placing.pool_set import Asker

IMPOSSIBLE = 50


def never_figures(region: AgentRegion) -> dict[str, float]:
    """The longest of them, each by itself; the first one of a life also empties the region's arrays."""
    placer = region.state.placer
    placer.refresh()
    empty = EmptyRegion()
    spans = []
    for jobs in _impossible(region.nodes):
        begun = time.perf_counter()
        found = empty.outlook(placer.pools, region.state.image.capacity, jobs, Asker())
        spans.append(time.perf_counter() - begun)
        assert isinstance(found, Outlook)
        assert found.is_never, jobs
    assert len(spans) == IMPOSSIBLE
    return {"never_seconds": max(spans), "never_mean_ms": 1e3 * sum(spans) / len(spans)}


def _impossible(nodes: int) -> Iterator[tuple[JobSpec, ...]]:
    """Ten of each sort: too many GPUs a task, too many tasks, too many CPUs, another type, two jobs beside each other."""
    for number in range(IMPOSSIBLE // 5):
        yield (_job(GPUS + 1 + 8 * number, 1 + number),)
        yield (_job(GPUS - number % 4, 2 * nodes + number),)
        yield (replace(_job(1, 1), need=Amount(MILLI, (200 + number) * MILLI, 1 << 30)),)
        yield (replace(_job(GPUS, 8 + number), gpu_type="B200"),)
        yield _job(GPUS, nodes * 6 // 10, "a"), _job(GPUS, nodes // 2 + number, "b")


def _job(gpus: int, tasks: int, name: str = "main") -> JobSpec:
    return JobSpec(name, tasks, Amount(gpus * MILLI, gpus * 4_000, gpus * (16 << 30)), GPU_TYPE)
