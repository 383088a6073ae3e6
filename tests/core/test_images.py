"""Images: plain folds that come out the same in parts, after a pause, and on every machine."""

import pytest

from core.codec import CodecError
from core.events import EVENTS
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    CancelRequested,
    RegionAdded,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadHeld,
    WorkloadReleased,
    WorkloadsForgotten,
)
from core.events.region import (
    AttemptEnded,
    AttemptsForgotten,
    AwardDeclined,
    CheckpointCommitted,
    GangStarted,
    StopOrdered,
)
from core.fact import Event, Fact
from core.images import GlobalImage, Image, RegionImage, decode_image, empty_image
from core.images.awards import AwardRow
from core.images.queue import WorkloadRow
from core.images.region import AttemptPhase, AttemptRow, HardwareRow
from core.nouns.ids import GLOBAL_LOG, LogName, WorkloadId, submission_key
from core.nouns.workload import EndCause, Phase
from tests.builders import (
    EU,
    EU_LOG,
    NODE,
    US,
    a_claim,
    a_queue,
    a_region,
    a_spec,
    attempt,
    granted,
    joined,
    opened,
    promised,
    submitted,
)
from tests.core.histories import QueueHistory, RegionHistory
from tests.core.properties import SEEDS

LOGS = pytest.mark.parametrize("log", [GLOBAL_LOG, EU_LOG])
W1 = WorkloadId("w-1")


def history(log: LogName, seed: int) -> list[Fact]:
    """A random one of this log."""
    return QueueHistory(seed).draw(200) if log == GLOBAL_LOG else RegionHistory(seed).draw(200)


def fold(image: Image, facts: list[Fact]) -> Image:
    """The image after these facts."""
    for fact in facts:
        image.fold(fact)
    return image


@LOGS
@pytest.mark.parametrize("seed", SEEDS)
def test_sections_folded_alone_equal_the_whole(log: LogName, seed: int) -> None:
    """A follower that folds only what it needs has what the keeper has."""
    facts = history(log, seed)
    whole = fold(empty_image(log), facts)
    for name in whole.sections:
        alone = fold(empty_image(log, (name,)), facts)
        assert (name,) == tuple(alone.sections)
        assert whole.encode((name,)) == alone.encode()
        assert whole.encode((name,)) == decode_image(log, whole.encode(), (name,)).encode()


@LOGS
@pytest.mark.parametrize("seed", SEEDS)
def test_image_goes_on_after_it_was_kept(log: LogName, seed: int) -> None:
    """Encoded, decoded and folded on, wherever the pause was, it is the image that never paused."""
    facts = history(log, seed)
    whole = fold(empty_image(log), facts)
    pause = 3 + (seed * 37) % (len(facts) - 3)
    kept = fold(empty_image(log), facts[:pause]).encode()
    resumed = fold(decode_image(log, kept), facts[pause:])
    assert whole.digest() == resumed.digest()
    assert whole.encode() == resumed.encode()


@LOGS
def test_digest_tells_histories_apart(log: LogName) -> None:
    """Equal for equal folds, and for others another one."""
    facts = history(log, 1)
    assert fold(empty_image(log), facts).digest() == fold(empty_image(log), facts).digest()
    assert fold(empty_image(log), facts[:40]).digest() != fold(empty_image(log), facts[:44]).digest()


@LOGS
@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x80", b"\x81\xa8attempts\x80", b"\x81\xa1\xff\x80", b"\x91" * 9000]
)
def test_bytes_that_are_no_image(log: LogName, data: bytes) -> None:
    """Nothing, half an image or rubbish: one error."""
    with pytest.raises(CodecError):
        decode_image(log, data)


def test_every_event_is_folded_somewhere() -> None:
    """What no image shows would be remembered for nobody. Folds name methods that are there."""
    sections = [*GlobalImage.SECTIONS.values(), *RegionImage.SECTIONS.values()]
    assert set(EVENTS) == {event for section in sections for event in section.FOLDS}
    for section in sections:
        assert [] == [method for method in section.FOLDS.values() if not hasattr(section, method)]


def row(*events: Event) -> WorkloadRow:
    """Workload `w-1` after this happened to it."""
    return a_queue(RegionAdded(EU), submitted(1), *events).workloads.rows[W1]


def awarded(epoch: int = 1) -> WorkloadAwarded:
    """Its award to the region eu."""
    return WorkloadAwarded(W1, epoch, EU, 0, ())


