"""A keeper killed at every step of its work, one step after the other, whatever its disk keeps of the last batch."""

from collections.abc import Callable, Sequence

import pytest

from bus.port import Address, Bus, BusCounts, Hear, Subscription
from core.codec import Parcel
from core.component import Decision, Effect
from core.dispatch.context import NO_CONTEXT, Context
from core.dispatch.policies import POLICIES
from core.fact import Fact, Head
from core.messages.base import Envelope, Message
from core.messages.broker import StopAttempt
from core.nouns.instant import MILLISECOND, Nanoseconds
from runtime.effects import Doer, Done
from store.memory_disk import Fate
from store.port import Log, Row
from tests.runtime.aids import (
    Counter,
    CounterState,
    Deeds,
    Place,
    Running,
    count,
    how_many,
    in_virtual_time,
    number_of,
)

NAMES = ("a", "b", "c", "d", "e")


@pytest.fixture(autouse=True, params=POLICIES)
def _policy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a host promises, it promises under every policy of dispatch."""
    monkeypatch.setattr(Place, "policy", request.param)


class Killed(BaseException):
    """What a process feels of kill -9: the next line is not run."""


class Peril:
    """Kills the process at some of its steps."""

    def __init__(self, *fatal: int) -> None:
        self.fatal = list(fatal)
        """At which step the first life ends, from 1; then each later one, counted from its own start."""
        self.steps: list[str] = []
        """Of all lives."""
        self.kill: Callable[[], None] = lambda: None
        self._begun = 0

    def begin_life(self, kill: Callable[[], None]) -> None:
        """A process starts: this is how it would end."""
        self.kill = kill
        self._begun = len(self.steps)

    def step(self, name: str) -> None:
        """The process has come so far."""
        self.steps.append(name)
        if self.fatal and len(self.steps) - self._begun == self.fatal[0]:
            del self.fatal[0]
            self.kill()
            raise Killed(name)


class PerilousCounter(Counter):
    """Can be killed around each decision and each fact."""

    def __init__(self, peril: Peril) -> None:
        super().__init__(has_effects=True)
        self._peril = peril

    def decide(self, state: CounterState, envelope: Envelope) -> Decision:
        word = type(envelope.message).__name__
        self._peril.step(f"before deciding {word}")
        decision = super().decide(state, envelope)
        self._peril.step(f"after deciding {word}")
        return decision

    def evolve(self, state: CounterState, fact: Fact) -> CounterState:
        state = super().evolve(state, fact)
        self._peril.step(f"after evolving {type(fact.event).__name__}")
        return state


class PerilousLog:
    """Can be killed around each append."""

    def __init__(self, log: Log, peril: Peril) -> None:
        self._log = log
        self._peril = peril

    @property
    def head(self) -> Head:
        return self._log.head

    @property
    def not_archived(self) -> int:
        return self._log.not_archived

    async def append(self, rows: Sequence[Row], term: int) -> Head:
        self._peril.step(f"before appending {len(rows)}")
        head = await self._log.append(rows, term)
        self._peril.step(f"after appending {len(rows)}")
        return head

    async def close(self) -> None:
        await self._log.close()


class PerilousBus:
    """Can be killed around each word."""

    def __init__(self, bus: Bus, peril: Peril) -> None:
        self.name = bus.name
        self.counts: BusCounts = bus.counts
        self.tenant = bus.tenant
        self._bus = bus
        self._peril = peril

    def say(self, message: Message, reply_to: str = "", context: Context = NO_CONTEXT) -> str:
        word = type(message).__name__
        self._peril.step(f"before saying {word}")
        said = self._bus.say(message, reply_to, context)
        self._peril.step(f"after saying {word}")
        return said

    def pass_on_dead(self, parcel: Parcel) -> None:
        self._bus.pass_on_dead(parcel)

    async def ask(self, message: Message, timeout: Nanoseconds) -> Message:
        return await self._bus.ask(message, timeout)

    async def listen(self, address: Address, hear: Hear, group: str = "") -> Subscription:
        return await self._bus.listen(address, hear, group)

    async def round_trip(self, timeout: Nanoseconds) -> bool:
        return await self._bus.round_trip(timeout)

    async def close(self) -> None:
        await self._bus.close()


class PerilousDoer:
    """Can be killed around each deed."""

    def __init__(self, doer: Doer, peril: Peril) -> None:
        self._doer = doer
        self._peril = peril

    def attach(self, done: Done) -> None:
        self._doer.attach(done)

    def begin(self, effect: Effect) -> None:
        self._peril.step("before the deed")
        self._doer.begin(effect)
        self._peril.step("after the deed")


class Story:
    """A few users, one keeper that is killed once, one follower; and what everybody heard."""

    def __init__(self, place: Place, peril: Peril, fate: Fate) -> None:
        self.place = place
        self.peril = peril
        self.fate = fate
        self.answers: dict[str, list[int]] = {name: [] for name in NAMES}
        self.reports: dict[str, int] = {}
        self.deeds: list[Deeds] = []
        self.keeper: Running | None = None

    async def play(self) -> None:
        place = self.place
        place.sync = Nanoseconds(5 * MILLISECOND)
        place.during_sync = lambda: self.peril.step("during an append")
        ear = place.network.endpoint("ear")
        await ear.listen(Address("broker", ("r",)), self._hear_report)
        await place.serve()
        self.keeper = await self._start()
        watcher = place.follow()
        tasks = [
            place.loop.create_task(self._user(name, after), name=name) for after, name in enumerate(NAMES)
        ]
        supervisor = place.loop.create_task(self._supervise(), name="supervisor")
        for task in tasks:
            await task
        await place.until(lambda: self._knows(watcher), 10)
        await self._check()
        assert not supervisor.done()

    def _knows(self, watcher: Running) -> bool:
        return watcher.host.state is not None and watcher.watcher.names == self.now.names

    @property
    def now(self) -> CounterState:
        """The state of whoever keeps the log now."""
        assert self.keeper is not None
        return self.keeper.counter

    async def _supervise(self) -> None:
        """Start it again whenever it has died."""
        while True:
            await self.place.moment()
            if self.keeper is not None and self.keeper.failure is not None:
                assert isinstance(self.keeper.failure, Killed), self.keeper.failure
                self.keeper = await self._start()

    async def _start(self) -> Running:
        peril = self.peril
        self.deeds.append(Deeds(self.place))
        host, bus = await self.place.host(
            PerilousCounter(peril),
            PerilousDoer(self.deeds[-1], peril),
            lambda log: PerilousLog(log, peril),
            lambda bus: PerilousBus(bus, peril),
        )
        keeper = Running(self.place.loop, host, bus)
        peril.begin_life(lambda: self.place.crash(keeper, self.fate))
        await self.place.moment()
        return keeper

    async def _user(self, name: str, after: int) -> None:
        """Count a name, look, and count it again; two of the users begin at the same time."""
        await self.place.sleep(0.004 * (after // 2))
        self.answers[name].append(number_of(await self.place.insist(count(name))))
        seen = number_of(await self.place.insist(how_many()))
        assert seen >= self.answers[name][0], "what was answered is forgotten"
        self.answers[name].append(number_of(await self.place.insist(count(name))))

    def _hear_report(self, parcel: Parcel, reply_to: str) -> None:
        report = parcel.message
        assert isinstance(report, StopAttempt)
        assert self.place.durable > report.epoch, "reported before it was durable"
        assert report.epoch == self.reports.setdefault(report.workload, report.epoch)

    async def _check(self) -> None:
        place, now = self.place, self.now
        assert sorted(NAMES) == sorted(now.names)
        assert now.image.digest() == (await place.folded()).digest()
        for number, name in enumerate(now.names, 1):
            assert [number, number] == self.answers[name], "an answer was told and its fact lost"
            assert number == self.reports.get(name, number)
        for deeds in self.deeds:
            assert all(deed.durable > getattr(deed.effect, "sequence", 0) for deed in deeds.begun)
        for number, name in enumerate(now.names, 1):
            assert number == number_of(await place.insist(count(name)))
        assert len(NAMES) == sum(bool(row.about) for row in place.file.rows), (
            "a repeated command changed something"
        )


def play(fate: Fate, *fatal: int) -> list[str]:
    """Play the story with a kill at these steps; returns the steps of all lives."""
    peril = Peril(*fatal)

    async def body(place: Place) -> None:
        await Story(place, peril, fate).play()

    in_virtual_time(body)
    assert not peril.fatal, "it lived too short to be killed"
    return peril.steps


@pytest.mark.parametrize("fate", list(Fate))
def test_killed_at_every_step(fate: Fate) -> None:
    """P4: after the restart the state equals the fold of the log, nobody's answer was a lie, and repeats change
    nothing.
    """
    steps = play(fate)
    assert {"before appending 3", "during an append", "after appending 3", "after saying FactsTold"} <= set(
        steps
    )
    assert {"before the deed", "after saying Acknowledged", "after evolving RegionAdded"} <= set(steps)
    for fatal, name in enumerate(steps, 1):
        try:
            assert name == play(fate, fatal)[fatal - 1]
        except BaseException as error:
            raise AssertionError(f"killed at step {fatal}, {name}: {error}") from error


@pytest.mark.parametrize("first", range(10, 110, 14))
def test_killed_again_while_it_starts(first: int) -> None:
    """The next life is killed in its turn, at each of its first steps: to start again is no moment of weakness."""
    for second in range(1, 12):
        play(Fate.TORN, first, second)
