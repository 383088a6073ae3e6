"""Packed rows of nodes: told beside the last fact of each batch, and handed on to a follower that wants them, in time."""

from bus.port import Address
from core.codec import Parcel
from core.component import Decision, Follow, ImageAdopted, RowsAlone, RowsTold
from core.events.log import LogOpened
from core.fact import Event, Fact, Note
from core.messages.auditor import ShowAudit
from core.messages.base import Envelope
from core.messages.logs import FactsTold
from core.nouns.ids import GLOBAL_LOG, LogName
from tests.runtime.aids import (
    Counter,
    CounterState,
    Place,
    Running,
    Watcher,
    WatcherState,
    count,
    count_many,
    virtual,
)
from tests.runtime.test_following import facts_told

Told = tuple[LogName, int, bytes]


class Packing(Counter):
    """A counter whose rows name the facts by which they changed."""

    def packed_rows(self, state: CounterState, first: int) -> bytes:
        """The first of these facts, and the newest that was folded."""
        return f"{first}-{state.sequence}".encode()


class RowWatcher(Watcher):
    """A watcher that remembers rows, each with the newest fact that was handed on before it."""

    def __init__(self, *, with_rows: bool = True) -> None:
        super().__init__(Follow(GLOBAL_LOG, ("regions",), with_rows=with_rows))
        self.rows: list[Told] = []
        self.newest: list[int] = []

    def evolve(self, state: WatcherState, fact: Fact) -> WatcherState:
        if isinstance(fact.event, RowsTold):
            self.rows.append((fact.event.log, fact.event.sequence, fact.event.rows))
            self.newest.append(state.sequences[GLOBAL_LOG])
            return state
        return super().evolve(state, fact)


async def followed(place: Place, watcher: RowWatcher) -> Running:
    """A keeper that packs rows, its reader, and a watcher that has caught up with the first fact of the term."""
    await place.keep(Packing())
    await place.serve()
    running = place.follow(watcher)
    await place.until(lambda: running.host.state is not None)
    return running


@virtual
async def test_rows_are_handed_on_behind_their_facts(place: Place) -> None:
    """Once for each batch, with the sequence of its last fact, as the nodes are after that."""
    watcher = RowWatcher()
    await followed(place, watcher)
    await place.ask(count("a"))
    await place.ask(count_many("b", 3))
    await place.moment()
    assert [(GLOBAL_LOG, 2, b"2-2"), (GLOBAL_LOG, 5, b"3-5")] == watcher.rows
    assert [2, 5] == watcher.newest


@virtual
async def test_rows_are_told_beside_the_last_part_of_a_batch(place: Place) -> None:
    """A batch of many announcements has them once: rows say how the nodes stand after all of its facts."""
    told: list[tuple[int, bytes | None, bool]] = []

    def hear(parcel: Parcel, reply_to: str) -> None:
        if isinstance(parcel.message, FactsTold):
            last = parcel.message.first + len(parcel.message.facts) - 1
            told.append((last, parcel.message.rows, parcel.message.is_last))

    faults = place.network.faults
    faults.delay_max = faults.delay_min
    await place.network.endpoint("ear").listen(Address("log", (GLOBAL_LOG,)), hear)
    await place.keep(Packing())
    await place.ask(count_many("n" * 1000, 1000))
    await place.sleep(1)
    assert len(told) > 2
    assert (1001, b"2-1001", True) == told[-1]
    assert {(None, False)} == {(rows, is_last) for _, rows, is_last in told[1:-1]}


@virtual
async def test_rows_are_handed_on_after_a_silence_too(place: Place) -> None:
    """An announcement of a keeper that was thought silent is examined more closely, and its rows count all the same."""
    watcher = RowWatcher()
    running = await followed(place, watcher)
    cut = place.network.cut(["queue"], ["auditor"])
    await place.until(lambda: bool(running.watcher.notices) and "silent" == running.watcher.notices[-1][1])
    place.network.heal(cut)
    await place.ask(count("a"))
    await place.moment()
    assert [(GLOBAL_LOG, 2, b"2-2")] == watcher.rows


@virtual
async def test_rows_that_are_no_news_are_not_handed_on(place: Place) -> None:
    """Those of a batch with a gap before it, of one that is known already, and of another history."""
    watcher = RowWatcher()
    running = await followed(place, watcher)
    cut = place.network.cut(["queue"], ["auditor"])
    await place.ask(count("a"))
    place.network.heal(cut)
    await place.ask(count("b"))
    await place.moment()
    assert [2, 3] == running.watcher.taken
    place.client.say(facts_told(place, 3, 3, rows=b"late"))
    place.network.cut(["queue"], ["auditor"])
    await place.ask(count("c"))
    place.client.say(facts_told(place, 4, 4, hash_before=bytes(32), rows=b"other"))
    await place.moment()
    assert [] == watcher.rows