def test_workload_when_submitted() -> None:
    """Pending, and found by its submitter's key and nobody else's."""
    image = a_queue(submitted(1, key="k"), submitted(2))
    assert Phase.PENDING == image.workloads.rows[W1].phase
    assert {submission_key("ada", "k"): W1} == image.workloads.keys
    assert 2 == image.workloads.submitted
    assert submission_key("ada", "k") != submission_key("bob", "k")
    assert submission_key("ada\nb", "k") != submission_key("ada", "b\nk")
    assert submission_key("ada b", "k") != submission_key("ada", "b k")


def test_workload_when_held_and_released() -> None:
    """The revision is the newest word's."""
    held = row(WorkloadHeld(W1, 1))
    assert (True, 1) == (held.is_held, held.hold_revision)
    released = row(WorkloadHeld(W1, 1), WorkloadReleased(W1, 2))
    assert (False, 2) == (released.is_held, released.hold_revision)


def test_workload_when_awarded_and_bound() -> None:
    """The award's place in the log is what a claim names."""
    shown = row(awarded())
    assert (Phase.AWARDED, 1, EU, 3) == (shown.phase, shown.epoch, shown.region, shown.award_sequence)
    assert shown.is_active
    assert Phase.RUNNING == row(awarded(), WorkloadBound(W1, 1, EU, 4)).phase


def test_workload_when_award_is_returned() -> None:
    """Pending again, with the reason, and the epoch stays used."""
    shown = row(awarded(), AwardReturned(W1, 1, "no_capacity", EU, 4))
    assert (Phase.PENDING, 1, "", "no_capacity") == (
        shown.phase,
        shown.epoch,
        shown.region,
        shown.last_reason,
    )


def test_workload_when_attempt_is_closed() -> None:
    """What was saved is where the next attempt goes on; failures are counted by cause."""
    closed = AttemptClosed(W1, 1, EndCause.TASK_FAILED, Phase.PENDING, EU, 4, 1, 700)
    shown = row(awarded(), closed)
    assert (Phase.PENDING, "", 1, 700) == (shown.phase, shown.region, shown.resume_epoch, shown.resume_step)
    assert (1, 0) == (shown.tasks_failed, shown.starts_failed)
    again = row(
        awarded(), closed, awarded(2), AttemptClosed(W1, 2, EndCause.START_FAILED, Phase.PENDING, EU, 9)
    )
    assert (1, 1) == (again.tasks_failed, again.starts_failed)
    spared = row(awarded(), AttemptClosed(W1, 1, EndCause.PREEMPTED, Phase.PENDING, EU, 4))
    assert (0, 0) == (spared.tasks_failed, spared.starts_failed)
    assert 0 == spared.ended_at
    assert row(awarded(), AttemptClosed(W1, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 4)).ended_at > 0


def test_workload_when_cancelled() -> None:
    """A wish first, while an award stands; an end when none does."""
    assert row(awarded(), CancelRequested(W1)).is_cancel_requested
    shown = row(WorkloadCancelled(W1))
    assert Phase.CANCELLED == shown.phase
    assert shown.ended_at > 0


@pytest.mark.parametrize(
    "end", [WorkloadCancelled(W1), AttemptClosed(W1, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 4)]
)
def test_workload_that_has_ended_keeps_its_spec_in_short(end: Event) -> None:
    """It is asked for seldom, and there may be a million of them; what it is has not changed."""
    before = [awarded()] if isinstance(end, AttemptClosed) else []
    image = a_queue(RegionAdded(EU), submitted(1), *before, end)
    again = GlobalImage.decode(image.encode())
    for one in (image.workloads.rows[W1], again.workloads.rows[W1]):
        assert isinstance(one.kept, str)
        assert a_queue(RegionAdded(EU), submitted(1)).workloads.rows[W1].spec == one.spec
    assert image.digest() == again.digest()


def test_workload_when_forgotten() -> None:
    """Its row, its key and its award are gone; its number is not used again."""
    image = a_queue(RegionAdded(EU), submitted(1, key="k"), awarded(), WorkloadsForgotten((W1,)))
    assert {} == image.workloads.rows
    assert {} == image.workloads.keys
    assert {} == image.awards.rows
    assert 1 == image.workloads.submitted


