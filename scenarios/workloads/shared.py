"""Jobs of shared pools, which a policy gives part of the time: each is of a model, and models gain differently by faster types."""

import math
import random
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.pool import SHARED_POOL
from core.nouns.sharing import MICRO_STEPS, WEIGHT, WHOLE, ShareSpec
from core.nouns.workload import Emulation, Kind, WorkloadSpec
from scenarios.schema.fleet import FleetSpec, emulated_regions, parts_of
from scenarios.schema.parts import FieldError, Share, Steps
from scenarios.workload import gpus_of
from scenarios.workloads.steady import Steady

GPUS, GPU_WEIGHTS = (1, 2, 4, 8), (70, 10, 15, 5)
"""As the published load has them (OSDI 2020)."""
STEPS_PER_SECOND = 10.0
"""On the slowest type."""
WEIGHTS = (1.0, 1.0, 1.0, 2.0)


class Shared(Steady, frozen=True):
    """Arrivals at any time, of jobs that run on whichever of the shared pools' GPU types."""

    models: Annotated[int, Meta(gt=0, le=100)] = 5
    lies_share: Share = 0.0
    """Whose speeds are told wrongly: every type as fast as the fastest."""
    beside: Share = 0.0
    """The part of its speed that a job of one GPU keeps beside another on the same GPU, as it also tells; 0: nothing is known of that."""

    def problem(self, fleet: FleetSpec, path: Steps) -> FieldError | None:
        """What is wrong with it on this fleet."""
        if not _types(fleet):
            return FieldError(
                path,
                f"this load runs in the pool `{SHARED_POOL}`, and no region of the fleet has nodes there",
            )
        return super().problem(fleet, path)

    def draw(self, fleet: FleetSpec, dice: random.Random, number: int) -> WorkloadSpec:
        """What one of them is."""
        types = _types(fleet)
        regions = [one for one in emulated_regions(fleet).values() if one.pool == SHARED_POOL]
        widest = min(self.gpus_max or max(map(gpus_of, regions)), max(map(gpus_of, regions)))
        gpus = min(dice.choices(GPUS, GPU_WEIGHTS)[0], widest)
        model = dice.randrange(self.models)
        speeds = {
            gpu_type: round(MICRO_STEPS * STEPS_PER_SECOND * gpus * gain)
            for gpu_type, gain in zip(types, gains_of(model, len(types)), strict=True)
        }
        drawn = self.emulation(60 * self.draw_minutes(dice), dice)
        fastest, part = max(speeds.values()), round(WHOLE * self.beside)
        steps = max(1, round(drawn.work * fastest / MICRO_STEPS / SECOND))
        emulation = Emulation(
            work=Nanoseconds(-(-steps * MICRO_STEPS * SECOND // fastest)),
            checkpoint_every=drawn.checkpoint_every,
            fails_after=drawn.fails_after,
            stop_span=seconds(dice.uniform(1.0, 10.0) / self.compression),
            steps=steps,
            speeds=tuple(speeds.items()),
            model=f"model-{model}",
            beside=tuple((f"model-{other}", part) for other in range(self.models) if part),
        )
        (region, *_) = [one for one in regions if gpus_of(one) >= gpus]
        job = replace(self.job(region, gpus, emulation), gpu_type=types[0], or_types=tuple(types[1:]))
        lies = self.lies_share and dice.random() < self.lies_share
        told = dict.fromkeys(types, fastest) if lies else speeds
        weight = round(WEIGHT * dice.choice(WEIGHTS))
        return WorkloadSpec(
            name=f"m{'abcdefghij'[model % 10]}-{number}",
            jobs=(job,),
            tenant=self.draw_tenant(dice),
            kind=Kind.SHARED,
            grace=seconds(30 / self.compression),
            share=ShareSpec(
                f"model-{model}", told, steps, weight, beside=dict(emulation.beside) if gpus == 1 else {}
            ),
        )


def gains_of(model: int, types: int) -> list[float]:
    """Return how fast a model is on each type, relative to the slowest: from nearly alike to ten times."""
    return [math.exp(place * 0.25 * (model + 1)) for place in reversed(range(types))]


def _types(fleet: FleetSpec) -> list[str]:
    """The types of emulated nodes in shared pools, by name."""
    parts = [part for region in emulated_regions(fleet).values() for part in parts_of(region)]
    return sorted({part.gpu_type for part in parts if part.pool == SHARED_POOL})
