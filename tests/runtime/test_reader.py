"""The reader: pages and images of what is durable, snapshots that keep the start short, and silence about what is not there."""

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from bus.errors import AskTimedOut
from core.codec import decode_event
from core.events.queue import AttemptClosed, RegionAdded, WorkloadAwarded
from core.fact import Event
from core.images import GlobalImage
from core.images.fetch import ImageFetch
from core.messages.logs import AboutPage, FetchImage, LogPage, ReadAbout, ReadLog
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import SECOND, seconds
from core.nouns.limits import (
    READ_BYTES_MAX,
    READ_FACTS_MAX,
    SNAPSHOT_FACTS,
    SNAPSHOT_INTERVAL,
)
from core.nouns.workload import EndCause, Phase
from runtime.images import load_image
from store.errors import LogBroken
from store.port import Row, Snapshot
from store.rows import row_of
from tests.builders import EU, a_fact, opened, submitted
from tests.runtime.aids import Place, count, count_many, how_many, large_fact, number_of, virtual

SNAPSHOT_SECONDS = SNAPSHOT_INTERVAL / SECOND


async def page_of(place: Place, first: int, count_max: int = READ_FACTS_MAX) -> LogPage:
    """What the reader answers."""
    page = await place.ask(ReadLog(GLOBAL_LOG, first, count_max))
    assert isinstance(page, LogPage)
    return page


async def about_of(place: Place, about: str, after: int = 0, count_max: int = READ_FACTS_MAX) -> AboutPage:
    """What the reader answers."""
    page = await place.ask(ReadAbout(GLOBAL_LOG, about, after, count_max))
    assert isinstance(page, AboutPage)
    return page


async def image_of(place: Place, sections: tuple[str, ...] = ()) -> tuple[GlobalImage, int]:
    """The image as a follower fetches it, and the sequence that it is folded to."""
    fetch = ImageFetch(GLOBAL_LOG, sections)
    while (wanted := fetch.wanted()) is not None:
        assert fetch.take(await place.ask(wanted))
        if fetch.is_whole:
            fetch.decode()
    assert isinstance(fetch.image, GlobalImage)
    assert fetch.head is not None
    return fetch.image, fetch.head.sequence