def test_award_stands_in_its_region_until_it_is_returned_or_closed() -> None:
    """For its epoch alone; what does not stand any more is superseded, and so is what is unknown."""
    awards = a_queue(RegionAdded(EU), submitted(1), awarded()).awards
    assert AwardRow(1, EU, 3, is_active=True) == awards.rows[W1]
    assert awards.stands(W1, 1, EU)
    assert not awards.stands(W1, 1, US)
    assert not awards.stands(W1, 2, EU)
    assert not awards.has_superseded(W1, 1)
    for end in (
        AwardReturned(W1, 1, "", EU, 4),
        AttemptClosed(W1, 1, EndCause.PREEMPTED, Phase.PENDING, EU, 4),
    ):
        ended = a_queue(RegionAdded(EU), submitted(1), awarded(), end).awards
        assert not ended.stands(W1, 1, EU)
        assert ended.has_superseded(W1, 1)
        assert not ended.has_superseded(W1, 2), "nobody knows yet what will come of it"
    assert awards.has_superseded(WorkloadId("w-99"), 1)


def test_regions_remember_how_far_each_log_was_cited() -> None:
    """A shorter log of that name is not the one that was known. A late citation changes nothing."""
    history = [
        RegionAdded(EU),
        RegionAdded(US),
        submitted(1),
        submitted(2),
        awarded(),
        WorkloadBound(W1, 1, EU, 9),
    ]
    later = WorkloadAwarded(WorkloadId("w-2"), 1, EU, 0, ())
    image = a_queue(opened(3), *history, later, AwardReturned(WorkloadId("w-2"), 1, "", EU, 5))
    assert {EU: 9, US: 0} == image.regions.sequences
    assert ("fleet", "log-1", 3) == (image.regions.fleet, image.regions.log_id, image.regions.term)


CLAIM = a_claim("w-1", placed={0: 1}, award_sequence=6)


def test_attempt_through_its_life() -> None:
    """Granted, started, saved, told to stop, ended: each fact leaves its mark and its sequence."""
    events: list[Event] = [granted(CLAIM), GangStarted(*attempt()), CheckpointCommitted(*attempt(), 70)]
    events += [StopOrdered(*attempt(), EndCause.PREEMPTED, WorkloadId("w-2"))]
    events += [AttemptEnded(*attempt(), EndCause.PREEMPTED, 143)]
    phases = ["granted", "started", "started", "started", "ended"]
    for count, phase in enumerate(phases, 1):
        shown = a_region(joined(), *events[:count]).attempts.row(*attempt())
        assert shown is not None
        assert (phase, count + 1) == (shown.phase, shown.sequence)
        assert (phase != "ended") == shown.phase.is_live
    wanted = AttemptRow(AttemptPhase.ENDED, 6, 6, "preempted", "preempted", 143, 70)
    assert wanted == a_region(joined(), *events).attempts.row(*attempt())


def test_attempt_that_was_promised_or_declined_holds_nothing() -> None:
    """Neither is live."""
    waiting = a_region(joined(), promised(CLAIM)).attempts.row(*attempt())
    assert waiting == AttemptRow(AttemptPhase.PROMISED, 6, 2, spreads=CLAIM.spreads)
    assert not waiting.phase.is_live
    declined = a_region(joined(), promised(CLAIM), AwardDeclined(*attempt(), "withdrawn", 6)).attempts.row(
        *attempt()
    )
    assert declined == AttemptRow(AttemptPhase.DECLINED, 6, 3, reason="withdrawn")
    assert not declined.phase.is_live


def test_attempts_when_forgotten() -> None:
    """Their rows are gone, others of the workload stay, and what they rested on is not forgotten."""
    image = a_region(
        joined(),
        AwardDeclined(*attempt("w-1", 1), "withdrawn", 6),
        AwardDeclined(*attempt("w-1", 2), "withdrawn", 8),
        AttemptsForgotten((attempt("w-1", 1),), 9),
    )
    assert [attempt("w-1", 2)] == image.attempts.all_keys()
    assert 9 == image.attempts.global_sequence


def test_hardware_sums_by_type_whether_or_not_it_is_free() -> None:
    """Enough to tell who need not be asked."""
    image = a_region(joined("w0", 0, 2), joined("w1", 2, 3, gpu_type="A100"), granted(a_claim(placed={0: 8})))
    assert {
        "H100": HardwareRow(2, 8_000, 16_000, NODE, NODE.times(2), 0, 2),
        "A100": HardwareRow(3, 8_000, 24_000, NODE, NODE.times(3), 0, 3),
    } == image.hardware.rows


def test_spec_is_kept_as_submitted() -> None:
    """The image holds what the user asked for, to the letter."""
    spec = a_spec(name="mine", priority=5, regions=(EU,))
    assert spec == a_queue(submitted(1, spec)).workloads.rows[W1].spec
