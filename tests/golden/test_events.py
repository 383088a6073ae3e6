"""Every event version that was ever written is still read, and still folds."""

import pytest

from core.codec import decode_event, encode
from core.events import EVENTS
from core.events.region import ClaimGranted
from core.fact import Event
from core.images import GlobalImage, Image, RegionImage, empty_image
from core.invariants.consistency import check_global_fact, check_ledger, check_region_fact, check_workloads
from core.invariants.control import check_control
from core.nouns.ids import GLOBAL_LOG, LogName
from core.nouns.instant import SECOND, Nanoseconds, after
from tests.builders import START, a_fact
from tests.golden.history import EU, EU_LOG, HISTORY, PAUSES
from tests.golden.samples import FOLDER, HOW_TO_ADD, first_in_history, needs_a_sample, samples_of, tag_of

TAGS = [tag_of(kind) for kind in EVENTS]
SAMPLES = [
    pytest.param(tag, sample, id=f"{tag}.v{version}")
    for tag in TAGS
    for version, sample in enumerate(samples_of(tag), 1)
]


@pytest.mark.parametrize("tag", TAGS)
def test_event_has_a_sample_of_its_present_shape(tag: str) -> None:
    """Its newest sample is as this build would write it, so a field that was added shows as a sample that is missing."""
    assert first_in_history(tag) is not None, f"{tag} does not occur: {HOW_TO_ADD}"
    assert not needs_a_sample(tag), f"{tag} has no sample of its present shape: {HOW_TO_ADD}"


@pytest.mark.parametrize(("tag", "sample"), SAMPLES)
def test_sample_decodes_and_is_encoded_to_an_equal_event(tag: str, sample: bytes) -> None:
    """Whoever wrote it: nothing that it says is lost by being read and written again."""
    event = decode_event(sample)
    assert tag == tag_of(type(event))
    assert event == decode_event(encode(event))


@pytest.mark.parametrize(("tag", "sample"), SAMPLES)
def test_sample_folds_as_part_of_a_history(tag: str, sample: bytes) -> None:
    """In the place of the event that it was made of, it is one fact of a valid history of both logs."""
    play(tag, decode_event(sample))


def test_history_of_newest_samples_is_valid() -> None:
    """What was written first of each event is what today's history holds, and breaks nothing."""
    queue, region = play("", None)
    assert {} == queue.workloads.rows
    assert {} == region.attempts.rows
    assert {} == region.control.rows
    assert {} == region.control.specs
    assert {} == region.capacity.closures
    assert [8_000, 8_000] == region.capacity.gpu.free


def test_no_file_is_a_stranger() -> None:
    """A sample whose event is gone would be a log that cannot be read: an event is never removed."""
    known = {f"{tag}.v{version}.txt" for tag in TAGS for version in range(1, len(samples_of(tag)) + 1)}
    assert known == {path.name for path in FOLDER.iterdir()}


def play(tag: str, sample: Event | None) -> tuple[GlobalImage, RegionImage]:
    """Fold the history, with the sample in the place of the event it was made of, and check each fact."""
    images: dict[LogName, Image] = {GLOBAL_LOG: empty_image(GLOBAL_LOG), EU_LOG: empty_image(EU_LOG)}
    sequences = dict.fromkeys(images, 0)
    now = START
    queue, region = images[GLOBAL_LOG], images[EU_LOG]
    assert isinstance(queue, GlobalImage)
    assert isinstance(region, RegionImage)
    for log, event in HISTORY:
        is_first = event is first_in_history(tag)
        sequences[log] += 1
        now = after(now, Nanoseconds(PAUSES.get(type(event), SECOND)))
        fact = a_fact(sample if is_first and sample is not None else event, sequences[log], log=log, at=now)
        if log == GLOBAL_LOG:
            assert [] == check_global_fact(fact, queue, {EU: region})
        else:
            known = queue if isinstance(event, ClaimGranted) else None
            assert [] == check_region_fact(EU, fact, region, known)
        images[log].fold(fact)
    assert [] == check_ledger(region.capacity)
    assert [] == check_control(region)
    assert [] == check_workloads(queue)
    return queue, region
