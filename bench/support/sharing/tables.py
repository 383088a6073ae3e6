"""The measured speeds that benchmarks of sharing use, and the traces beside them; where they are not there, made-up speeds.

source    Gavel's repository, commit c4fa4009 (MIT): 26 models on V100, P100 and K80, alone and in pairs
"""

from functools import cache
from pathlib import Path

import numpy as np

from core.sharing.speeds import Shape, SpeedTable, read_speeds

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "gavel"
SIZES = {
    "ResNet-18": (16, 32, 64, 128, 256),
    "ResNet-50": (16, 32, 64, 128),
    "Transformer": (16, 32, 64, 128, 256),
}
SIZES |= {"LM": (5, 10, 20, 40, 80), "Recommendation": (512, 1_024, 2_048, 4_096, 8_192)}
MODELS = (
    *(f"{name} (batch size {size})" for name, sizes in SIZES.items() for size in sizes),
    "A3C",
    "CycleGAN",
)
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


def made_up_table() -> SpeedTable:
    """Return speeds drawn for the same models: the ratios of types span what was measured."""
    dice = np.random.default_rng(SEED)
    alone: dict[Shape, dict[str, float]] = {}
    together: dict[tuple[Shape, Shape], dict[str, tuple[float, float]]] = {}
    keeps = dict(zip(MODELS, dice.uniform(0.5, 1.0, len(MODELS)), strict=True))
    for name in MODELS:
        v100 = 10 ** dice.uniform(0, 2)
        by_type = {"v100": v100, "p100": v100 * dice.uniform(0.5, 1.6), "k80": v100 * dice.uniform(0.1, 0.6)}
        for width in WIDTHS:
            grows = width ** dice.uniform(0.7, 1.0)
            alone[name, width] = {gpu_type: speed * grows for gpu_type, speed in by_type.items()}
    for name in MODELS:
        for other in MODELS:
            for width in WIDTHS:
                mine, theirs = alone[name, width], alone[other, width]
                keep = keeps[name] * keeps[other] * 1.3
                together[(name, width), (other, width)] = {
                    gpu_type: (mine[gpu_type] * min(1.0, keep), theirs[gpu_type] * min(1.0, keep))
                    for gpu_type in GAVEL_TYPES
                }
    return SpeedTable(alone, together)
