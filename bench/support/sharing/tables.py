"""The measured speeds that benchmarks of sharing use, and the traces beside them; where they are not there, made-up speeds.

source    Gavel's repository, commit c4fa4009 (MIT): 26 models on V100, P100 and K80, alone and in pairs
"""

from functools import cache
from pathlib import Path

import numpy as np

from core.sharing.speeds import Shape, SpeedTable, read_speeds

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "gavel"
GAVEL_TYPES = ("v100", "p100", "k80")
WIDTHS = (1, 2, 4, 8)
SEED = 7


def has_gavel() -> bool:
    """Return whether the measured speeds are there."""
    return (FOLDER / "simulation_throughputs.json").is_file()


@cache
def gavel_table() -> SpeedTable:
    """Return the measured speeds, or made-up ones of the same models."""
    if has_gavel():
        return read_speeds((FOLDER / "simulation_throughputs.json").read_bytes())
    return made_up_table()


def made_up_table(models: tuple[str, ...] = ()) -> SpeedTable:
    """Return speeds drawn for these models, or for 26 of no name: the ratios of types span what was measured."""
    dice = np.random.default_rng(SEED)
    names = models or tuple(f"model {index}" for index in range(26))
    alone: dict[Shape, dict[str, float]] = {}
    together: dict[tuple[Shape, Shape], dict[str, tuple[float, float]]] = {}
    keeps = dict(zip(names, dice.uniform(0.5, 1.0, len(names)), strict=True))
    for name in names:
        v100 = 10 ** dice.uniform(0, 2)
        by_type = {"v100": v100, "p100": v100 * dice.uniform(0.5, 1.6), "k80": v100 * dice.uniform(0.1, 0.6)}
        for width in WIDTHS:
            grows = width ** dice.uniform(0.7, 1.0)
            alone[name, width] = {gpu_type: speed * grows for gpu_type, speed in by_type.items()}
    for name in names:
        for other in names:
            for width in WIDTHS:
                mine, theirs = alone[name, width], alone[other, width]
                keep = keeps[name] * keeps[other] * 1.3
                together[(name, width), (other, width)] = {
                    gpu_type: (mine[gpu_type] * min(1.0, keep), theirs[gpu_type] * min(1.0, keep))
                    for gpu_type in GAVEL_TYPES
                }
    return SpeedTable(alone, together)
