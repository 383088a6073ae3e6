"""Following a log: gap-free and in order whatever the bus loses, and nothing of a history that is not the one known."""

from collections.abc import MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from components import JobQueue, PlacementStore
from components.placement_store.state import StoreState
from core.codec import encode
from core.component import Decision, Follow
from core.events.queue import RegionAdded
from core.events.region import AwardDeclined
from core.fact import Event, Fact, Head
from core.images import empty_image
from core.messages.base import Envelope
from core.messages.logs import FactsTold, HeadTold, ToldFact
from core.messages.queue import CancelWorkload
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import FOLLOW_LAG_MIN, HEAD_SILENCE_MAX, IMAGE_PAGE_BYTES, READ_FACTS_MAX
from runtime.errors import OlderCopy
from runtime.following import FollowCounts
from runtime.host import Host
from runtime.images import load_image
from runtime.keeping.kept import Kept
from store.memory import MemoryStore
from store.port import Row
from tests.runtime.aids import (
    START,
    Counter,
    CounterState,
    Place,
    Running,
    Watcher,
    count,
    count_many,
    large_fact,
    virtual,
)

REGION = LogName("region.r")
Lines = list[MutableMapping[str, Any]]  # Any: as structlog


def counts_of(running: Running) -> FollowCounts:
    """What the first of its followings counted."""
    return running.host._followings[0].counts


def lines_of(lines: Lines, event: str) -> Lines:
    """The lines of one event."""
    return [line for line in lines if line["event"] == event]


async def a_watched_counter(place: Place, *names: str) -> tuple[Running, Running]:
    """A keeper that counted these, its reader, and a watcher that has caught up."""
    keeper = await place.keep()
    await place.serve()
    for name in names:
        await place.ask(count(name))
    watcher = place.follow()
    await place.until(lambda: watcher.host.state is not None)
    return keeper, watcher


async def restore(
    place: Place, keeper: Running, backup: Any
) -> Running:  # Any: a MemoryDisk, before it is one
    """The keeper's disk is gone, and a copy of it is used instead, by a keeper and a reader of its own."""
    place.crash(keeper)
    for endpoint in [one for one in place.network._endpoints if one.name == "reader.global"]:
        endpoint.crash()
    place.disk = backup
    place.store = MemoryStore(backup)
    again = await place.keep()
    await place.serve()
    return again


def a_head(place: Place, **changed: Any) -> HeadTold:  # Any: a field of HeadTold
    """The head of the log, as its keeper would say it, but for what is changed."""
    file = place.file
    fields = {
        "log": GLOBAL_LOG,
        "log_id": file.log_id,
        "term": file.term,
        "sequence": file.durable,
        "hash": file.hash_at(file.durable),
    }
    return HeadTold(**{**fields, **changed})


def facts_told(place: Place, begin: int, last: int, **changed: Any) -> FactsTold:  # Any: a field
    """These facts, as their keeper would announce them, but for what is changed."""
    file = place.file
    facts = tuple(ToldFact(row.at, row.cause, row.actor, row.event) for row in file.rows[begin - 1 : last])  # type: ignore[arg-type]
    fields = {
        "log": GLOBAL_LOG,
        "log_id": file.log_id,
        "term": file.term,
        "first": begin,
        "hash_before": file.hash_at(begin - 1),
        "hash_after": file.hash_at(last),
        "facts": facts,
    }
    return FactsTold(**{**fields, **changed})


# Gap-free and in order.


@virtual
async def test_gap_is_read(place: Place) -> None:
    """T7: what was not heard is read as soon as something after it is heard, and handed on in order."""
    _, watcher = await a_watched_counter(place, "a")
    cut = place.network.cut(["queue"], ["auditor"])
    await place.ask(count("b"))
    await place.ask(count("c"))
    place.network.heal(cut)
    assert ["a"] == watcher.watcher.names
    await place.ask(count("d"))
    await place.moment()
    assert ["a", "b", "c", "d"] == watcher.watcher.names
    assert [3, 4, 5] == watcher.watcher.taken
    assert 1 == counts_of(watcher).gaps


