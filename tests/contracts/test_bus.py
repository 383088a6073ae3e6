"""The promise of bus/port.py, held by the simulated network and by NATS alike.

Where a test must ask which world it is in, the worlds differ in how misfortune is brought about, never in what must hold.
"""

import asyncio
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from bus.catalogue import dead_letters_of, subject_of
from bus.errors import AskTimedOut, BadSubject, MessageTooLarge, NobodyListens
from bus.port import Address, Bus
from core.codec import Parcel, encode
from core.dispatch.context import Context, Urgency
from core.messages.agents import AgentPresent, BidSettled, PresenceWanted
from core.messages.base import Message, Refused
from core.messages.queue import CancelWorkload, ShowWorkload, Submitted, SubmitWorkload
from core.nouns.ids import AgentName, RegionName, WorkloadId
from core.nouns.instant import MILLISECOND, Nanoseconds, seconds
from core.nouns.limits import INBOX_MAX, MESSAGE_BYTES_MAX
from core.nouns.reasons import Reason
from tests.bus.worlds import FLEET, PATIENCE_SECONDS, World, in_both_worlds, servers_left

QUEUE = Address("queue")
EU = RegionName("eu")
US = RegionName("us")
PATIENCE = seconds(PATIENCE_SECONDS)
SOON = Nanoseconds(200 * MILLISECOND)


@pytest.fixture(autouse=True, scope="module")
def no_server_is_left() -> Iterator[None]:
    """Whatever a test does to a server, none lives on."""
    yield
    assert [] == servers_left()


class Ear:
    """Remembers what it heard; answers when told to."""

    def __init__(self, bus: Bus, answer: Message | None = None) -> None:
        self.parcels: list[Parcel] = []
        self._bus = bus
        self._answer = answer

    def hear(self, parcel: Parcel, reply_to: str) -> None:
        """As the port calls it."""
        self.parcels.append(Parcel(parcel.id, parcel.sender, parcel.message))
        if self._answer is not None:
            self._bus.say(self._answer, reply_to)

    @property
    def messages(self) -> list[Message]:
        """What was said, without its parcels."""
        return [parcel.message for parcel in self.parcels]


async def pair(world: World, address: Address = QUEUE) -> tuple[Bus, Bus, Ear]:
    """Somebody who says, somebody who hears, and what it heard."""
    sender, hearer = await world.endpoint("sender"), await world.endpoint("hearer")
    ear = Ear(hearer)
    await hearer.listen(address, ear.hear)
    return sender, hearer, ear


def cancel(number: int) -> CancelWorkload:
    """A small message with a number in it."""
    return CancelWorkload(WorkloadId(f"w-{number}"))


@in_both_worlds
async def test_message_is_heard(world: World) -> None:
    """What is said arrives whole, with its sender and the id that `say` returned; both sides count it."""
    sender, hearer, ear = await pair(world)
    identity = sender.say(cancel(1))
    await world.until(lambda: len(ear.parcels) == 1)
    assert [Parcel(identity, "sender", cancel(1))] == ear.parcels
    assert (1, 1) == (sender.counts.said, hearer.counts.heard)
    assert (0, 0) == (sender.counts.lost, hearer.counts.lost)


@in_both_worlds
async def test_context_travels_with_a_message(world: World) -> None:
    """C-1: what is left for the chain, and costs; a message without context is as long as one before there was any."""
    sender, hearer = await world.endpoint("sender"), await world.endpoint("hearer")
    heard: list[Parcel] = []
    await hearer.listen(QUEUE, lambda parcel, _: heard.append(parcel))
    urgency = Urgency("interactive", -7)
    sender.say(cancel(1), context=Context(urgency, {"solicit-bid": 1_000}))
    sender.say(cancel(2), context=Context(urgency))
    sender.say(cancel(3))
    await world.until(lambda: len(heard) == 3)
    assert [(urgency, {"solicit-bid": 1_000}), (urgency, {}), (None, {})] == [
        (parcel.urgency, parcel.costs) for parcel in heard
    ]
    assert not {b"urgency", b"costs"} & set(re.findall(rb"[a-z]+", encode(Parcel("1", "sender", cancel(3)))))