@virtual
async def test_pages_chain_and_are_limited(place: Place) -> None:
    """A page holds no more facts than were asked for, than a page may hold, and than a message; the next begins behind it."""
    await place.keep()
    await place.serve()
    await place.ask(count_many("n", READ_FACTS_MAX + 500))
    for number in range(4):
        await place.ask(large_fact(READ_BYTES_MAX // 5 + number))

    asked = await page_of(place, 2, 7)
    assert 7 == len(asked.facts)
    assert place.file.hash_at(1) == asked.hash_before
    assert place.file.hash_at(8) == asked.hash_after

    full = await page_of(place, 1, 10 * READ_FACTS_MAX)
    assert READ_FACTS_MAX == len(full.facts)
    heavy = await page_of(place, READ_FACTS_MAX + 502)
    assert 2 == len(heavy.facts)

    names, first, before = [], 1, b""
    while first <= place.durable:
        page = await page_of(place, first)
        assert before == page.hash_before
        for fact in page.facts:
            event = decode_event(fact.event)
            names.append(event.region if isinstance(event, RegionAdded) else "")
        first, before = first + len(page.facts), page.hash_after
    assert ["", *(await place.folded()).regions.sequences] == names


@virtual
async def test_beyond_the_head_there_is_nothing(place: Place) -> None:
    """A page from there on is empty, and both its hashes are the head's; what is written and not synced is not there."""
    await place.keep()
    await place.serve()
    await place.ask(count("a"))
    for first in (3, 4, 1000):
        page = await page_of(place, first)
        assert () == page.facts
        assert place.file.hash_at(2) == page.hash_before == page.hash_after
        assert 1 == page.term
    place.sync = seconds(1)
    place.client.say(count("b"))
    await place.moment()
    assert 3 == len(place.file.rows)
    assert () == (await page_of(place, 3)).facts


@virtual
async def test_facts_about_one_thing(place: Place) -> None:
    """In order, each with its sequence, page by page behind the last; the head tells how far the log had come."""
    await place.keep()
    await place.serve()
    for name in ("a", "b", "c"):
        await place.ask(count(name))
    # The counter counts a name once, but a log may say more about one thing.
    page = await about_of(place, "b")
    assert [("b", 3)] == [(decode_event(fact.event).about, fact.sequence) for fact in page.facts]
    assert (0, 4, 1) == (page.next, page.head, page.term)
    assert () == (await about_of(place, "b", after=3)).facts
    assert () == (await about_of(place, "nobody")).facts
    assert ((), 4) == ((await about_of(place, "")).facts, (await about_of(place, "")).head)


@virtual
async def test_many_facts_about_one_thing(place: Place) -> None:
    """A page ends by count or by size, and says behind which sequence there are more."""
    log = await place.store.open(GLOBAL_LOG, "log")
    events = [opened(), *(RegionAdded(EU) for _ in range(READ_FACTS_MAX + 10))]
    await log.append([row_of(a_fact(event, number)) for number, event in enumerate(events, 1)], 1)
    await place.serve()
    first = await about_of(place, EU)
    assert (READ_FACTS_MAX, READ_FACTS_MAX + 1) == (len(first.facts), first.next)
    rest = await about_of(place, EU, after=first.next)
    assert (10, 0, READ_FACTS_MAX + 12) == (len(rest.facts), rest.next, rest.facts[-1].sequence + 1)
    few = await about_of(place, EU, count_max=3)
    assert ([2, 3, 4], 4) == ([fact.sequence for fact in few.facts], few.next)
    assert 1 == len((await about_of(place, EU, after=-5, count_max=0)).facts)


@virtual
async def test_nobody_waits_for_facts_about_one_thing(place: Place) -> None:
    """A look through thousands of archive files holds up other such looks at most, and never a page or an image."""
    await place.keep()
    serving = await place.serve()
    await place.ask(count("a"))
    reader, goes_on = serving.reader._reader, asyncio.Event()
    look = reader.read_about

    async def look_slowly(about: str, after: int, count_max: int, bytes_max: int) -> list[Row]:
        await goes_on.wait()
        return await look(about, after, count_max, bytes_max)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "read_about", look_slowly)
        looks = [place.loop.create_task(about_of(place, "a")) for _ in range(3)]
        await place.moment()
        assert 2 == len((await page_of(place, 1)).facts)
        assert 2 == (await image_of(place))[1]
        assert [2, False] == [serving.reader.waiting(), any(look.done() for look in looks)]
        goes_on.set()
        assert [2, 2, 2] == [(await look).facts[0].sequence for look in looks]


@virtual
async def test_images_by_sections_equal_the_fold(place: Place) -> None:
    """Whichever sections are asked for, they are those of the log's fold, and the newest there is."""
    await place.keep()
    await place.serve()
    for name in ("a", "b"):
        await place.ask(count(name))
        folded = await place.folded()
        for sections in ((), ("regions",), ("awards", "regions"), ("workloads",)):
            image, sequence = await image_of(place, sections)
            assert folded.encode(sections) == image.encode(sections)
            assert place.durable == sequence
            assert set(sections or GlobalImage.SECTIONS) == set(image.sections)


@virtual
async def test_image_after_a_page_that_could_not_be_read(place: Place) -> None:
    """What was folded before the page failed is not folded again: the next image equals the fold."""
    w1 = WorkloadId("w-1")
    failed = [
        event
        for epoch in range(1, READ_FACTS_MAX)
        for event in (
            WorkloadAwarded(w1, epoch, EU, 0, ()),
            AttemptClosed(w1, epoch, EndCause.TASK_FAILED, Phase.PENDING, EU, epoch),
        )
    ]
    events: list[Event] = [opened(), RegionAdded(EU), submitted(1), *failed]
    rows = [row_of(a_fact(event, number)) for number, event in enumerate(events, 1)]
    log = await place.store.open(GLOBAL_LOG, "log")
    await log.append(rows[:10], 1)
    await place.serve()
    assert 10 == (await image_of(place))[1]
    await log.append(rows[10:], 1)
    place.disk.flip_byte(GLOBAL_LOG, len(rows))
    with capture_logs() as lines, pytest.raises(AskTimedOut):
        await image_of(place)
    assert ["log_unreadable"] == [line["event"] for line in lines]
    place.disk.flip_byte(GLOBAL_LOG, len(rows))
    image, sequence = await image_of(place)
    assert (len(rows), len(failed) // 2) == (sequence, image.workloads.rows[w1].tasks_failed)
    assert (await place.folded()).encode() == image.encode()


@virtual
async def test_snapshot_keeps_the_start_short(place: Place) -> None:
    """After so many facts a snapshot is kept; whoever starts folds it and the tail, and knows what the keeper knows."""
    keeper = await place.keep()
    await place.serve()
    await place.ask(count_many("n", SNAPSHOT_FACTS - 2))
    await place.sleep(1.5 * SNAPSHOT_SECONDS)
    assert {} == place.file.images, "not before so many"
    await place.ask(count("a"))
    await place.sleep(SNAPSHOT_SECONDS)
    assert [SNAPSHOT_FACTS] == list(place.file.images)
    await place.ask(count("b"))
    await place.sleep(3 * SNAPSHOT_SECONDS)
    assert [SNAPSHOT_FACTS] == list(place.file.images), "nor again after a few more"

    reader = await place.store.reader(GLOBAL_LOG)
    image, head, begun = await load_image(reader, GLOBAL_LOG)
    assert (SNAPSHOT_FACTS, SNAPSHOT_FACTS + 1) == (begun, head.sequence)
    assert keeper.counter.image.digest() == image.digest()
    # To start does not even read what the snapshot covers: its rows could be gone.
    place.file.rows[: SNAPSHOT_FACTS - 1] = [place.file.rows[0]] * (SNAPSHOT_FACTS - 1)
    place.crash(keeper)
    again = await place.keep()
    assert SNAPSHOT_FACTS == number_of(await place.ask(how_many()))
    assert again.counter.names == keeper.counter.names


@virtual
async def test_damaged_snapshot_is_not_started_from(place: Place) -> None:
    """The one before it and a longer tail give the same state."""
    keeper = await place.keep()
    await place.serve()
    for turn in range(2):
        await place.ask(count_many(f"n{turn}", SNAPSHOT_FACTS))
        await place.sleep(1.5 * SNAPSHOT_SECONDS)
    first, second = sorted(place.file.images)
    place.disk.flip_byte_in_snapshot(GLOBAL_LOG, second)
    image, _, begun = await load_image(await place.store.reader(GLOBAL_LOG), GLOBAL_LOG)
    assert first == begun
    assert keeper.counter.image.digest() == image.digest()


@virtual
async def test_snapshot_of_another_build_is_not_started_from(place: Place) -> None:
    """It lacks a section, or a field of one, that its build did not fold: every fact is folded anew, and a line says so."""
    keeper = await place.keep()
    await place.serve()
    await place.ask(count_many("n", SNAPSHOT_FACTS))
    await place.sleep(1.5 * SNAPSHOT_SECONDS)
    reader = await place.store.reader(GLOBAL_LOG)
    kept = await reader.snapshot()
    assert kept is not None
    for missing in ("awards", "submitted"):
        sections = msgspec.msgpack.decode(kept.image)
        del (sections if missing in sections else sections["workloads"])[missing]
        await reader.keep_snapshot(Snapshot(kept.head, msgspec.msgpack.encode(sections)))
        with capture_logs() as lines:
            image, head, begun = await load_image(reader, GLOBAL_LOG)
        assert (0, SNAPSHOT_FACTS + 1) == (begun, head.sequence)
        assert keeper.counter.image.digest() == image.digest()
        said = [(line["event"], line["sequence"]) for line in lines]
        assert [("snapshot_of_another_build", SNAPSHOT_FACTS + 1)] == said
    place.crash(keeper)
    again = await place.keep()
    assert SNAPSHOT_FACTS == number_of(await place.ask(how_many()))
    assert keeper.counter.names == again.counter.names


@virtual
async def test_full_disk_keeps_no_snapshot_and_the_reader_goes_on(place: Place) -> None:
    """A snapshot that cannot be written is said in a line, and tried again when there is room."""
    await place.keep()
    await place.serve()
    await place.ask(count_many("n", SNAPSHOT_FACTS))
    place.disk.is_full = True
    with capture_logs() as lines:
        await place.sleep(1.5 * SNAPSHOT_SECONDS)
    assert ["snapshot_not_kept"] == [line["event"] for line in lines]
    assert SNAPSHOT_FACTS + 1 == (await image_of(place))[1]
    place.disk.is_full = False
    await place.sleep(1.5 * SNAPSHOT_SECONDS)
    assert [SNAPSHOT_FACTS + 1] == list(place.file.images)


@virtual
async def test_log_that_is_not_there_is_not_answered_for(place: Place) -> None:
    """Who asks for a log that nobody has made yet hears nothing, and tries again; an empty one is no log yet."""
    await place.serve()
    for message in (ReadLog(GLOBAL_LOG, 1, 1), ReadAbout(GLOBAL_LOG, "a"), FetchImage(GLOBAL_LOG, ())):
        with pytest.raises(AskTimedOut):
            await place.ask(message)
    await place.store.open(GLOBAL_LOG, "log")
    with pytest.raises(AskTimedOut):
        await place.ask(FetchImage(GLOBAL_LOG, ()))
    place.disk.crash()
    await place.keep()
    assert 1 == len((await page_of(place, 1)).facts)


@virtual
async def test_damaged_log_is_not_answered_for(place: Place) -> None:
    """A row that is not the one written is never handed on: the reader says so in a line, and serves what is sound."""
    keeper = await place.keep()
    await place.serve()
    for name in "abc":
        await place.ask(count(name))
    place.disk.flip_byte(GLOBAL_LOG, 3)
    with capture_logs() as lines:
        for message in (ReadLog(GLOBAL_LOG, 1, 10), FetchImage(GLOBAL_LOG, ())):
            with pytest.raises(AskTimedOut):
                await place.ask(message)
    assert ["log_unreadable"] * 2 == [line["event"] for line in lines]
    assert all("at sequence 3" in line["error"] for line in lines)
    assert 1 == len((await page_of(place, 4, 1)).facts)
    place.crash(keeper)
    with pytest.raises(LogBroken, match="at sequence 3"):
        await place.keep()
