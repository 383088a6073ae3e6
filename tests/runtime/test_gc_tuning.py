"""The collector stays away from large images, and from nothing else."""

import gc

import pytest

from runtime.gc_tuning import UNDISTURBED_MIN, undisturbed


def test_large_image_is_decoded_undisturbed() -> None:
    """The collector is off meanwhile and on afterwards, and what was decoded is not walked again."""
    before = gc.get_freeze_count()
    try:
        with undisturbed(UNDISTURBED_MIN):
            assert not gc.isenabled()
            image = [[number] for number in range(1_000)]
        assert gc.isenabled()
        assert gc.get_freeze_count() >= before + len(image)
    finally:
        gc.unfreeze()


def test_small_image_is_collected_as_anything_else() -> None:
    """What is frozen in a cycle is never freed, so only images that are worth it are."""
    before = gc.get_freeze_count()
    with undisturbed(UNDISTURBED_MIN - 1):
        assert gc.isenabled()
    assert before == gc.get_freeze_count()


def test_collector_returns_after_a_failure() -> None:
    """An image that cannot be decoded leaves nothing frozen, and the collector on."""
    before = gc.get_freeze_count()
    with pytest.raises(ValueError, match="unknown"), undisturbed(UNDISTURBED_MIN):
        raise ValueError("unknown")
    assert gc.isenabled()
    assert before == gc.get_freeze_count()
