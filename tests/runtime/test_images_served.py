"""Images for many at once: all sets of sections from one encoding, kept while it is read, and fetched page by page."""

from msgspec.structs import replace

from core.component import Follow
from core.images import GlobalImage
from core.images.fetch import ImageFetch
from core.messages.base import Refused
from core.messages.logs import FetchImage, ImagePage, LogPage, ReadLog
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import (
    FOLLOW_RETRY,
    IMAGE_KEPT_SPAN,
    IMAGE_SHARED_SPAN,
    IMAGES_ENCODED_MAX,
    LOG_PAGES_KEPT_MAX,
    READ_FACTS_MAX,
    READ_TIMEOUT,
    SNAPSHOT_INTERVAL,
)
from core.nouns.reasons import Reason
from tests.runtime.aids import Place, Running, Watcher, count, count_many, large_fact, virtual

SETS = (
    ("regions",),
    ("regions", "awards"),
    ("workloads", "regions"),
    ("awards", "regions", "workloads", "tenants"),
    (),
)
PAGES = 6
LARGE = 200_000
"""Bytes of one name; packed, some three names fill a page."""


async def a_large_log(place: Place) -> None:
    """A log of which the image has six pages in every set of sections."""
    await place.keep()
    for number in range(20):
        await place.ask(large_fact(LARGE + number))


def follow_all(place: Place) -> list[Running]:
    """Five followers that begin now, each with its own sections."""
    return [place.follow(Watcher(Follow(GLOBAL_LOG, sections))) for sections in SETS]


async def page_of(
    place: Place, sections: tuple[str, ...] = (), number: int = 0, of: ImagePage | None = None
) -> ImagePage:
    """A page of the newest image, or of the image that another page is of."""
    named = (of.sequence, of.hash) if of else (0, b"")
    answer = await place.ask(FetchImage(GLOBAL_LOG, sections, number, *named))
    assert isinstance(answer, ImagePage)
    return answer


@virtual
async def test_five_sets_asked_together_on_a_moving_log_all_complete(place: Place) -> None:
    """However fast the log moves and however many sets there are, each follower reads each page once, and is up."""
    await a_large_log(place)
    serving = await place.serve()
    place.network.faults.delay_min = place.network.faults.delay_max = Nanoseconds(seconds(0.1))
    followers = follow_all(place)
    for number in range(40):
        place.client.say(count(f"n{number}"))
        await place.sleep(0.05)
    assert all(follower.host.state is not None for follower in followers)
    assert PAGES * len(SETS) == place.network.delivered["image-page-packed"]
    assert 1 == len(serving.reader.images.kept)
    await place.sleep(3)
    folded = await place.folded()
    for follower, sections in zip(followers, SETS, strict=True):
        assert place.durable == follower.watcher.sequences[GLOBAL_LOG]
        image = follower.watcher.images[GLOBAL_LOG]
        assert isinstance(image, GlobalImage)
        assert folded.encode(sections) == image.encode(sections)


@virtual
async def test_image_that_is_read_is_not_dropped(place: Place) -> None:
    """A slow follower gets every page of the image that it began with, whatever others had encoded meanwhile."""
    await a_large_log(place)
    serving = await place.serve()
    first = await page_of(place)
    pages = [first]
    for number in range(1, first.pages):
        await place.sleep(IMAGE_KEPT_SPAN / SECOND - 1)
        for turn in range(2):
            await place.ask(count(f"n{number}-{turn}"))
            await page_of(place, ("regions",))
            await place.sleep(0.3)
        pages.append(await page_of(place, (), number, first))
        assert len(serving.reader.images.kept) <= IMAGES_ENCODED_MAX
    assert [(first.sequence, number) for number in range(first.pages)] == [
        (page.sequence, page.page) for page in pages
    ]
    assert pages[-1].newest == place.durable > first.sequence


