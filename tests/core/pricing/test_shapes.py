"""A mix out of counts."""

from core.nouns.limits import TYPICAL_SHAPES_MAX
from core.nouns.mix import NO_MIX, WEIGHT, TypicalShape
from core.pricing.shapes import mix_of


def test_most_frequent_shapes_cover_95_percent() -> None:
    """As many as that takes, the most frequent one first; their weights are shares of what they cover, their memory the mean."""
    counts = {
        TypicalShape(gpus=1): (90, 900),
        TypicalShape(part_milli=500): (6, 30),
        TypicalShape(gpus=8): (3, 3),
        TypicalShape(gpus=4): (1, 1),
    }
    assert (
        TypicalShape(gpus=1, memory_bytes=10, weight=90 * WEIGHT // 96),
        TypicalShape(part_milli=500, memory_bytes=5, weight=6 * WEIGHT // 96),
    ) == mix_of(counts).shapes


def test_nothing_counted_is_no_mix() -> None:
    """Whoever asks goes by what is expected of any region."""
    assert NO_MIX == mix_of({})


def test_mix_has_no_more_shapes_than_a_fact_takes() -> None:
    """However unlike tasks are."""
    counts = {TypicalShape(gpus=1, cpu_milli=number): (1, 0) for number in range(2 * TYPICAL_SHAPES_MAX)}
    mix = mix_of(counts)
    assert TYPICAL_SHAPES_MAX == len(mix.shapes)
    assert list(range(TYPICAL_SHAPES_MAX)) == [shape.cpu_milli for shape in mix.shapes]


def test_storm_of_tasks_without_gpus_leaves_shapes_that_want_some() -> None:
    """Or nothing could tell what a device is worth."""
    counts = {
        TypicalShape(cpu_milli=1_000): (100_000, 0),
        TypicalShape(gpus=1): (60, 0),
        TypicalShape(part_milli=500): (30, 0),
        TypicalShape(gpus=8): (10, 0),
    }
    assert [0, 1_000, 500] == [shape.gpu_milli for shape in mix_of(counts).shapes]
