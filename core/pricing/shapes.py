"""What is worked out of a mix alone."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from core.nouns.limits import TYPICAL_SHAPES_MAX
from core.nouns.mix import WEIGHT, Mix, TypicalShape

POPULARITY = 950_000
"""Millionths of all tasks that the shapes of a mix cover, the most frequent ones first.
source    FGD's published parameters (95 %), as the spec's figures of both rules were taken"""
POPULARITY_OF_GPUS = 800_000
"""Millionths of the tasks that want GPUs, which they cover at least: a storm of tasks that want none would leave no shape to tell by
what a device is worth. The public lists come to 930,000 and more without it."""


def mix_of(counts: Mapping[TypicalShape, tuple[int, int]]) -> Mix:
    """The typical shapes among tasks that were counted.

    counts    by shape, without memory and weight: how many tasks, and the bytes of all of them together
    """
    total = sum(count for count, _ in counts.values())
    with_gpus = sum(count for shape, (count, _) in counts.items() if shape.gpu_milli)
    kept: list[tuple[TypicalShape, int, int]] = []
    covered = gpus_covered = 0
    for shape, (count, memory) in sorted(counts.items(), key=lambda item: (-item[1][0], item[0])):
        is_called_for = shape.gpu_milli and gpus_covered * WEIGHT < with_gpus * POPULARITY_OF_GPUS
        if covered * WEIGHT >= total * POPULARITY and not is_called_for:
            continue
        covered += count
        gpus_covered += count if shape.gpu_milli else 0
        kept.append((shape, count, memory))
        if len(kept) == TYPICAL_SHAPES_MAX:
            break
    return Mix(
        tuple(
            replace(shape, memory_bytes=memory // count, weight=count * WEIGHT // covered)
            for shape, count, memory in kept
        )
    )


def gpu_milli_of(shapes: Iterable[TypicalShape]) -> int:
    """What a million tasks of this mix want."""
    return sum(shape.weight * shape.gpu_milli for shape in shapes)


def share_of(shape: TypicalShape) -> tuple[tuple[int, int], ...]:
    """Of the devices that a task takes: how much of one, and of how many such."""
    wholes = ((1000, shape.gpus),) if shape.gpus else ()
    return (*wholes, (shape.part_milli, 1)) if shape.part_milli else wholes


def may_run_on(shape: TypicalShape, node_type: str) -> bool:
    """Whether a task of it may run on nodes of this type."""
    return not shape.node_types or node_type in shape.node_types
