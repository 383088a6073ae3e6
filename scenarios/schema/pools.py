"""What the pools of a fleet need in a scenario: operators state it at the start, of every region that has the hardware."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from msgspec import Meta, Struct, field

from core.nouns.fleet import node_type_of
from core.nouns.pool import PERMILLE, POOLS, PoolSettings, Survives
from core.nouns.pooling import PART_AT_ONCE, PoolingPolicy
from scenarios.schema.parts import FieldError, unknown

Gpus = Annotated[int, Meta(ge=1, le=1_000_000)]
Percent = Annotated[float, Meta(gt=0, le=100)]


Needs = dict[str, dict[str, Gpus]]
"""GPUs by pool and GPU type."""


class PoolsSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Needs by pool, and how many nodes may move at once."""

    needs: Needs = field(default_factory=dict)
    """By pool and GPU type, GPUs in each region that has the type."""
    in_region: dict[str, Needs] = field(default_factory=dict)
    """Of regions by name, instead of the others' needs."""
    survive_nothing: tuple[str, ...] = ()
    """Pools that need not have that after the loss of a power domain."""
    at_once_percent: Percent = 100 * PART_AT_ONCE / PERMILLE
    """Of a region's nodes."""

    @property
    def policy(self) -> PoolingPolicy:
        """Return the policy as the plane is told."""
        return PoolingPolicy(at_once=max(1, round(PERMILLE * self.at_once_percent / 100)))

    def settings_in(self, region: str, gpu_types: Iterable[str]) -> dict[str, PoolSettings]:
        """Return what is set of the pools of a region that has these GPU types."""
        found = {}
        for pool, needs in self.in_region.get(region, self.needs).items():
            there = sorted(
                (node_type_of(name, runs_programs=False), needs[name]) for name in gpu_types if name in needs
            )
            survives = Survives.NOTHING if pool in self.survive_nothing else Survives.POWER_DOMAIN
            if there:
                found[pool] = PoolSettings(needs=tuple(there), survives=survives)
        return found

    def problems(self, regions: Sequence[str], path: tuple[str | int, ...]) -> list[FieldError]:
        """Return the pools and regions that there are not."""
        found = [
            FieldError((*path, "in_region", region), unknown(region, list(regions), what="regions"))
            for region in self.in_region
            if region not in regions
        ]
        said: list[tuple[tuple[str, ...], Needs]] = [(("needs",), self.needs)]
        said += [(("in_region", region), needs) for region, needs in self.in_region.items()]
        return found + [
            FieldError((*path, *where, pool), unknown(pool, list(POOLS), what="pools"))
            for where, needs in said
            for pool in needs
            if pool not in POOLS
        ]
