"""Data where it was made and nowhere else, until somebody wants it: no copy is made ahead (MAST's ablation of its slow path)."""

from hashlib import blake2b

from msgspec.structs import replace

from core.nouns.ids import RegionName
from core.nouns.workload import WorkloadSpec
from scenarios.fleet import FleetSpec, regions_of
from scenarios.variant import Binder, Variant


class OnDemandData(Variant, frozen=True):
    """Each tenant's data has one home, drawn by its name, and its work runs there: it does not wait for copies, which take hours."""

    def binder(self, fleet: FleetSpec) -> Binder:
        """To its tenant's home."""
        return _AtHome(fleet)


class _AtHome(Binder):
    def __init__(self, fleet: FleetSpec) -> None:
        self._regions = {RegionName(name): spec for name, spec in regions_of(fleet).items()}

    def bound(self, spec: WorkloadSpec) -> WorkloadSpec:
        if spec.regions:
            return spec
        kinds = {job.gpu_type for job in spec.jobs}
        names = [
            name
            for name, region in self._regions.items()
            if kinds <= {region.gpu_type, *(("cpu",) if region.cpu_nodes else ())}
        ]
        drawn = int.from_bytes(blake2b(str(spec.tenant).encode(), digest_size=8).digest(), "big")
        return replace(spec, regions=(names[drawn % len(names)],)) if names else spec
