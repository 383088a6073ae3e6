"""By which design places are looked for: ours, or one of those that it is compared with. The designs are in `scenarios/variants/`.

All of them run the same queue, stores, brokers and agents. What tells them apart is what these are given: which regions a workload may
be asked for in, which is said as its pin when it is submitted, and what a region is. A design that binds early pins each workload to
one place, for good, by how much is asked of each place at that time; where clusters allocate, each cluster is a region of its own, with
a store and agents of its own. Order, quotas and preemption stay those of one queue: no design is weaker here than as it was published
(docs/decisions/0033-designs-that-are-compared.md).
"""

from collections import Counter

from msgspec.structs import replace

from core.events.queue import AttemptClosed, WorkloadCancelled, WorkloadSubmitted
from core.fact import Fact
from core.nouns.fleet import CPU_TYPE
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.pipeline import PipelineSpec
from core.nouns.quantities import MILLI
from core.nouns.workload import JobSpec, WorkloadSpec
from runtime.fleet_file import EMULATED_NODE, RegionSpec
from scenarios.schema.fleet import FleetSpec, parts_of, regions_of
from scenarios.schema.parts import Part

Scopes = dict[str, tuple[RegionName, ...]]
"""Places to which work may be bound, each with the plane's regions that it is made of."""


class Variant(Part, frozen=True):
    """One design."""

    def served(self, fleet: FleetSpec) -> FleetSpec:
        """The fleet as the plane has it."""
        return fleet

    def binder(self, fleet: FleetSpec) -> "Binder":
        """Who says where work may go, when it is submitted."""
        return Binder()


class Binder:
    """Binds nothing: work is bound when it can start."""

    def bound(self, spec: WorkloadSpec) -> WorkloadSpec:
        """A workload as it is submitted."""
        return spec

    def bound_pipeline(self, spec: PipelineSpec) -> PipelineSpec:
        """Return a pipeline as it is submitted: each stage is bound by itself; all go with the widest one if they run together."""
        bound = [self.bound(stage.workload) for stage in spec.stages]
        if spec.is_together:
            widest = max(bound, key=lambda one: sum(map(_asked, one.jobs)))
            bound = [replace(one, regions=widest.regions) for one in bound]
        stages = zip(spec.stages, bound, strict=True)
        return replace(spec, stages=tuple(replace(stage, workload=one) for stage, one in stages))

    def take(self, fact: Fact) -> None:
        """A fact that became durable."""