@in_both_worlds
async def test_ids_are_never_used_twice(world: World) -> None:
    """Nor by the next endpoint of the same name, which is what a restarted host is."""
    sender, _, ear = await pair(world)
    ids = {sender.say(cancel(1)), sender.say(cancel(1))}
    await sender.close()
    again = await world.endpoint("sender")
    ids |= {again.say(cancel(1)), again.say(cancel(1))}
    assert 4 == len(ids)
    await world.until(lambda: len(ear.parcels) == 4)
    assert ids == {parcel.id for parcel in ear.parcels}


@in_both_worlds
async def test_request_is_answered(world: World) -> None:
    """An answer goes to whoever asked, and to nobody else."""
    asker, hearer = await world.endpoint("asker"), await world.endpoint("hearer")
    other = Ear(asker)
    await asker.listen(Address("broker", (EU,)), other.hear)
    await hearer.listen(QUEUE, Ear(hearer, Submitted(WorkloadId("w-7"))).hear)
    answers = await asyncio.gather(
        *(asker.ask(ShowWorkload(WorkloadId(f"w-{n}")), PATIENCE) for n in range(10))
    )
    assert [Submitted(WorkloadId("w-7"))] * 10 == answers
    assert [] == other.parcels


@in_both_worlds
async def test_request_can_be_handed_on(world: World) -> None:
    """Who says a message on with the asker's address lets another one answer in its place."""
    asker, broker = await world.endpoint("asker"), await world.endpoint("broker")
    await world.endpoint("agent")
    agent = await world.endpoint("agent2")
    await agent.listen(Address("agent", (EU, "a1")), Ear(agent, Submitted(WorkloadId("w-9"))).hear)

    def hand_on(parcel: Parcel, reply_to: str) -> None:
        broker.say(BidSettled(EU, AgentName("a1"), WorkloadId("w-9"), "x", has_won=True), reply_to)

    await broker.listen(QUEUE, hand_on)
    assert Submitted(WorkloadId("w-9")) == await asker.ask(ShowWorkload(WorkloadId("w-9")), PATIENCE)


@in_both_worlds
async def test_only_the_first_answer_counts(world: World) -> None:
    """Two answer; the asker goes on with one of them, and the other disturbs nobody."""
    asker = await world.endpoint("asker")
    for name in ("one", "two"):
        hearer = await world.endpoint(name)
        await hearer.listen(QUEUE, Ear(hearer, Submitted(WorkloadId(name))).hear)
    answer = await asker.ask(ShowWorkload(WorkloadId("w-1")), PATIENCE)
    assert answer in {Submitted(WorkloadId("one")), Submitted(WorkloadId("two"))}
    await world.settle()
    assert 1 == asker.counts.heard


@in_both_worlds
async def test_unexpected_answer_goes_nowhere(world: World) -> None:
    """A repeated command is answered again, without an address: that is no error and no message."""
    sender, _, ear = await pair(world)
    sender.say(Submitted(WorkloadId("w-1")))
    await world.settle()
    assert [] == ear.parcels
    assert 0 == sender.counts.said


@in_both_worlds
async def test_request_without_a_listener_fails_at_once(world: World) -> None:
    """The sender need not wait for a timeout to learn that there is no listener."""
    asker = await world.endpoint("asker")
    with pytest.raises(NobodyListens):
        await asker.ask(ShowWorkload(WorkloadId("w-1")), seconds(3600))


@in_both_worlds
async def test_ask_times_out(world: World) -> None:
    """Who is heard and not answered learns so in time, and a late answer disturbs nobody."""
    asker, hearer = await world.endpoint("asker"), await world.endpoint("hearer")
    asked: list[str] = []
    await hearer.listen(QUEUE, lambda _, reply_to: asked.append(reply_to))
    with pytest.raises(AskTimedOut):
        await asker.ask(ShowWorkload(WorkloadId("w-1")), SOON)
    hearer.say(Submitted(WorkloadId("w-1")), asked[0])
    await world.settle()
    assert 0 == asker.counts.heard


@in_both_worlds
async def test_cancelled_ask_ends_at_once(world: World) -> None:
    """A cancellation is never swallowed, and leaves nothing behind."""
    asker, _, ear = await pair(world)
    task = asyncio.get_running_loop().create_task(asker.ask(ShowWorkload(WorkloadId("w-1")), seconds(3600)))
    await world.until(lambda: len(ear.parcels) == 1)
    task.cancel()
    await asyncio.wait([task], timeout=1)
    assert task.cancelled()