@virtual
async def test_lost_announcement_is_healed_by_the_next_head(place: Place) -> None:
    """Though nothing is told after it: the keeper says its head after two seconds of silence."""
    _, watcher = await a_watched_counter(place, "a")
    cut = place.network.cut(["queue"], ["auditor"])
    await place.ask(count("b"))
    place.network.heal(cut)
    begun = place.loop.now_ns()
    await place.until(lambda: watcher.watcher.names == ["a", "b"])
    assert place.loop.now_ns() - begun < 2.1 * SECOND


@virtual
async def test_many_pages_are_read_without_a_pause(place: Place) -> None:
    """Whoever is far behind reads page after page, and waits for nobody's word between them."""
    _, watcher = await a_watched_counter(place)
    cut = place.network.cut(["queue"], ["auditor"])
    many = 5 * READ_FACTS_MAX + 1
    await place.ask(count_many("n", many))
    place.network.heal(cut)
    begun = place.loop.now_ns()
    await place.until(lambda: many == len(watcher.watcher.names))
    assert place.loop.now_ns() - begun < 2.2 * SECOND
    assert 6 == counts_of(watcher).gaps


@virtual
async def test_follower_that_lags_says_so_and_calls_nobody_silent(place: Place) -> None:
    """Whoever is far behind a log that is heard says by how much, in few lines, and catches up."""
    _, watcher = await a_watched_counter(place)
    cut = place.network.cut(["queue"], ["auditor"])
    many = FOLLOW_LAG_MIN + 3 * READ_FACTS_MAX
    await place.ask(count_many("n", many))
    place.network.faults.delay_min = place.network.faults.delay_max = Nanoseconds(seconds(0.5))
    place.network.heal(cut)
    with capture_logs() as lines:
        await place.until(lambda: many == len(watcher.watcher.names))
    told = lines_of(lines, "follower_lags")
    assert [(GLOBAL_LOG, "auditor", many - READ_FACTS_MAX)] == [
        (line["log"], line["host"], line["facts"]) for line in told
    ]
    assert [(GLOBAL_LOG, "heard")] == watcher.watcher.notices
    assert 0 == watcher.host._followings[0].lag


@virtual
async def test_what_was_heard_beyond_a_gap_is_not_read(place: Place) -> None:
    """One lost fact is read alone, however much was told after it: that is there already."""
    _, watcher = await a_watched_counter(place, "a")
    cut = place.network.cut(["queue"], ["auditor"])
    await place.ask(count("b"))
    place.network.heal(cut)
    await place.ask(count_many("n", READ_FACTS_MAX + 100))
    await place.moment()
    assert READ_FACTS_MAX + 102 == len(watcher.watcher.names)
    assert 1 == counts_of(watcher).gaps
    assert 0 == counts_of(watcher).dropped


@virtual
async def test_late_and_repeated_announcements_are_skipped(place: Place) -> None:
    """Each fact is handed on once, whatever comes twice, late, or overlapping with what is known."""
    faults = place.network.faults
    faults.repeat_probability, faults.repeat_delay = 1.0, seconds(3)
    faults.is_reordering, faults.extra_delay_probability = True, 0.5
    _, watcher = await a_watched_counter(place)
    names = [f"n{number}" for number in range(40)]
    for name in names:
        place.client.say(count(name))
        await place.sleep(0.05)
    await place.until(lambda: len(names) == len(watcher.watcher.names))
    await place.sleep(5)
    place.client.say(facts_told(place, 2, 5))
    await place.moment()
    first = watcher.watcher.taken[0]
    assert list(range(first, place.durable + 1)) == watcher.watcher.taken
    assert 0 == counts_of(watcher).refused
    assert 1 == counts_of(watcher).images