@virtual
async def test_few_images_are_kept_and_the_newest_serves_all(place: Place) -> None:
    """While as many as there may be are read, no other is encoded; one that nobody reads any more makes room."""
    await a_large_log(place)
    serving = await place.serve()
    read: list[ImagePage] = []
    for number in range(2 * IMAGES_ENCODED_MAX):
        await place.ask(count(f"n{number}"))
        read.append(await page_of(place))
        await place.sleep(IMAGE_SHARED_SPAN / SECOND)
        for page in read:
            await page_of(place, (), 1, page)
    sequences = [page.sequence for page in read]
    assert sequences[:IMAGES_ENCODED_MAX] == [one.head.sequence for one in serving.reader.images.kept]
    assert {sequences[IMAGES_ENCODED_MAX - 1]} == set(sequences[IMAGES_ENCODED_MAX - 1 :])
    await place.sleep((IMAGE_KEPT_SPAN + SNAPSHOT_INTERVAL) / SECOND + 1)
    assert [] == serving.reader.images.kept
    assert place.durable == (await page_of(place)).sequence


@virtual
async def test_requests_near_each_other_share_an_encoding(place: Place) -> None:
    """A head is no reason to encode anew until some seconds have passed; nor is time, while the log rests."""
    await place.keep()
    serving = await place.serve()
    made = set()
    for number in range(100):
        await place.ask(count(f"n{number}"))
        made.add((await page_of(place)).sequence)
        await place.sleep(0.1)
    assert 10 // (IMAGE_SHARED_SPAN / SECOND) <= len(made) <= 11 // (IMAGE_SHARED_SPAN / SECOND) + 1
    newest = (await page_of(place)).sequence
    await place.sleep(IMAGE_SHARED_SPAN / SECOND)
    at_rest = {(await page_of(place)).sequence}
    for _ in range(4):
        await place.sleep(IMAGE_SHARED_SPAN / SECOND)
        at_rest.add((await page_of(place)).sequence)
    assert {place.durable} == at_rest
    assert newest <= place.durable
    assert serving.reader.images.kept


@virtual
async def test_follower_goes_on_at_the_page_that_it_has(place: Place) -> None:
    """A lost page is asked for again, and no page before it."""
    await a_large_log(place)
    await place.serve()
    place.network.faults.delay_min = place.network.faults.delay_max = Nanoseconds(seconds(0.1))
    follower = place.follow()
    await place.until(lambda: 3 == place.network.delivered.get("image-page-packed", 0))
    cut = place.network.cut(["reader.global"], ["*"])
    await place.ask(count("a"))
    await place.sleep((READ_TIMEOUT + FOLLOW_RETRY) / SECOND)
    place.network.heal(cut)
    await place.until(lambda: follower.host.state is not None, 10)
    assert PAGES == place.network.delivered["image-page-packed"]
    assert "a" in follower.watcher.names


@virtual
async def test_reader_that_starts_anew_in_the_middle(place: Place) -> None:
    """What the reader before had encoded is gone: all begin with the first page of another image, and complete it."""
    await a_large_log(place)
    serving = await place.serve()
    place.network.faults.delay_min = place.network.faults.delay_max = Nanoseconds(seconds(0.1))
    followers = follow_all(place)
    await place.until(lambda: 12 <= place.network.delivered.get("image-page-packed", 0))
    serving.kill()
    await place.ask(count("a"))
    await place.serve(name="reader.global.again")
    await place.until(lambda: all(one.host.state is not None for one in followers), 10)
    assert all("a" in one.watcher.names for one in followers)


@virtual
async def test_image_has_what_was_recorded_while_it_was_fetched(place: Place) -> None:
    """What is adopted is as new as the log was at the last page: nobody begins with what an encoding had some seconds ago."""
    await place.keep()
    await place.serve()
    await page_of(place)
    await place.ask(count_many("n", READ_FACTS_MAX + 5))
    await place.sleep(1)
    follower = place.follow()
    await place.until(lambda: follower.host.state is not None)
    assert READ_FACTS_MAX + 5 == len(follower.watcher.names)
    assert [] == follower.watcher.taken, "all of it was in the image already"
    assert 1 == place.network.delivered["image-page-packed"] - 1, "the encoding was there"


@virtual
async def test_unknown_sections_are_refused_and_the_reader_lives(place: Place) -> None:
    """One that asks for what no image has is told so, and is nobody's death."""
    await place.keep()
    await place.serve()
    for sections in (("regions", "weather"), ("",)):
        answer = await place.ask(FetchImage(GLOBAL_LOG, sections))
        assert isinstance(answer, Refused)
        assert Reason.INVALID == answer.reason
        assert repr(sections[-1]) in answer.problems[0]
    for number in (-1, 7, 1 << 40):
        first = await page_of(place)
        assert 0 == (await page_of(place, (), number, first)).page
    assert place.durable == (await page_of(place)).sequence