@virtual
async def test_rows_are_not_handed_on_to_a_follower_that_does_not_want_them(place: Place) -> None:
    """It folds the facts alone."""
    watcher = RowWatcher(with_rows=False)
    running = await followed(place, watcher)
    await place.ask(count("a"))
    await place.moment()
    assert ([2], []) == (running.watcher.taken, watcher.rows)


# Rows alone (Follow.facts).


class RowsWanted(Note, frozen=True):
    """It is to follow otherwise from now on."""


class RowsAloneWatcher(RowWatcher):
    """A watcher that is told by a message to take rows alone, and by the next one to take everything again."""

    def __init__(self) -> None:
        super().__init__()
        few = frozenset[type[Event]]({LogOpened})
        self._other = (Follow(GLOBAL_LOG, ("regions",), with_rows=True, facts=few),)
        self.wants_rows = False
        self.alone: list[LogName] = []
        self.adopted: list[tuple[int, bool]] = []

    def follows_now(self, state: WatcherState) -> tuple[Follow, ...]:
        """As it was told."""
        return self._other if self.wants_rows else self.follows

    def decide(self, state: WatcherState, envelope: Envelope) -> Decision:
        if isinstance(envelope.message, ShowAudit):
            return Decision(events=(RowsWanted(),))
        return super().decide(state, envelope)

    def evolve(self, state: WatcherState, fact: Fact) -> WatcherState:
        match fact.event:
            case RowsWanted():
                self.wants_rows = not self.wants_rows
            case RowsAlone(log):
                self.alone.append(log)
            case ImageAdopted(_, _, sequence, has_rows_alone):
                self.adopted.append((sequence, has_rows_alone))
                return super().evolve(state, fact)
            case _:
                return super().evolve(state, fact)
        return state


async def switched(place: Place) -> tuple[RowsAloneWatcher, Running]:
    """It takes rows alone from the third fact on."""
    watcher = RowsAloneWatcher()
    running = await followed(place, watcher)
    await place.ask(count("a"))
    place.client.say(ShowAudit())
    await place.moment()
    assert [GLOBAL_LOG] == watcher.alone
    return watcher, running


@virtual
async def test_rows_alone_without_a_new_image(place: Place) -> None:
    """Who gets fewer facts goes on where it is: no fact, and the rows and the sequence of each batch."""
    watcher, running = await switched(place)
    await place.ask(count("b"))
    await place.ask(count_many("c", 3))
    await place.moment()
    assert [2] == running.watcher.taken
    assert [(GLOBAL_LOG, 2, b"2-2"), (GLOBAL_LOG, 3, b"3-3"), (GLOBAL_LOG, 6, b"4-6")] == watcher.rows
    assert [] == watcher.adopted


@virtual
async def test_image_makes_up_for_rows_that_were_missed(place: Place) -> None:
    """Facts that were missed are never handed on instead; from the image on rows are told again, without a gap."""
    watcher, running = await switched(place)
    cut = place.network.cut(["queue"], ["auditor"])
    await place.ask(count("b"))
    place.network.heal(cut)
    await place.ask(count("c"))
    await place.until(lambda: bool(watcher.adopted))
    await place.ask(count("d"))
    await place.moment()
    (sequence, has_rows_alone), *others = watcher.adopted
    assert ([], True) == (others, has_rows_alone)
    told = [number for _, number, _ in watcher.rows[1:]]
    assert list(range(sequence + 1, 6)) == [number for number in told if number > sequence]
    assert sequence - 1 == len(running.watcher.names)
    assert [2] == running.watcher.taken


@virtual
async def test_rows_that_are_not_told_are_made_up_for(place: Place) -> None:
    """A keeper that does not know which nodes changed says so, and that is no batch without changes."""
    watcher, _ = await switched(place)
    place.network.cut(["queue"], ["auditor"])
    await place.ask(count("b"))
    place.client.say(facts_told(place, 3, 3, rows=None))
    await place.until(lambda: bool(watcher.adopted))


@virtual
async def test_everything_again_begins_with_an_image(place: Place) -> None:
    """And no fact is handed on twice, or left out, while it is fetched."""
    watcher, running = await switched(place)
    await place.ask(count("b"))
    place.client.say(ShowAudit())
    await place.ask(count("c"))
    await place.until(lambda: bool(watcher.adopted))
    await place.ask(count("d"))
    await place.moment()
    ((sequence, has_rows_alone),) = watcher.adopted
    assert not has_rows_alone
    assert [2, *range(sequence + 1, 6)] == running.watcher.taken
    assert 4 == len(running.watcher.names)


@virtual
async def test_wish_that_is_taken_back_at_once(place: Place) -> None:
    """Rows, everything, rows: one image, and rows from it on."""
    watcher, running = await switched(place)
    place.client.say(ShowAudit())
    place.client.say(ShowAudit())
    await place.ask(count("b"))
    await place.sleep(1)
    await place.ask(count("c"))
    await place.moment()
    assert all(has_rows_alone for _, has_rows_alone in watcher.adopted)
    assert 4 == watcher.rows[-1][1]
    assert [2] == running.watcher.taken