@virtual
async def test_overlap_is_read_and_not_folded(place: Place) -> None:
    """An announcement that begins with what is known already cannot show that its rest follows; the reader's page does."""
    _, watcher = await a_watched_counter(place, "a", "b")
    place.network.cut(["queue"], ["auditor"])
    await place.ask(count("c"))
    await place.ask(count("d"))
    place.client.say(facts_told(place, 2, 5))
    await place.moment()
    assert [4, 5] == watcher.watcher.taken
    assert ["a", "b", "c", "d"] == watcher.watcher.names
    assert 1 == counts_of(watcher).gaps


# Whose word counts.


@virtual
async def test_lower_term_is_refused(place: Place) -> None:
    """T35, L6: a keeper that was replaced and does not know it is not listened to, whatever it says, and is no sign of
    life.
    """
    keeper, watcher = await a_watched_counter(place, "a")
    place.crash(keeper)
    keeper = await place.keep()
    await place.ask(count("b"))
    await place.moment()
    place.crash(keeper)
    with capture_logs() as lines:
        for _ in range(6):
            event = encode(RegionAdded(RegionName("x")))
            fact = ToldFact(START, "", "", event)
            place.client.say(facts_told(place, 4, 4, first=5, term=1, facts=(fact,)))
            place.client.say(a_head(place, term=1, sequence=9))
            await place.sleep(1)
    assert ["a", "b"] == watcher.watcher.names
    assert 12 == counts_of(watcher).refused == len(lines_of(lines, "keeper_refused"))
    assert (GLOBAL_LOG, "silent") == watcher.watcher.notices[-1]


@virtual
async def test_other_log_id_is_refused(place: Place) -> None:
    """Another log of the same name, however long and however high its term, is not the one we follow."""
    _, watcher = await a_watched_counter(place, "a")
    with capture_logs() as lines:
        place.client.say(a_head(place, log_id="other", term=9, sequence=9))
        place.client.say(facts_told(place, 2, 2, log_id="other", term=9, first=3))
        await place.moment()
    assert 2 == counts_of(watcher).refused == len(lines_of(lines, "keeper_refused"))
    assert 0 == counts_of(watcher).gaps
    await place.ask(count("b"))
    await place.moment()
    assert ["a", "b"] == watcher.watcher.names


@virtual
async def test_restored_older_file_is_refused(place: Place) -> None:
    """A keeper of a higher term and a shorter log forgot what we know: we keep what we know, and call it silent."""
    keeper, watcher = await a_watched_counter(place, "a")
    backup = place.disk.copy()
    await place.ask(count("b"))
    await place.ask(count("c"))
    await place.moment()
    with capture_logs() as lines:
        again = await restore(place, keeper, backup)
        await place.sleep(7)
    assert (2, 3) == (place.file.term, place.durable)
    assert ["a"] == again.counter.names
    assert ["a", "b", "c"] == watcher.watcher.names
    assert lines_of(lines, "keeper_refused")
    assert (GLOBAL_LOG, "silent") == watcher.watcher.notices[-1]
    assert [] == watcher.watcher.adopted


@virtual
async def test_restored_older_file_of_the_same_term_is_no_sign_of_life(place: Place) -> None:
    """A copy from before the last restart comes back under the term that we know: nothing of it is folded either, and
    it counts as silent, for its head lies behind ours.
    """
    keeper, watcher = await a_watched_counter(place, "a")
    backup = place.disk.copy()
    place.crash(keeper)
    keeper = await place.keep()
    await place.ask(count("b"))
    await place.ask(count("c"))
    await place.moment()
    await restore(place, keeper, backup)
    await place.sleep(7)
    assert (2, 3) == (place.file.term, place.durable)
    assert ["a", "b", "c"] == watcher.watcher.names
    assert (GLOBAL_LOG, "silent") == watcher.watcher.notices[-1]


