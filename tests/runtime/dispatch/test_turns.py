"""Hosts and their mailboxes: what is left travels along, what is urgent is told first, and the log is the same under every policy."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from bus.port import Address
from core.codec import Parcel
from core.dispatch.policies import POLICIES
from core.messages.base import Message
from core.messages.queue import CancelWorkload, ShowWorkload
from core.nouns.dispatch import TARGETS, UrgencyClass
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, seconds
from core.nouns.limits import TURN_SPAN
from runtime.clock import Clock
from runtime.dispatch.lanes import Mail
from runtime.dispatch.turns import Pace, Turn, Turns
from runtime.host import Host
from runtime.images import load_image
from runtime.keeping.kept import Kept
from runtime.virtual_loop import VirtualLoop
from scenarios.play.simulated import simulated_run
from scenarios.scenario import load_scenario
from scenarios.schema.dispatch import DispatchSpec
from scenarios.worlds.simulated.world import START as WORLD_START
from scenarios.worlds.simulated.world import SimulatedWorld
from tests.runtime.aids import FLEET, Counter, Place, Running, count, how_many, virtual

SLOW = Nanoseconds(10 * MILLISECOND)


async def paced(place: Place, pace: Pace, turn: Turn | None = None) -> Running:
    """A counter whose decisions take time."""
    component = Counter()
    bus = place.network.endpoint(component.name)
    log = await place.store.open(GLOBAL_LOG, "log-1")
    image, _, _ = await load_image(await place.store.reader(GLOBAL_LOG), GLOBAL_LOG)
    host: Host[Any] = Host(
        component, bus, place.clock(), Kept(log, image, FLEET, "test"), pace=pace, turn=turn
    )
    running = Running(place.loop, host, bus)
    await place.sleep(0.5)
    return running


@virtual
async def test_message_carries_what_is_left_of_the_one_that_led_to_it(place: Place) -> None:
    """C-1: its wait, the decision and the commit are gone by then; what follows from no message carries nothing."""
    place.sync = SLOW
    heard: list[Parcel] = []
    ear = place.network.endpoint("ear")
    await ear.listen(Address("broker", ("r",)), lambda parcel, _: heard.append(parcel))
    await ear.listen(Address("log", (GLOBAL_LOG,)), lambda parcel, _: heard.append(parcel))
    await place.keep()
    await place.ask(count("a"))
    await place.moment()
    facts, report = heard[-2:]
    assert facts.urgency is None
    assert report.urgency is not None
    assert UrgencyClass.INTERACTIVE == report.urgency.sort
    left = TARGETS[UrgencyClass.INTERACTIVE].within - report.urgency.left
    assert SLOW <= left < 2 * SLOW


@virtual
async def test_what_was_decided_is_told_before_a_long_decision(place: Place) -> None:
    """A query that takes long would be in the way of an answer that waits for its commit."""
    spans = {ShowWorkload: SLOW, CancelWorkload: Nanoseconds(MILLISECOND // 10)}
    keeper = await paced(place, lambda message: spans.get(type(message), Nanoseconds(0)))
    begun = place.loop.now_ns()
    for number in range(10):
        place.network.endpoint(f"dashboard {number}").say(how_many(), "_INBOX.nobody.1")
    await place.loop.sleep_ns(Nanoseconds(3 * MILLISECOND))
    await place.client.ask(count("a"), seconds(1))
    took = place.loop.now_ns() - begun
    assert took < 3 * SLOW, "one query was under way, and the commit took a millisecond"
    assert len(keeper.host.mailbox) > 5


@virtual
async def test_what_arrives_in_a_turn_is_read_when_it_is_over(place: Place) -> None:
    """With a pace, as from a socket: a longer turn keeps the urgent from being seen."""
    short = await _until_counted(place, None)
    assert short < 4 * SLOW


@virtual
async def test_longer_turn_keeps_the_urgent_from_being_seen(place: Place) -> None:
    """As a turn of 512 envelopes did, however long they took."""
    assert await _until_counted(place, Turn(span=seconds(10))) > 9 * SLOW


@virtual
async def test_burst_of_the_most_urgent_is_decided_in_long_turns(place: Place) -> None:
    """What arrives after a millisecond is read after 20: nothing of a shorter target could be among that."""
    assert 20 * MILLISECOND == await _read_beside_burst(place, count, None)


@virtual
async def test_turns_are_short_if_they_are_told_to_be(place: Place) -> None:
    """As behind messages of a longer target."""
    assert 2 * MILLISECOND == await _read_beside_burst(place, count, Turn(span_max=TURN_SPAN))


@virtual
async def test_messages_of_a_longer_target_are_decided_in_short_turns(place: Place) -> None:
    """A person's request may arrive."""
    assert 2 * MILLISECOND == await _read_beside_burst(place, lambda _: how_many(), None)


@virtual
async def test_messages_that_are_put_aside_take_time_of_a_turn_too(place: Place) -> None:
    """As those that are decided."""
    read = await _read_beside_burst(place, lambda _: count("poison"), None, poison="poison")
    assert 20 * MILLISECOND == read


class _Reads:
    """Remembers when each message came into a mailbox."""

    def __init__(self) -> None:
        self.at: dict[str, Instant] = {}

    def put(self, mail: Mail, now: Instant) -> None:
        self.at[mail.sender] = now

    def taken(self, mail: Mail, now: Instant) -> None:
        """That is of no matter here."""

    def lost(self, mail: Mail) -> None:
        """Nor is that."""