@virtual
async def test_pages_of_the_log_are_answered_from_memory(place: Place) -> None:
    """Followers that start together read the same pages: each is read from the disk once, and few are remembered."""
    await place.keep()
    serving = await place.serve()
    await place.ask(count_many("n", READ_FACTS_MAX))
    asked = ReadLog(GLOBAL_LOG, 1, 100)
    first = await place.ask(asked)
    assert isinstance(first, LogPage)
    place.disk.flip_byte(GLOBAL_LOG, 50)
    assert first == await place.ask(asked), "it was not read again"
    place.disk.flip_byte(GLOBAL_LOG, 50)
    for number in range(2 * LOG_PAGES_KEPT_MAX):
        page = await place.ask(ReadLog(GLOBAL_LOG, number + 1, 10))
        assert isinstance(page, LogPage)
        assert 10 == len(page.facts)
    assert LOG_PAGES_KEPT_MAX == len(serving.reader._pages)
    last = await place.ask(ReadLog(GLOBAL_LOG, place.durable, 100))
    await place.ask(count("a"))
    again = await place.ask(ReadLog(GLOBAL_LOG, place.durable - 1, 100))
    assert isinstance(last, LogPage)
    assert isinstance(again, LogPage)
    assert (1, 2) == (len(last.facts), len(again.facts)), "a page that ends at the head grows"


# What a fetch takes, and what it does not.


@virtual
async def test_fetch_takes_each_page_once_and_in_order(place: Place) -> None:
    """A page that comes twice, early, or of another image adds nothing; a first page of another image begins anew."""
    await a_large_log(place)
    await place.serve()
    pages = [await page_of(place)]
    pages += [await page_of(place, (), number, pages[0]) for number in range(1, PAGES)]
    await place.sleep(IMAGE_SHARED_SPAN / SECOND)
    await place.ask(count("a"))
    other = await page_of(place)
    fetch = ImageFetch(GLOBAL_LOG, ())
    assert FetchImage(GLOBAL_LOG, ()) == fetch.wanted()
    assert not fetch.take(pages[1])
    assert fetch.take(pages[0])
    assert not fetch.take(pages[0])
    assert not fetch.take(pages[2])
    assert fetch.take(pages[1])
    assert FetchImage(GLOBAL_LOG, (), 2, pages[0].sequence, pages[0].hash) == fetch.wanted()
    assert fetch.take(other)
    assert FetchImage(GLOBAL_LOG, (), 1, other.sequence, other.hash) == fetch.wanted()
    assert not fetch.take(pages[1]), "of the image before"
    for page in pages:
        assert fetch.take(page)
    fetch.decode()
    assert pages[0].sequence == (fetch.head.sequence if fetch.head else 0)
    assert fetch.wanted() is None, "nothing was recorded before the last of these pages"
    assert not fetch.take(pages[0])


@virtual
async def test_fetch_begins_anew_where_the_log_has_another_history(place: Place) -> None:
    """Facts that do not follow the image's head, of another log or of a lower term, are not folded."""
    await place.keep()
    await place.serve()
    for name in "abc":
        await place.ask(count(name))
    first = await page_of(place)
    await place.ask(count("d"))
    page = await page_of(place)
    assert (first.sequence, first.sequence + 1) == (page.sequence, page.newest)
    facts = await place.ask(ReadLog(GLOBAL_LOG, page.newest, READ_FACTS_MAX))
    assert isinstance(facts, LogPage)
    for changed in ({"hash_before": b"x"}, {"log_id": "other"}, {"term": 0}):
        fetch = ImageFetch(GLOBAL_LOG, ("regions",))
        assert fetch.take(await page_of(place, ("regions",)))
        fetch.decode()
        assert ReadLog(GLOBAL_LOG, page.newest, READ_FACTS_MAX) == fetch.wanted()
        assert not fetch.take(replace(facts, **changed))
        assert FetchImage(GLOBAL_LOG, ("regions",)) == fetch.wanted()
    fetch = ImageFetch(GLOBAL_LOG, ("regions",))
    assert fetch.take(await page_of(place, ("regions",)))
    fetch.decode()
    assert fetch.take(facts)
    assert fetch.wanted() is None
    assert isinstance(fetch.image, GlobalImage)
    assert ["a", "b", "c", "d"] == list(fetch.image.regions.sequences)