@virtual
async def test_hash_that_does_not_chain_starts_again_from_the_image(place: Place) -> None:
    """Once the restored log has outgrown what we know it cannot be told by its length, but its hashes do not follow: we start from its
    image, and log that.
    """
    keeper, watcher = await a_watched_counter(place, "a")
    backup = place.disk.copy()
    await place.ask(count("b"))
    await place.moment()
    with capture_logs() as lines:
        await restore(place, keeper, backup)
        cut = place.network.cut(["queue"], ["auditor"])
        for name in ("x", "y", "z"):
            await place.ask(count(name))
        place.network.heal(cut)
        await place.until(lambda: bool(watcher.watcher.adopted))
    assert ["a", "x", "y", "z"] == watcher.watcher.names
    assert [(GLOBAL_LOG, place.durable)] == watcher.watcher.adopted
    assert ["hash_does_not_chain"] == [line["why"] for line in lines_of(lines, "log_adopted_anew")]
    await place.ask(count("b"))
    await place.moment()
    assert ["a", "x", "y", "z", "b"] == watcher.watcher.names
    assert place.durable == watcher.watcher.sequences[GLOBAL_LOG]


@virtual
async def test_head_with_another_hash_starts_again(place: Place) -> None:
    """As long as ours and not ours: two histories of one length differ in their last hash."""
    keeper, watcher = await a_watched_counter(place, "a")
    backup = place.disk.copy()
    await place.ask(count("b"))
    await place.moment()
    with capture_logs() as lines:
        again = await restore(place, keeper, backup)
        assert 3 == place.durable
        await place.until(lambda: bool(watcher.watcher.adopted), 10)
    assert again.counter.names == watcher.watcher.names == ["a"]
    assert ["head_differs"] == [line["why"] for line in lines_of(lines, "log_adopted_anew")]


async def a_store(place: Place, *events: Event) -> tuple[Running, StoreState]:
    """The real keeper of a region's log, because it rests on the queue's; and its state, as soon as it has begun."""
    log = await place.store.open(REGION, "region-log")
    rows = [Row(number, START, "", "", event.about, encode(event)) for number, event in enumerate(events, 1)]
    await log.append(rows, 1)
    image, _, _ = await load_image(await place.store.reader(REGION), REGION)
    bus = place.network.endpoint("store.r")
    host = Host(PlacementStore(RegionName("r")), bus, place.clock(), Kept(log, image, "fleet", "test"))
    running = Running(place.loop, host, bus)
    await place.until(lambda: host.state is not None)
    assert host.state is not None
    return running, host.state


@virtual
async def test_image_shorter_than_the_one_cited_by_our_own_log_is_refused(place: Place) -> None:
    """A keeper that starts knows by its own facts how far another log had come: a shorter one is an older copy, and is not adopted until
    it has come so far.
    """
    running, state = await a_store(place, AwardDeclined(WorkloadId("w-1"), 1, "withdrawn", award_sequence=6))
    await place.keep()
    await place.serve()
    with capture_logs() as lines:
        await place.sleep(5)
    refused = lines_of(lines, "older_log_refused")
    assert {("global", 1, 6)} == {(line["log"], line["sequence"], line["known"]) for line in refused}
    assert 0 == counts_of(running).images
    assert counts_of(running).refused >= 4
    for name in "abcde":
        await place.ask(count(name))
    await place.until(lambda: 1 == counts_of(running).images, 5)
    assert 6 == state.global_sequence


@virtual
async def test_keeper_starts_from_no_other_history(place: Place) -> None:
    """A follower may start anew from another history; a keeper has built facts on the one it knew, and goes no further."""
    keeper = await place.keep()
    await place.serve()
    running, state = await a_store(place)
    await place.ask(count("a"))
    backup = place.disk.copy()
    await place.ask(count("b"))
    await place.until(lambda: 3 == state.global_sequence, 10)
    with capture_logs() as lines:
        await restore(place, keeper, backup)
        cut = place.network.cut(["queue"], ["store.r"])
        for name in ("x", "y", "z"):
            await place.ask(count(name))
        place.network.heal(cut)
        await place.sleep(30)
        await place.ask(count("v"))
        await place.sleep(30)
    assert ["hash_does_not_chain"] == [line["why"] for line in lines_of(lines, "other_history_refused")]
    assert 3 == state.global_sequence
    assert 1 == counts_of(running).images
    assert running.failure is None


