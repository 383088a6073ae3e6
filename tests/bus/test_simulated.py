"""What the simulated network does beyond the common promise: misfortune on demand, and the same again from the same seed."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from bus.errors import AskTimedOut, NobodyListens
from bus.faults import Faults, between
from bus.port import Address, Bus
from bus.simulated import SimulatedNetwork
from core.codec import Parcel
from core.messages.agents import PresenceWanted
from core.messages.base import Message
from core.messages.queue import CancelWorkload, ShowWorkload, Submitted
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, seconds
from runtime.virtual_loop import VirtualLoop, run_virtual
from tests.bus.worlds import SimulatedWorld, in_simulated_world

HOUSE = Path(__file__).resolve().parents[2]
QUEUE = Address("queue")
START = Instant(1_700_000_000_123_456_789)


def cancel(number: int) -> CancelWorkload:
    """A small message with a number in it."""
    return CancelWorkload(WorkloadId(f"w-{number}"))


async def heard_by(bus: Bus, group: str = "") -> list[Message]:
    """What an endpoint hears from now on."""
    heard: list[Message] = []
    await bus.listen(QUEUE, lambda parcel, _: heard.append(parcel.message), group)
    return heard


@in_simulated_world
async def test_delay_lies_in_its_bounds(world: SimulatedWorld) -> None:
    """From the least to the most delay, rounded up to the tick of delivery; the extra delay comes on top."""
    faults = world.network.faults
    faults.is_reordering = True
    sender, hearer = world.network.endpoint("sender"), world.network.endpoint("hearer")
    delays: list[int] = []
    said = world.loop.now_ns()
    await hearer.listen(QUEUE, lambda _, __: delays.append(world.loop.now_ns() - said))
    for _ in range(500):
        sender.say(cancel(1))
    await world.settle()
    assert 500 == len(delays)
    assert all(faults.delay_min <= delay <= faults.delay_max + 50_000 for delay in delays)
    assert all(delay % 50_000 == 0 for delay in delays)
    assert max(delays) - min(delays) > MILLISECOND
    faults.extra_delay_probability = 1.0
    delays.clear()
    said = world.loop.now_ns()
    for _ in range(500):
        sender.say(cancel(1))
    await world.settle()
    assert 250 * MILLISECOND < max(delays) <= faults.extra_delay + faults.delay_max + 50_000


@in_simulated_world
async def test_order_survives_all_delays(world: SimulatedWorld) -> None:
    """Unless it is told to reorder, which goes beyond the promise."""
    faults = world.network.faults
    faults.extra_delay_probability = 0.5
    sender = world.network.endpoint("sender")
    heard = await heard_by(world.network.endpoint("hearer"))
    said = [cancel(number) for number in range(500)]
    for message in said:
        sender.say(message)
        await world.loop.sleep_ns(Nanoseconds(100_000))
    await world.settle()
    assert said == heard
    faults.is_reordering = True
    heard.clear()
    for message in said:
        sender.say(message)
    await world.settle()
    assert said != heard
    assert sorted(said, key=repr) == sorted(heard, key=repr)


@in_simulated_world
async def test_drop_and_repeat(world: SimulatedWorld) -> None:
    """Each message and hearer draws for itself; what is dropped is counted by the network alone."""
    faults = world.network.faults
    sender = world.network.endpoint("sender")
    one = await heard_by(world.network.endpoint("one"))
    two = await heard_by(world.network.endpoint("two"))
    faults.drop_probability = 0.5
    for number in range(1000):
        sender.say(cancel(number))
    await world.settle()
    assert all(400 < len(heard) < 600 for heard in (one, two))
    assert one != two
    assert 2000 - len(one) - len(two) == world.network.dropped
    assert 0 == sender.counts.lost
    faults.drop_probability, faults.repeat_probability = 0.0, 1.0
    one.clear()
    sender.say(cancel(1))
    await world.settle()
    assert [cancel(1)] * 2 == one


@in_simulated_world
async def test_cut_lets_nothing_pass_until_healed(world: SimulatedWorld) -> None:
    """Both ways or one way, also for what is on its way; an ask then times out, for somebody does listen."""
    network = world.network
    store, agent, other = (network.endpoint(name) for name in ("eu.store", "eu.agent1", "us.agent1"))
    heard, heard_by_other = await heard_by(agent), await heard_by(other)
    store.say(cancel(1))
    cut = network.cut(["eu.store"], ["eu.agent*"])
    store.say(cancel(2))
    await world.settle()
    assert ([], [cancel(1), cancel(2)]) == (heard, heard_by_other)
    assert 2 == network.dropped
    network.cut(["eu.store"], ["us.*"], is_one_way=True)
    with pytest.raises(AskTimedOut):
        await store.ask(ShowWorkload(WorkloadId("w-1")), seconds(1))
    network.heal(cut)
    store.say(cancel(3))
    await world.settle()
    assert [cancel(3)] == heard
    assert 2 == len(heard_by_other)
    network.heal()
    store.say(cancel(4))
    await world.settle()
    assert cancel(4) in heard_by_other


def test_cut_by_names() -> None:
    """A name is meant whole, or up to its star."""
    both = between(["a", "eu.*"], ["b"])
    assert [True, True, True, False, False] == [
        both(*pair) for pair in (("a", "b"), ("b", "a"), ("eu.x", "b"), ("ab", "b"), ("a", "eu.x"))
    ]
    one_way = between(["a"], ["*"], is_one_way=True)
    assert one_way("a", "a")
    assert not one_way("b", "a")


@in_simulated_world
async def test_endpoint_cut_from_itself_is_cut_from_the_bus(world: SimulatedWorld) -> None:
    """Its own round trip fails, and everybody else's works."""
    lonely, other = world.network.endpoint("lonely"), world.network.endpoint("other")
    world.network.cut(["lonely"], ["*"])
    assert not await lonely.round_trip(seconds(1))
    assert await other.round_trip(seconds(1))
    world.network.heal()
    assert await lonely.round_trip(seconds(1))