class EarlyBinder(Binder):
    """Binds each workload to the place of which the least is asked, as a share of what it has of the GPU type.

    What is asked of a place is all that was bound to it and has not ended, waiting or running. Only places count that could hold the
    workload if they were empty.
    """

    def __init__(self, fleet: FleetSpec, scopes: Scopes, *, counts_ahead: bool = False) -> None:
        """
        fleet          as the plane has it
        counts_ahead   whether only what is of no lower a level counts first: what would stand ahead of it, or not make room
        """
        self._scopes = scopes
        self._regions = {RegionName(name): spec for name, spec in regions_of(fleet).items()}
        self._counts_ahead = counts_ahead
        self._scope_of = {region: name for name, regions in scopes.items() for region in regions}
        self._asked: dict[str, Counter[tuple[str, int]]] = {name: Counter() for name in scopes}
        """By place: how much of each type, at each level."""
        self._bound: dict[WorkloadId, tuple[str, WorkloadSpec]] = {}

    def bound(self, spec: WorkloadSpec) -> WorkloadSpec:
        """Pinned to a place for good."""
        names = [name for name in self._scopes if self._could_hold(name, spec)]
        if not names:
            return spec
        name = min(names, key=lambda one: (*self._load(one, spec), one))
        return replace(spec, regions=self._scopes[name])

    def take(self, fact: Fact) -> None:
        """Count what is bound, until it ends."""
        event = fact.event
        if isinstance(event, WorkloadSubmitted) and event.spec.regions:
            name = self._scope_of.get(event.spec.regions[0], "")
            if name:
                self._bound[event.workload] = (name, event.spec)
                self._count(name, event.spec, 1)
        elif isinstance(event, WorkloadCancelled) or (
            isinstance(event, AttemptClosed) and event.phase.is_terminal
        ):
            bound = self._bound.pop(event.workload, None)
            if bound is not None:
                self._count(*bound, -1)

    def _count(self, name: str, spec: WorkloadSpec, sign: int) -> None:
        for job in spec.jobs:
            self._asked[name][job.gpu_type, spec.priority or 0] += sign * _asked(job)

    def _load(self, name: str, spec: WorkloadSpec) -> tuple[float, float]:
        """What is asked of a place ahead of this, and in all, with this, as a share of what it has."""
        ahead = every = has = 0
        for kind in sorted({job.gpu_type for job in spec.jobs}):
            has += sum(amount_in(self._regions[region], kind) for region in self._scopes[name])
            mine = sum(_asked(job) for job in spec.jobs if job.gpu_type == kind)
            ahead += mine
            every += mine
            for (asked, level), amount in self._asked[name].items():
                every += amount if asked == kind else 0
                ahead += amount if asked == kind and level >= (spec.priority or 0) else 0
        return (ahead / has if self._counts_ahead else 0.0), every / has

    def _could_hold(self, name: str, spec: WorkloadSpec) -> bool:
        """One of its regions, if it were empty."""
        if spec.regions and not set(spec.regions) & set(self._scopes[name]):
            return False
        return any(could_hold(self._regions[region], spec) for region in self._scopes[name])


def cut(fleet: FleetSpec, cluster_nodes: int) -> tuple[FleetSpec, Scopes]:
    """The fleet with each cluster as a region of its own, and which of these each region is made of. A cluster has one GPU type.

    cluster_nodes   of one cluster at most; a region's clusters of a type are as alike as can be
    """
    found: dict[str, RegionSpec] = {}
    scopes: Scopes = {}
    for name, spec in regions_of(fleet).items():
        clusters = [one for part in parts_of(spec) for one in _clusters_of(part, cluster_nodes)]
        named = {f"{name}-c{number}": cluster for number, cluster in enumerate(clusters)}
        found |= named
        scopes[name] = tuple(RegionName(cluster) for cluster in named)
    return FleetSpec(found, planner=fleet.planner), scopes


def _clusters_of(spec: RegionSpec, cluster_nodes: int) -> list[RegionSpec]:
    count = -(-spec.nodes // cluster_nodes)
    clusters = []
    for number in range(count):
        nodes = _part(spec.nodes, count, number)
        cluster = replace(
            spec,
            nodes=nodes,
            cpu_nodes=_part(spec.cpu_nodes, count, number),
            workers=min(nodes, max(1, _part(spec.workers, count, number))),
            zones=1,
            power_domains=0,
        )
        clusters.append(cluster)
    return clusters


def each_alone(fleet: FleetSpec) -> Scopes:
    """Every region a place of its own."""
    return {name: (RegionName(name),) for name in regions_of(fleet)}


def could_hold(region: RegionSpec, spec: WorkloadSpec) -> bool:
    """Whether a workload fits a region, if that were empty."""
    return all(_asked(job) <= amount_in(region, job.gpu_type) for job in spec.jobs)


def _part(whole: int, count: int, number: int) -> int:
    return whole // count + (number < whole % count)


def _asked(job: JobSpec) -> int:
    """GPU milli; of work without GPUs CPU milli."""
    need = job.need
    return job.tasks * (need.gpu_milli or need.cpu_milli)


def amount_in(region: RegionSpec, kind: str) -> int:
    """GPU milli of a type that a region has; of machines without GPUs CPU milli."""
    if kind == CPU_TYPE:
        return region.cpu_nodes * EMULATED_NODE.cpu_milli
    parts = [part for part in parts_of(region) if part.gpu_type == kind]
    return sum(part.nodes * part.gpus_per_node * MILLI for part in parts)