@virtual
async def test_keeper_of_an_older_copy_stops(place: Place) -> None:
    """A keeper whose own log ends before what another log rests on has an older copy of its file: it decides nothing more."""
    own = await place.store.open(GLOBAL_LOG, "queue-log")
    image, _, _ = await load_image(await place.store.reader(GLOBAL_LOG), GLOBAL_LOG)
    bus = place.network.endpoint("queue")
    host = Host(JobQueue((RegionName("r"),)), bus, place.clock(), Kept(own, image, "fleet", "test"))
    region = empty_image(REGION, ("attempts", "hardware"))
    declined = AwardDeclined(WorkloadId("w-1"), 1, "withdrawn", award_sequence=6)
    region.fold(Fact(REGION, 1, START, "", "", declined))
    with pytest.raises(OlderCopy, match="older copy"):
        host.adopt(REGION, region, Head(REGION, "region-log", 1, 1, b"x"))
    host.close()


# Late, silent, large, and unknown.


@virtual
async def test_log_that_is_not_required_is_adopted_late(place: Place) -> None:
    """A follower begins without it, and hears of it as an image once there is one; facts follow that image."""
    watcher = place.follow(Watcher(Follow(GLOBAL_LOG, ("regions",), is_required=False)))
    await place.sleep(3)
    assert {} == watcher.watcher.images
    await place.keep()
    await place.serve()
    await place.ask(count("a"))
    await place.until(lambda: bool(watcher.watcher.adopted))
    await place.ask(count("b"))
    await place.moment()
    assert ["a", "b"] == watcher.watcher.names
    assert 1 == len(watcher.watcher.adopted)
    assert [(GLOBAL_LOG, "heard")] == watcher.watcher.notices


@virtual
async def test_required_log_is_waited_for(place: Place) -> None:
    """Nothing is decided before every log that is needed has been folded up to what was told at the start."""
    watcher = place.follow()
    await place.sleep(30)
    assert watcher.host.state is None
    await place.keep()
    await place.ask(count("a"))
    await place.serve()
    await place.until(lambda: watcher.host.state is not None, 5)
    assert ["a"] == watcher.watcher.names
    assert [] == watcher.watcher.adopted


@virtual
async def test_silence_and_return_are_noticed_once(place: Place) -> None:
    """A keeper that says nothing for five seconds is silent; it is heard again once its facts are folded."""
    keeper, watcher = await a_watched_counter(place, "a")
    await place.sleep(20)
    assert [(GLOBAL_LOG, "heard")] == watcher.watcher.notices
    place.crash(keeper)
    died_at = place.loop.now_ns()
    await place.until(lambda: 2 == len(watcher.watcher.notices), 10)
    assert place.loop.now_ns() - died_at <= HEAD_SILENCE_MAX + 0.1 * SECOND
    await place.sleep(60)
    cut = place.network.cut(["queue"], ["auditor"])
    await place.keep()
    await place.ask(count("b"))
    place.network.heal(cut)
    await place.until(lambda: 3 == len(watcher.watcher.notices), 5)
    assert ["a", "b"] == watcher.watcher.names
    await place.sleep(20)
    assert [(GLOBAL_LOG, word) for word in ("heard", "silent", "heard")] == watcher.watcher.notices