@in_simulated_world
async def test_crash_loses_messages_on_their_way_to_the_endpoint(world: SimulatedWorld) -> None:
    """Nothing else is lost: messages of the endpoint still arrive, and its next life receives those sent from then on."""
    sender, crashing = world.network.endpoint("sender"), world.network.endpoint("crashing")
    heard_by_sender, heard = await heard_by(sender), await heard_by(crashing)
    sender.say(cancel(1))
    crashing.say(cancel(2))
    crashing.crash()
    heard_again = await heard_by(world.network.endpoint("crashing"))
    await world.settle()
    assert ([cancel(1), cancel(2)], []) == (sorted(heard_by_sender, key=repr), heard)
    assert [] == heard_again
    sender.say(cancel(3))
    await world.settle()
    assert ([], [cancel(3)]) == (heard, heard_again)


@in_simulated_world
async def test_down_loses_messages_on_their_way(world: SimulatedWorld) -> None:
    """Each sender counts its own losses, and subscriptions outlive the outage."""
    network = world.network
    sender = network.endpoint("sender")
    heard = await heard_by(network.endpoint("hearer"))
    for number in range(10):
        sender.say(cancel(number))
    network.down()
    assert network.is_idle
    sender.say(cancel(10))
    with pytest.raises(AskTimedOut):
        await sender.ask(ShowWorkload(WorkloadId("w-1")), seconds(1))
    network.up()
    sender.say(cancel(11))
    await world.settle()
    assert [cancel(11)] == heard
    assert 12 == sender.counts.lost


@in_simulated_world
async def test_slow_hearer_loses_and_counts(world: SimulatedWorld) -> None:
    """More on its way to one ear than it may have is lost, and counted where it would have been heard."""
    world.network.faults.pending_max = 100
    sender, hearer = world.network.endpoint("sender"), world.network.endpoint("hearer")
    heard = await heard_by(hearer)
    for number in range(1000):
        sender.say(cancel(number))
    await world.settle()
    assert (100, 900) == (len(heard), hearer.counts.lost)
    sender.say(cancel(1000))
    await world.settle()
    assert cancel(1000) == heard[-1]