@in_both_worlds
async def test_cancelled_flood_ends_at_once(world: World) -> None:
    """Also with megabytes waiting for the wire, where nats-py swallows it."""
    sender, hearer, _ = await pair(world)
    message = AgentPresent(EU, AgentName("a" * 200_000))

    async def flood() -> None:
        while True:
            for _ in range(20):
                sender.say(message)
            await world.breathe()

    task = asyncio.get_running_loop().create_task(flood())
    await world.until(lambda: sender.counts.said > 100)
    task.cancel()
    await asyncio.wait([task], timeout=1)
    assert task.cancelled()
    assert await hearer.round_trip(PATIENCE)


@in_both_worlds
async def test_address_hears_all_its_verbs_and_no_others(world: World) -> None:
    """Every verb said to it, and nothing that is said to a neighbour, to a part of it or to a larger whole."""
    sender, _, ear = await pair(world, Address("agent", (EU, "a1")))
    mine = [
        BidSettled(EU, AgentName("a1"), WorkloadId("w-1"), "x", has_won=True),
        BidSettled(EU, AgentName("a1"), WorkloadId("w-1"), "x", has_won=False),
    ]
    others = [
        BidSettled(EU, AgentName("a10"), WorkloadId("w-1"), "x", has_won=True),
        BidSettled(US, AgentName("a1"), WorkloadId("w-1"), "x", has_won=True),
        PresenceWanted(EU, 1),
        AgentPresent(EU, AgentName("a1")),
        cancel(1),
    ]
    for message in (*others, *mine, *others):
        sender.say(message)
    await world.until(lambda: len(ear.parcels) >= 2)
    await world.settle()
    assert mine == ear.messages


@in_both_worlds
async def test_log_address_is_of_one_log(world: World) -> None:
    """A log's name has a dot; who follows one region's log hears no other's."""
    sender, hearer = await world.endpoint("sender"), await world.endpoint("hearer")
    eu, us = Ear(hearer), Ear(hearer)
    await hearer.listen(Address("broker", (EU,)), eu.hear)
    await hearer.listen(Address("broker", (US,)), us.hear)
    sender.say(AgentPresent(EU, AgentName("a")))
    sender.say(AgentPresent(US, AgentName("b")))
    await world.until(lambda: len(eu.parcels) + len(us.parcels) == 2)
    assert [AgentPresent(EU, AgentName("a"))] == eu.messages
    assert [AgentPresent(US, AgentName("b"))] == us.messages


@in_both_worlds
async def test_all_hear_and_of_a_group_one(world: World) -> None:
    """Each message reaches every ear without a group, and exactly one member of each group."""
    sender = await world.endpoint("sender")
    singles: list[Ear] = []
    members: list[Ear] = []
    others: list[Ear] = []
    for number in range(3):
        hearer = await world.endpoint(f"hearer{number}")
        for ears, group in ((singles, ""), (members, "one"), (others, "other")):
            ears.append(Ear(hearer))
            await hearer.listen(QUEUE, ears[-1].hear, group)
    said = [cancel(number) for number in range(200)]
    for message in said:
        sender.say(message)
    await world.until(lambda: sum(len(ear.parcels) for ear in (*singles, *members, *others)) == 5 * 200)
    await world.settle()
    for ear in singles:
        assert said == ear.messages
    for ears in (members, others):
        heard = [message for ear in ears for message in ear.messages]
        assert sorted(said, key=repr) == sorted(heard, key=repr)
        assert all(len(ear.parcels) > 0 for ear in ears), "the load is shared"


@in_both_worlds
async def test_order_is_kept_by_sender_and_subject(world: World) -> None:
    """However senders and subjects mix, what one says to one subject arrives as it was said."""
    hearer = await world.endpoint("hearer")
    ear = Ear(hearer)
    await hearer.listen(QUEUE, ear.hear)
    senders = [await world.endpoint(f"sender{number}") for number in range(3)]
    for number in range(300):
        for sender in senders:
            sender.say(cancel(number))
            sender.say(ShowWorkload(WorkloadId(f"w-{number}")))
        if number % 20 == 0:
            await asyncio.sleep(0)
    await world.until(lambda: len(ear.parcels) == 3 * 2 * 300)
    for sender in senders:
        for kind in (CancelWorkload, ShowWorkload):
            expected = [kind(WorkloadId(f"w-{number}")) for number in range(300)]
            heard = [one.message for one in ear.parcels if one.sender == sender.name]
            assert expected == [message for message in heard if type(message) is kind]


