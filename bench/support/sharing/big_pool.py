"""Jobs and GPUs of four types in two regions, as many as are asked for, for benchmarks of what rounds cost.

Jobs are drawn as the published load has them: 26 models, 1 to 8 GPUs, a fifth with weight 5. The fourth type is made up: each model is
1.2 to 3 times as fast there as on a V100. All jobs are there from the begin, and none ends before many rounds have passed.
"""

import numpy as np
from msgspec.structs import replace

from bench.support.sharing.load import dice_of, poisson_load
from bench.support.sharing.plane_jobs import Pauses, pool_region, workload_of
from bench.support.sharing.tables import GAVEL_TYPES, MODELS, gavel_table
from core.nouns.workload import WorkloadSpec
from core.sharing.speeds import SpeedTable, with_shapes
from runtime.fleet_file import RegionSpec

NEW_TYPE = "a100"
TYPES = (*GAVEL_TYPES, NEW_TYPE)
REGIONS = ("east", "west")
GAIN_LEAST, GAIN_MOST = 1.2, 3.0
SEED = 5
LENGTH = 100.0
"""By which jobs are longer than those of the load."""


def regions_of(gpus: int) -> dict[str, RegionSpec]:
    """Return both regions, with an equal part of so many GPUs of each type."""
    each = gpus // (len(TYPES) * len(REGIONS))
    return {name: pool_region(dict.fromkeys(TYPES, each)) for name in REGIONS}


def workloads_of(count: int, pauses: Pauses) -> list[WorkloadSpec]:
    """Return so many jobs."""
    table = table_of_four()
    jobs = poisson_load(count, 1.0, gavel_table(), **dice_of(SEED), has_widths=True, has_weights=True)
    table, _ = with_shapes(table, ((job.model, job.gpus) for job in jobs))
    return [workload_of(replace(job, steps=LENGTH * job.steps), table, TYPES, pauses) for job in jobs]


def table_of_four() -> SpeedTable:
    """Return the measured speeds, and those of the fourth type."""
    dice = np.random.default_rng(SEED)
    gains = dict(zip(MODELS, dice.uniform(GAIN_LEAST, GAIN_MOST, len(MODELS)).tolist(), strict=True))
    known = gavel_table()
    alone = {
        shape: by_type | {NEW_TYPE: by_type.get(GAVEL_TYPES[0], 0.0) * gains.get(shape[0], 1.0)}
        for shape, by_type in known.alone.items()
    }
    return SpeedTable(alone, known.together)