@in_simulated_world
async def test_deliveries_are_counted_by_tag(world: SimulatedWorld) -> None:
    """Every hearer counts, answers too."""
    asker, hearer = world.network.endpoint("asker"), world.network.endpoint("hearer")

    def answer(_: Parcel, reply_to: str) -> None:
        hearer.say(Submitted(WorkloadId("w-1")), reply_to)

    await hearer.listen(QUEUE, answer)
    await heard_by(world.network.endpoint("other"))
    await asker.ask(ShowWorkload(WorkloadId("w-1")), seconds(1))
    await world.settle()
    assert {"show-workload": 2, "submitted": 1} == world.network.delivered
    with pytest.raises(NobodyListens):
        await asker.ask(PresenceWanted(RegionName("eu"), 1), seconds(1))


@in_simulated_world
async def test_hearer_that_raises_ends_the_run(world: SimulatedWorld) -> None:
    """It broke its promise, and a simulation hides nothing. (Here a handler is set, so that the test goes on.)"""
    seen: list[BaseException] = []
    world.loop.set_exception_handler(lambda _, context: seen.append(context["exception"]))
    sender, hearer = world.network.endpoint("sender"), world.network.endpoint("hearer")

    def fail(parcel: Parcel, _: str) -> None:
        raise ZeroDivisionError(parcel.id)

    await hearer.listen(QUEUE, fail)
    sender.say(cancel(1))
    await world.loop.sleep_ns(seconds(1))
    assert [ZeroDivisionError] == [type(error) for error in seen]


def digest_of(seed: int) -> str:
    """The digest of a chatty plane with every fault at once."""

    async def main() -> str:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        network = SimulatedNetwork(Random(seed), loop, "fleet")
        faults = network.faults
        faults.drop_probability = faults.repeat_probability = faults.extra_delay_probability = 0.1
        endpoints = [network.endpoint(f"e{number}") for number in range(8)]
        for number, endpoint in enumerate(endpoints):
            await heard_by(endpoint, "" if number < 4 else f"group{number % 2}")
        for number in range(400):
            endpoints[number % 8].say(cancel(number))
            if number == 200:
                network.cut(["e1"], ["e2", "e3"])
            if number == 300:
                network.down()
                network.up()
            await loop.sleep_ns(Nanoseconds(10_000))
        await loop.sleep_ns(seconds(2))
        return network.digest()

    return run_virtual(main(), START)