@in_both_worlds
async def test_message_may_come_twice(world: World) -> None:
    """It is then the same message, heard twice; nothing else happens."""
    sender, _, ear = await pair(world)
    await world.say_twice(lambda: sender.say(cancel(1)))
    await world.until(lambda: len(ear.parcels) == 2)
    await world.settle()
    assert [cancel(1)] * 2 == ear.messages


@in_both_worlds
async def test_too_large_a_message_is_refused_by_its_sender(world: World) -> None:
    """Nothing of it is sent, and the largest one allowed arrives whole."""
    sender, _, ear = await pair(world)
    with pytest.raises(MessageTooLarge) as refused:
        sender.say(cancel_of_size(MESSAGE_BYTES_MAX + 1))
    assert ("cancel-workload", MESSAGE_BYTES_MAX) == (refused.value.tag, refused.value.size_max)
    with pytest.raises(MessageTooLarge):
        await sender.ask(ShowWorkload(WorkloadId("w" * MESSAGE_BYTES_MAX)), PATIENCE)
    largest = cancel_of_size(MESSAGE_BYTES_MAX - 200)
    sender.say(largest)
    await world.until(lambda: len(ear.parcels) == 1)
    await world.settle()
    assert [largest] == ear.messages
    assert 1 == sender.counts.said


def cancel_of_size(size: int) -> CancelWorkload:
    """A message that has about so many bytes."""
    return CancelWorkload(WorkloadId("w" * size))


@in_both_worlds
async def test_bad_scope_is_refused_by_its_sender(world: World) -> None:
    """A wildcard or a blank in a name would reach whom it should not."""
    sender, _, ear = await pair(world, Address("broker", (EU,)))
    for name in ("*", ">", "", "e u", "eu\r\n"):
        with pytest.raises(BadSubject):
            sender.say(AgentPresent(RegionName(name), AgentName("a")))
        with pytest.raises(BadSubject):
            await sender.ask(AgentPresent(RegionName(name), AgentName("a")), PATIENCE)
        with pytest.raises(BadSubject):
            await sender.listen(Address("broker", (name,)), ear.hear)
    await world.settle()
    assert [] == ear.parcels


@in_both_worlds
async def test_poison_is_counted_and_set_aside(world: World) -> None:
    """Bytes that are no message hurt nobody: they are counted, said to dead letters, and the next message is heard."""
    sender, hearer, ear = await pair(world)
    undertaker = await world.endpoint("undertaker")
    dead = Ear(undertaker)
    await undertaker.listen(Address("dead"), dead.hear)
    subject = subject_of(FLEET, cancel(1))
    for data in (b"", b"\xff\xff", b"\x83\xa2id\xa1a", os.urandom(0) or b"\x00" * 1000):
        await world.deliver_raw(subject, data)
    sender.say(cancel(1))
    await world.until(lambda: len(ear.parcels) == 1 and undertaker.counts.dead_letters == 4)
    await world.settle()
    assert 4 == hearer.counts.dead_letters
    assert ([], 4) == (dead.parcels, undertaker.counts.dead_letters), "they do not go round"
    assert f"{FLEET}.dead.letter" == dead_letters_of(FLEET)


@in_both_worlds
async def test_request_that_cannot_be_read_is_refused(world: World) -> None:
    """Whoever asks in words that the hearer does not know is told so, with the place of the mistake."""
    sender, hearer, ear = await pair(world)
    strange: Any = {"name": "x", "jobs": [], "colour": "green"}
    answer = await sender.ask(SubmitWorkload(strange, "user"), PATIENCE)
    assert isinstance(answer, Refused)
    assert (Reason.INVALID, True) == (answer.reason, "colour" in answer.problems[0])
    assert (1, []) == (hearer.counts.dead_letters, ear.parcels)


@in_both_worlds
async def test_closed_ear_hears_nothing(world: World) -> None:
    """And who listens beside it hears on."""
    sender, hearer, ear = await pair(world)
    closing = Ear(hearer)
    subscription = await hearer.listen(QUEUE, closing.hear)
    sender.say(cancel(1))
    await world.until(lambda: len(closing.parcels) == len(ear.parcels) == 1)
    await subscription.close()
    await subscription.close()
    sender.say(cancel(2))
    await world.until(lambda: len(ear.parcels) == 2)
    await world.settle()
    assert [cancel(1)] == closing.messages


