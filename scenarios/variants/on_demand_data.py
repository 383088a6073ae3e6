"""Data where it was made and nowhere else, until somebody wants it: no copy is made ahead (MAST's ablation of its slow path)."""

import math
from hashlib import blake2b

from msgspec.structs import replace

from core.nouns.fleet import CPU_TYPE
from core.nouns.ids import RegionName, TenantName
from core.nouns.workload import WorkloadSpec
from runtime.fleet_file import RegionSpec
from scenarios.schema.fleet import FleetSpec, regions_of
from scenarios.variant import Binder, Variant, amount_in, could_hold


class OnDemandData(Variant, frozen=True):
    """Each tenant's data has one home, and its work runs there: it does not wait for copies, which take hours.

    The more GPUs a region has the more tenants are at home there, as in the specification's guess at how homes were before anybody planned
    them; whoever wants more than all of its home runs where it would be at home if it could not be there.
    """

    def binder(self, fleet: FleetSpec) -> Binder:
        """To its tenant's home."""
        return _AtHome(fleet)


class _AtHome(Binder):
    def __init__(self, fleet: FleetSpec) -> None:
        self._regions = {RegionName(name): spec for name, spec in regions_of(fleet).items()}

    def bound(self, spec: WorkloadSpec) -> WorkloadSpec:
        if spec.regions:
            return spec
        kinds = sorted({job.gpu_type for job in spec.jobs})
        found = {
            name: _draw(spec.tenant, name, region, kinds)
            for name, region in self._regions.items()
            if could_hold(region, spec)
        }
        return replace(spec, regions=(max(found, key=lambda name: (found[name], name)),)) if found else spec


def _draw(tenant: TenantName, name: RegionName, region: RegionSpec, kinds: list[str]) -> float:
    """The highest wins: a region does so for as large a part of all tenants as it has of what there is (weighted rendezvous hashing)."""
    drawn = int.from_bytes(blake2b(f"{tenant}/{name}".encode(), digest_size=8).digest(), "big") >> 12
    weight = sum(amount_in(region, kind) for kind in kinds if kind != CPU_TYPE) or amount_in(region, CPU_TYPE)
    return -weight / math.log((drawn + 0.5) / 2**52)