@virtual
async def test_silence_is_noticed_by_a_watcher_that_is_behind_too(place: Place) -> None:
    """A region that is cut off while we lack some of its facts is as silent as any other."""
    _, watcher = await a_watched_counter(place, "a")
    cut = place.network.cut(["queue"], ["auditor"])
    await place.ask(count("b"))
    place.network.heal(cut)
    place.network.cut(["reader.global"], ["*"])
    await place.ask(count("c"))
    await place.moment()
    assert ["a"] == watcher.watcher.names
    everything = place.network.cut(["queue"], ["*"])
    await place.sleep(7)
    assert [(GLOBAL_LOG, "heard"), (GLOBAL_LOG, "silent")] == watcher.watcher.notices
    # The keeper alone is heard again: that is not enough while its facts cannot be had.
    place.network.heal(everything)
    await place.sleep(7)
    assert [(GLOBAL_LOG, "heard"), (GLOBAL_LOG, "silent")] == watcher.watcher.notices
    place.network.heal()
    await place.until(lambda: 3 == len(watcher.watcher.notices), 5)
    assert ["a", "b", "c"] == watcher.watcher.names


@virtual
async def test_image_comes_in_pages(place: Place) -> None:
    """An image larger than a message comes in pages of one and the same image, however the log goes on meanwhile."""
    await place.keep()
    await place.serve()
    for number in range(5):
        await place.ask(large_fact(200_000 + number))
    place.network.faults.delay_min = place.network.faults.delay_max = Nanoseconds(seconds(0.1))
    watcher = place.follow()
    for number in range(10):
        place.client.say(count(f"n{number}"))
        await place.sleep(0.1)
    await place.until(lambda: watcher.host.state is not None, 5)
    await place.until(lambda: 15 == len(watcher.watcher.names), 5)
    delivered = place.network.delivered["image-page-packed"]
    assert delivered == 1_000_010 // IMAGE_PAGE_BYTES + 1
    assert 1 == counts_of(watcher).images


@virtual
async def test_image_with_pages_no_longer_at_hand_is_fetched_again(place: Place) -> None:
    """The reader keeps few images; a follower that comes late for a page is answered by the first page of the newest."""
    await place.keep()
    serving = await place.serve()
    for number in range(5):
        await place.ask(large_fact(200_000 + number))
    place.network.faults.delay_min = place.network.faults.delay_max = Nanoseconds(seconds(0.1))
    watcher = place.follow()
    await place.until(lambda: bool(serving.reader.images.kept))
    serving.reader.images.kept.clear()
    await place.ask(count("a"))
    await place.until(lambda: watcher.host.state is not None, 5)
    await place.until(lambda: 6 == len(watcher.watcher.names), 5)
    assert 3 == place.network.delivered["image-page-packed"]
    assert [] == watcher.watcher.taken, "the newest image has it all"


class FromTheFuture(Event, frozen=True, tag="from-the-future"):
    """An event that this build does not know."""


class NewerCounter(Counter):
    """Of a newer build: it records something that the followers' build cannot read."""

    def decide(self, state: CounterState, envelope: Envelope) -> Decision:
        decision = super().decide(state, envelope)
        if isinstance(envelope.message, CancelWorkload) and envelope.message.workload == "new":
            return Decision((FromTheFuture(), *decision.events), decision.messages)
        return decision


@virtual
async def test_unknown_event_stops_the_fold_and_is_loud(place: Place) -> None:
    """Nothing can be folded past what cannot be read: it is said in a line, again and again but not without end, and
    the log counts as silent, because nothing more can be known of it.
    """
    await place.keep(NewerCounter())
    await place.serve()
    await place.ask(count("a"))
    watcher = place.follow()
    await place.until(lambda: watcher.host.state is not None)
    with capture_logs() as lines:
        await place.ask(count("new"))
        await place.ask(count("b"))
        await place.sleep(10)
    assert ["a"] == watcher.watcher.names
    loud = lines_of(lines, "followed_event_unknown")
    assert 5 <= len(loud) <= 30
    assert all("from-the-future" in line["error"] for line in loud)
    assert (GLOBAL_LOG, "silent") == watcher.watcher.notices[-1]
    assert watcher.failure is None

    late = place.follow(Watcher())
    with capture_logs() as lines:
        await place.sleep(3)
    assert late.host.state is None
    assert lines_of(lines, "log_unreadable"), "the reader cannot fold it either, and says so"