def test_same_seed_same_digest() -> None:
    """To the byte, in this process and in one with another PYTHONHASHSEED; another seed gives another run."""
    digest = digest_of(1)
    assert digest == digest_of(1)
    assert digest != digest_of(2)
    elsewhere = subprocess.run(
        [sys.executable, "-c", "from tests.bus.test_simulated import digest_of; print(digest_of(1))"],
        cwd=HOUSE,
        env={**os.environ, "PYTHONHASHSEED": "77"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert digest == elsewhere.stdout.strip()


@in_simulated_world
async def test_disturbance_strikes_its_link_alone(world: SimulatedWorld) -> None:
    """In both directions or in one, beside others and on top of them; once it is calmed the link is as it was."""
    network = world.network
    sender, near, far = (network.endpoint(name) for name in ("sender", "hearer.near", "hearer.far"))
    near_heard, far_heard = await heard_by(near), await heard_by(far)
    mute = Faults(drop_probability=1.0)
    first = network.disturb(between(["sender"], ["hearer.near"], is_one_way=True), mute)
    sender.say(cancel(1))
    await world.settle()
    assert ([], [cancel(1)]) == (near_heard, far_heard)
    far.say(cancel(2))
    await world.settle()
    assert [cancel(2)] == near_heard
    second = network.disturb(between(["*"], ["hearer.far"]), Faults(repeat_probability=1.0))
    sender.say(cancel(3))
    await world.settle()
    assert [cancel(2)] == near_heard
    assert [cancel(3)] * 2 == far_heard[2:]
    network.calm(first)
    network.calm(second)
    sender.say(cancel(4))
    await world.settle()
    assert [cancel(4)] == near_heard[1:]
    assert [cancel(4)] == far_heard[4:]


@in_simulated_world
async def test_disturbances_add_up(world: SimulatedWorld) -> None:
    """Each strikes by its own chance, the later of two delays counts, and all are calmed at once if none is named."""
    network = world.network
    everywhere = between(["*"], ["*"])
    network.disturb(everywhere, Faults(drop_probability=0.5, extra_delay=seconds(9), repeat_probability=0.5))
    network.disturb(everywhere, Faults(drop_probability=0.5, extra_delay=seconds(3), is_reordering=True))
    sender, hearer = network.endpoint("sender"), network.endpoint("hearer")
    heard = await heard_by(hearer)
    for number in range(2000):
        sender.say(cancel(number))
    await world.settle()
    assert 2000 * 0.25 * 1.5 == pytest.approx(len(heard), rel=0.1)
    assert 2000 * 0.25 == pytest.approx(len(set(heard)), rel=0.1)
    network.calm()
    heard.clear()
    sender.say(cancel(1))
    await world.settle()
    assert [cancel(1)] == heard


@in_simulated_world
async def test_paused_endpoint_hears_all_later_in_order(world: SimulatedWorld) -> None:
    """What comes waits for it, requests and answers alike, and others hear meanwhile; what waits dies with it."""
    network = world.network
    sender, paused, other = (network.endpoint(name) for name in ("sender", "paused", "other"))
    heard, others = await heard_by(paused), await heard_by(other)
    network.pause(paused)
    network.pause(paused)  # No harm.
    for number in range(50):
        sender.say(cancel(number))
        await world.breathe()
    await world.settle()
    assert [] == heard
    assert 50 == len(others)
    network.resume(paused)
    assert [cancel(number) for number in range(50)] == heard
    network.resume(paused)
    sender.say(cancel(50))
    await world.settle()
    assert cancel(50) == heard[-1]

    network.pause(paused)
    sender.say(cancel(51))
    await world.settle()
    paused.crash()
    again = await heard_by(network.endpoint("paused"))
    network.resume(paused)
    await world.settle()
    assert 51 == len(heard)
    assert [] == again


@in_simulated_world
async def test_paused_endpoint_hears_nothing_that_a_cut_keeps_away(world: SimulatedWorld) -> None:
    """Nor more than its inbox holds: the rest is lost and counted, as with any slow hearer."""
    network = world.network
    network.faults.pending_max = 10
    sender, paused = network.endpoint("sender"), network.endpoint("paused")
    heard = await heard_by(paused)
    network.pause(paused)
    for number in range(15):
        sender.say(cancel(number))
    await world.settle()
    network.resume(paused)
    assert [cancel(number) for number in range(10)] == heard
    assert 5 == paused.counts.lost
    network.pause(paused)
    sender.say(cancel(15))
    await world.settle()
    network.cut(["sender"], ["paused"])
    network.resume(paused)
    assert 10 == len(heard)


@in_simulated_world
async def test_repeat_arrives_at_the_next_life(world: SimulatedWorld) -> None:
    """Whoever heard the first may have died since: the second comes to whoever is called so now, paused or not."""
    network = world.network
    everywhere = between(["*"], ["*"])
    network.disturb(everywhere, Faults(repeat_probability=1.0, repeat_delay=seconds(60)))
    sender, hearer = network.endpoint("sender"), network.endpoint("hearer")
    heard = await heard_by(hearer)
    for number in range(20):
        sender.say(cancel(number))
    await asyncio.sleep(0.01)
    assert 20 == len({*heard})
    before = len(heard)
    hearer.crash()
    successor = network.endpoint("hearer")
    again = await heard_by(successor)
    stranger = await heard_by(network.endpoint("stranger"))
    network.pause(successor)
    await world.loop.sleep_ns(seconds(61))
    assert [] == again
    network.resume(successor)
    assert 40 - before == len(again)
    assert [] == stranger
    assert all(ear.pending == 0 for ear in successor._ears)