async def _read_beside_burst(
    place: Place, said: Callable[[str], Message], turn: Turn | None, poison: str = ""
) -> int:
    """Nanoseconds after which a message is read that comes a millisecond after sixty others, the decisions on which take one each.

    poison   what makes the component fail, as it has found out before
    """
    place.network.faults.delay_min = place.network.faults.delay_max = Nanoseconds(0)
    host = (await paced(place, lambda _: Nanoseconds(MILLISECOND), turn)).host
    host.costs.measured(type(said("0")), 0, MILLISECOND)
    for _ in range(2 if poison else 0):
        host.suspects.blame(count(poison), ValueError("it makes the component fail"))
    host.mailbox.watch = reads = _Reads()
    for number in range(60):
        place.network.endpoint(f"person {number}").say(said(f"{number}"), "_INBOX.nobody.1")
    await place.loop.sleep_ns(Nanoseconds(MILLISECOND))
    place.network.endpoint("late").say(how_many(), "_INBOX.nobody.1")
    await place.sleep(1)
    return reads.at["late"] - reads.at["person 0"]


async def _until_counted(place: Place, turn: Turn | None) -> int:
    """Nanoseconds until a name is counted that arrives while the first of ten queries is decided."""
    place.network.faults.delay_min = place.network.faults.delay_max = Nanoseconds(0)
    await paced(place, lambda _: SLOW, turn)
    begun = place.loop.now_ns()
    for number in range(10):
        place.network.endpoint(f"dashboard {number}").say(how_many(), "_INBOX.nobody.1")
    await place.loop.sleep_ns(Nanoseconds(5 * MILLISECOND))
    await place.client.ask(count("a"), seconds(2))
    return place.loop.now_ns() - begun


def test_turns_without_a_pace_put_nothing_off() -> None:
    """What a real host hears goes into its mailbox at once."""
    loop = VirtualLoop()
    turns = Turns(None, None, Clock(loop, Instant(0)))
    read: list[int] = []
    assert not turns.puts_off(lambda: read.append(1))
    turns.end_turn()
    assert [] == read
    turns.close()
    loop.close()


@pytest.mark.parametrize("policy", POLICIES)
def test_log_replayed_gives_the_same_state_whatever_the_policy(policy: str) -> None:
    """C-10: decisions take time, so that mailboxes fill; every keeper's state is the fold of its log, and no rule is broken."""
    spec = load_scenario("quiet_minutes")
    dispatch = DispatchSpec(
        policy=policy, decision_ms=2.0, decisions_ms={"find-bid": 15.0, "worker-report": 8.0}
    )
    spec = replace(spec, dispatch=dispatch, expectations=())
    loop = VirtualLoop(WORLD_START)
    try:
        run = simulated_run(spec, 1, loop)
        outcome = loop.run_until_complete(run.play())
    finally:
        loop.cancel_all()
        loop.close()
    assert outcome.is_good, outcome.first_problem()
    assert {"replay", "invariants", "mail_in_order"} <= {check.name for check in spec.checks} - set(
        outcome.unchecked
    )


def test_all_hosts_go_by_what_operators_set() -> None:
    """C-5: within seconds, while the plane runs; and so does one that is started later."""
    spec = load_scenario("quiet_minutes")
    spec = replace(spec, dispatch=DispatchSpec(policy="edf"), expectations=())
    loop = VirtualLoop(WORLD_START)
    try:
        run = simulated_run(spec, 1, loop)
        world = run.world
        assert isinstance(world, SimulatedWorld)

        async def body() -> None:
            await run.begin()
            await world.sleep(1.0)
            assert {"edf"} == _policies(world)
            broker = next(unit for unit in world.all if unit.unit.role == "region_broker")
            broker.kill()
            await broker.start()
            assert {"edf", "llf"} == _policies(world)
            await world.sleep(6.0)
            assert {"edf"} == _policies(world)
            await run.stop()

        loop.run_until_complete(body())
    finally:
        loop.cancel_all()
        loop.close()


@pytest.mark.parametrize("name", ["quiet_minutes", "rack_loss"])
def test_no_urgency_of_a_healthy_plane_is_disbelieved(name: str) -> None:
    """C-1: else operators would look for another build, or for a client that is not ours."""
    loop = VirtualLoop(WORLD_START)
    try:
        run = simulated_run(load_scenario(name), 1, loop)
        world = run.world
        assert isinstance(world, SimulatedWorld)
        found: list[tuple[str, int]] = []

        async def body() -> None:
            await run.begin()
            await run.strike()
            await run.calm_down()
            found.extend(
                (one.sort, one.disbelieved)
                for unit in world.all
                if unit.open is not None and unit.open.host is not None
                for one in unit.open.host.mailbox.told()
            )
            await run.stop()

        loop.run_until_complete(body())
    finally:
        loop.cancel_all()
        loop.close()
    assert len(found) > 20
    assert {0} == {count for _, count in found}


def _policies(world: SimulatedWorld) -> set[str]:
    return {
        unit.open.host.mailbox.settings.policy
        for unit in world.all
        if unit.open is not None and unit.open.host is not None
    }