@in_both_worlds
async def test_closed_endpoint_is_gone(world: World) -> None:
    """It hears nothing, what it still says is lost and counted, and who asks it learns that nobody listens."""
    sender, hearer, ear = await pair(world)
    waiting = asyncio.get_running_loop().create_task(hearer.ask(ShowWorkload(WorkloadId("w-1")), PATIENCE))
    await world.until(lambda: len(ear.parcels) == 1)
    await hearer.close()
    await hearer.close()
    with pytest.raises(AskTimedOut):
        await waiting
    with pytest.raises(NobodyListens):
        await sender.ask(ShowWorkload(WorkloadId("w-2")), PATIENCE)
    hearer.say(cancel(1))
    assert 1 == hearer.counts.lost
    assert not await hearer.round_trip(SOON)
    assert 1 == len(ear.parcels)


@in_both_worlds
async def test_close_sends_waiting_messages(world: World) -> None:
    """Messages sent before the end are received after it."""
    sender, _, ear = await pair(world)
    for number in range(1000):
        sender.say(cancel(number))
    await sender.close()
    await world.until(lambda: len(ear.parcels) == 1000)


@in_both_worlds
async def test_server_dies_and_comes_back(world: World) -> None:
    """Nobody raises; requests time out, the round trip says so; afterwards all is as before, without listening again."""
    sender, hearer, ear = await pair(world)
    assert await sender.round_trip(PATIENCE)
    await world.server_down()
    await until_not_reachable(world, sender)
    await until_not_reachable(world, hearer)
    sender.say(cancel(1))
    with pytest.raises(AskTimedOut):
        await sender.ask(ShowWorkload(WorkloadId("w-2")), SOON)
    await world.server_up()
    await until_reachable(world, sender)
    await until_reachable(world, hearer)
    sender.say(cancel(3))
    await world.until(lambda: cancel(3) in ear.messages)
    assert (1, 1) == (sender.counts.reconnects, hearer.counts.reconnects)
    assert sender.counts.lost >= 1, "a break is counted"


@in_both_worlds
async def test_loss_around_a_break_is_silent_and_ends(world: World) -> None:
    """Saying on through a break never raises; what comes after it is heard, in order."""
    sender, hearer, ear = await pair(world)
    number = 0
    for phase in (world.server_down, world.server_up, world.settle):
        for _ in range(200):
            number += 1
            sender.say(cancel(number))
        await phase()
    await until_reachable(world, hearer)
    sender.say(cancel(0))
    await world.until(lambda: cancel(0) in ear.messages)
    heard = [int(message.workload[2:]) for message in ear.messages if isinstance(message, CancelWorkload)][
        :-1
    ]
    assert sorted(set(heard)) == heard, "in order, none twice"
    assert sender.counts.lost >= 1


@in_both_worlds
async def test_flood_is_bounded_and_counted(world: World) -> None:
    """More than fits at once is lost and counted to the last message; nothing else suffers."""
    sender, hearer, ear = await pair(world)
    count = INBOX_MAX + 40_000
    for number in range(count):
        sender.say(cancel(number))
    await world.settle()
    lost = sender.counts.lost + hearer.counts.lost
    assert lost > 0
    await world.until(lambda: len(ear.parcels) == count - lost)
    sender.say(cancel(count))
    await world.until(lambda: ear.messages[-1] == cancel(count))


async def until_reachable(world: World, bus: Bus) -> None:
    """Wait until a round trip works."""
    await _until_round_trip(world, bus, is_wanted=True)


async def until_not_reachable(world: World, bus: Bus) -> None:
    """Wait until a round trip fails."""
    await _until_round_trip(world, bus, is_wanted=False)


async def _until_round_trip(world: World, bus: Bus, *, is_wanted: bool) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_SECONDS
    while await bus.round_trip(SOON) is not is_wanted:
        assert loop.time() < deadline


def test_ports_are_kept() -> None:
    """Both are a Bus by structure, which mypy checks here."""
    from bus.nats_endpoint import NatsBus
    from bus.simulated_endpoint import SimulatedBus

    kinds: list[Any] = [NatsBus, SimulatedBus]
    assert all(
        hasattr(kind, verb) for kind in kinds for verb in ("say", "ask", "listen", "round_trip", "close")
    )
