"""A small cluster and a list of pods for it, drawn in the form of the trace: where that is not there, or nothing is to be measured."""

import csv
import random
from pathlib import Path

from bench.support.packing.openb import NODES_FILE, PREFIX

NODES, PODS = 40, 140
MODELS = (("A", 8, 96_000, 393_216), ("B", 2, 64_000, 262_144), ("C", 4, 48_000, 196_608))
"""Name, devices, CPU milli and MiB of a node."""
SHARES = ((0, 0, 10), (1, 1000, 45), (1, 500, 20), (1, 250, 10), (2, 1000, 9), (4, 1000, 4), (8, 1000, 2))
"""Devices, milli of each, and how many in a hundred pods ask for so much."""
BOUND_SHARE = 0.2
"""Of pods that need GPUs, those that name a model."""


def small_lists(folder: Path) -> tuple[Path, list[Path]]:
    """Write both; the list of nodes, and the lists of pods."""
    dice = random.Random(1)
    nodes, pods = folder / NODES_FILE, folder / f"{PREFIX}small.csv"
    with nodes.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("sn", "cpu_milli", "memory_mib", "gpu", "model"))
        for number in range(NODES):
            model, gpus, cpu, memory = MODELS[number % len(MODELS)]
            table.writerow((f"node-{number:04}", cpu, memory, gpus, model))
    with pods.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"))
        for number in range(PODS):
            gpus, milli, _ = dice.choices(SHARES, [share for *_, share in SHARES])[0]
            cpu = max(1, gpus) * dice.choice((2_000, 4_000, 8_000))
            models = [model for model, most, *_ in MODELS if most >= gpus]
            spec = dice.choice(models) if gpus and dice.random() < BOUND_SHARE else ""
            table.writerow((f"pod-{number:04}", cpu, cpu // 1_000 * 3_072, gpus, milli if gpus else 0, spec))
    return nodes, [pods]
