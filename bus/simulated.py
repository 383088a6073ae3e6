"""A bus in memory that loses, repeats, delays, reorders and cuts as it is told, and does so again from the same seed.

A message is encoded once and decoded once, so that what crosses here could cross NATS. What is on
its way lies in one bucket for each instant of delivery, and one timer of the loop waits for the earliest: a plane says
tens of thousands of messages a second, and a timer for each would double what they cost.

All chance is drawn from the generator that was handed in, in the order in which messages are said and ears were opened.
"""

import asyncio
import contextvars
import hashlib
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Protocol

from bus.catalogue import answers_to, dead_letters_of, is_forged
from bus.faults import Faults, Gate, IsCut, added, between
from bus.packing import not_ours
from bus.simulated_endpoint import Clock, Crowd, Ear, Letter, SimulatedBus, prefix_of
from core.codec import CodecError, decode_parcel
from core.messages.base import Message
from core.nouns.instant import Instant

DELIVERY_TICK = 500_000
"""Messages arrive at whole multiples of 500 us, so that many share one callback (our choice)."""
_MARK_BYTES_MAX = 1024
"""A longer payload goes into the digest by its own hash, taken once however many hear it."""
_PIECES_MAX = 512
"""Pieces of the digest that are gathered and then hashed in one call."""


class Dice(Protocol):
    """A seeded `random.Random`, as far as it is used here."""

    def random(self) -> float:
        """At least 0 and less than 1."""


class SimulatedNetwork:
    """All endpoints of one fleet, and all that is on its way between them."""

    def __init__(self, dice: Dice, clock: Clock, fleet: str) -> None:
        self.fleet = fleet
        self.clock = clock
        self.faults = Faults()
        self.gate: Gate | None = None
        """Set by whoever holds back chosen messages."""
        self.overheard: dict[type[Message], list[Callable[[str, Message], None]]] = {}
        """Who is told, by the type of the message, by whom it is said and what, before it is on its way."""
        self.is_up = True
        self.dropped = 0
        """Lost by chance, by a cut, or with an endpoint that is gone; nobody was told."""
        self.dead_letters = 0
        self._context = contextvars.copy_context()
        self._draw = dice.random
        self._crowds: dict[str, Crowd] = {}
        """Ears by what comes before the verb."""
        self._endpoints: list[SimulatedBus] = []
        self._incarnations: dict[str, int] = {}
        self._cuts: list[IsCut] = []
        self._disturbed: list[tuple[IsCut, Faults]] = []
        self._faults_between: dict[tuple[str, str], Faults] = {}
        """Of those pairs between which something was said since the disturbances last changed."""
        self._waiting: dict[SimulatedBus, list[tuple[Ear, Letter]]] = {}
        """By paused endpoint, what has arrived for it."""
        self._buckets: dict[int, list[tuple[Ear, Letter]]] = {}
        self._due: list[int] = []
        """A heap of the instants that have a bucket."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._delivered: dict[type[Message], int] = {}
        self._hash = hashlib.sha256()
        self._pieces: list[bytes] = []

    # Who is there.

    def endpoint(self, name: str, tenant: str = "") -> SimulatedBus:
        """A new endpoint. The same name again is its next incarnation, whose messages have other ids.

        Nobody keeps one without a tenant from speaking as any: that is for a server to see to.
        """
        incarnation = self._incarnations.get(name, 0) + 1
        self._incarnations[name] = incarnation
        endpoint = SimulatedBus(self, name, incarnation, tenant)
        self._endpoints.append(endpoint)
        return endpoint

    # Misfortune.

    def cut(self, ones: Iterable[str], others: Iterable[str], is_one_way: bool = False) -> IsCut:
        """Let nothing pass between these endpoints (bus/faults.py) until it is healed, nor arrive that is on its way.

        An endpoint that is cut from itself is cut from the bus: its `round_trip` fails.
        """
        return self.cut_where(between(ones, others, is_one_way))

    def cut_where(self, is_cut: IsCut) -> IsCut:
        """Let nothing pass where the predicate says so."""
        self._cuts.append(is_cut)
        return is_cut

    def heal(self, cut: IsCut | None = None) -> None:
        """Take back one cut, or all."""
        self._cuts = [] if cut is None else [one for one in self._cuts if one is not cut]

    def disturb(self, is_on_link: IsCut, faults: Faults) -> object:
        """Let these faults strike what is said on a link, beside all others that do. Returns what `calm` wants."""
        handle = (is_on_link, faults)
        self._disturbed.append(handle)
        self._faults_between.clear()
        return handle

    def calm(self, handle: object = None) -> None:
        """End one disturbance, or all."""
        self._disturbed = [] if handle is None else [one for one in self._disturbed if one is not handle]
        self._faults_between.clear()

    def pause(self, endpoint: SimulatedBus) -> None:
        """What arrives for it waits, as in the buffers of a stopped process."""
        self._waiting.setdefault(endpoint, [])

    def resume(self, endpoint: SimulatedBus) -> None:
        """It hears all that waited, in its order."""
        for ear, letter in self._waiting.pop(endpoint, ()):
            self._deliver(ear, letter)

    def is_cut(self, sender: str, hearer: str) -> bool:
        """Whether nothing that the one says reaches the other."""
        return any(is_cut(sender, hearer) for is_cut in self._cuts)

    def down(self) -> None:
        """The server is gone, with all that was on its way."""
        self.is_up = False
        for instant in sorted(self._buckets):
            for ear, letter in self._buckets[instant]:
                ear.pending -= 1
                if letter.sender is not None:
                    letter.sender.counts.lost += 1
        self._buckets.clear()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def up(self) -> None:
        """The server is back; every endpoint finds it at once, and hears what it heard before."""
        assert not self.is_up
        self.is_up = True
        for endpoint in self._endpoints:
            endpoint.counts.reconnects += 1

    def deliver_raw(self, subject: str, data: bytes, reply_to: str = "") -> None:
        """Put bytes on their way to whoever hears a subject, whatever they are."""
        self._spread("", None, subject, data, reply_to)

    # What was seen.

    @property
    def delivered(self) -> dict[str, int]:
        """Deliveries by the message's tag."""
        counted = {str(kind.__struct_config__.tag): count for kind, count in self._delivered.items()}
        return dict(sorted(counted.items()))

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._due

    def digest(self) -> str:
        """A hash over every delivery so far: when, to whom and which bytes (they say by whom)."""
        self._hash_pieces()
        return self._hash.hexdigest()

    # For endpoints.

    def open_ear(self, ear: Ear) -> None:
        """Deliver to it from now on."""
        crowd = self._crowds.setdefault(ear.prefix, Crowd())
        crowd.count += 1
        if ear.group:
            crowd.groups.setdefault(ear.group, []).append(ear)
        else:
            crowd.single.append(ear)

    def shut_ear(self, ear: Ear) -> None:
        """Deliver nothing more to it, nor what is on its way."""
        if not ear.is_open:
            return
        ear.is_open = False
        crowd = self._crowds[ear.prefix]
        crowd.count -= 1
        if not crowd.count:
            del self._crowds[ear.prefix]
        elif ear.group:
            crowd.groups[ear.group].remove(ear)
            if not crowd.groups[ear.group]:
                del crowd.groups[ear.group]
        else:
            crowd.single.remove(ear)

    def forget(self, endpoint: SimulatedBus) -> None:
        """It is gone, with all that waits for it."""
        self._endpoints.remove(endpoint)
        self._waiting.pop(endpoint, None)

    def say(self, sender: SimulatedBus, subject: str, data: bytes, reply_to: str) -> bool:
        """Put a message on its way; False when it is plain that nobody listens."""
        if not self.is_up:
            sender.counts.lost += 1
            return True
        return self._spread(sender.name, sender, subject, data, reply_to)

    def _spread(
        self, name: str, sender: SimulatedBus | None, subject: str, data: bytes, reply_to: str
    ) -> bool:
        """To every single ear, and to one of each group."""
        crowd = self._crowds.get(prefix_of(subject))
        if crowd is None:
            return False
        mark = data if len(data) <= _MARK_BYTES_MAX else hashlib.sha256(data).digest()
        letter = Letter(sender, subject, data, mark, answers_to(subject, reply_to) if reply_to else "")
        for ear in crowd.single:
            self._send(name, ear, letter)
        for members in crowd.groups.values():
            self._send(name, members[int(self._draw() * len(members))], letter)
        return True

    def _send(self, name: str, ear: Ear, letter: Letter) -> None:
        """One message on its way to one ear, or not."""
        faults, draw = self.faults, self._draw
        if self._disturbed:
            faults = self._between(name, ear.endpoint.name)
        if self._cuts and self.is_cut(name, ear.endpoint.name):
            self.dropped += 1
            return
        if faults.drop_probability and draw() < faults.drop_probability:
            self.dropped += 1
            return
        now = self.clock.now_ns()
        at = now + faults.delay_min + int(draw() * (faults.delay_max - faults.delay_min + 1))
        if faults.extra_delay_probability and draw() < faults.extra_delay_probability:
            at += int(draw() * faults.extra_delay)
        if not faults.is_reordering:
            at = ear.not_before(now, (name, letter.subject), at)
        self._put(ear, at, letter)
        if faults.repeat_probability and draw() < faults.repeat_probability:
            again = Letter(letter.sender, letter.subject, letter.data, letter.mark, letter.reply_to)
            again.finds_heir = True
            later = faults.repeat_delay if faults.repeats_in_order else int(draw() * faults.repeat_delay)
            self._put(ear, at + later, again)

    def _between(self, sender: str, hearer: str) -> Faults:
        """All faults that strike what the one says to the other."""
        faults = self._faults_between.get((sender, hearer))
        if faults is None:
            faults = self.faults
            for is_on_link, more in self._disturbed:
                if is_on_link(sender, hearer):
                    faults = added(faults, more)
            self._faults_between[sender, hearer] = faults
        return faults

    def _put(self, ear: Ear, at: int, letter: Letter) -> None:
        """Into the bucket of the next tick after `at`; within a bucket messages keep the order in which they were said."""
        if ear.pending >= self.faults.pending_max:
            ear.endpoint.counts.lost += 1
            return
        ear.pending += 1
        at = (at // DELIVERY_TICK + 1) * DELIVERY_TICK
        bucket = self._buckets.get(at)
        if bucket is not None:
            bucket.append((ear, letter))
            return
        self._buckets[at] = [(ear, letter)]
        heappush(self._due, at)
        if self._timer is None or at < self._timer_at:
            self._arm(at)

    def _arm(self, at: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        # In the network's own context: a paused endpoint stops nobody's messages.
        self._timer = self.clock.call_at_ns(Instant(at), self._deliver_due, context=self._context)

    def _deliver_due(self) -> None:
        """Empty every bucket whose instant has come. Whoever hears may say, but that arrives a tick later at least."""
        self._timer = None
        now = self.clock.now_ns()
        while self._due and self._due[0] <= now:
            at = heappop(self._due)
            self._pieces.append(b"\n%d" % at)
            for ear, letter in self._buckets.pop(at):
                self._deliver(ear, letter)
            if len(self._pieces) > _PIECES_MAX:
                self._hash_pieces()
        if self._due and self._timer is None:
            self._arm(self._due[0])

    def _deliver(self, ear: Ear, letter: Letter) -> None:
        if letter.finds_heir and not ear.is_open:
            ear.pending -= 1
            ear = self._heir(ear)
            ear.pending += 1
        endpoint, sender = ear.endpoint, letter.sender
        if self._waiting and endpoint in self._waiting:
            self._waiting[endpoint].append((ear, letter))
            return
        ear.pending -= 1
        if not ear.is_open or not self.is_up:
            self.dropped += 1
            return
        if self._cuts and self.is_cut("" if sender is None else sender.name, endpoint.name):
            self.dropped += 1
            return
        self._pieces += (ear.label, letter.mark)
        parcel = letter.parcel
        if parcel is None:
            try:
                parcel = decode_parcel(letter.data)
            except CodecError as error:
                self._dead_letter(endpoint, letter)
                if letter.reply_to and letter.subject != dead_letters_of(self.fleet):
                    endpoint.say(not_ours(error), letter.reply_to)  # Whoever asked is told what is wrong.
                return
            if is_forged(self.fleet, letter.subject, parcel):
                self._dead_letter(endpoint, letter)
                return
            letter.parcel = parcel  # Decoded once for all its ears: what was decoded is frozen.
        if self.gate is not None and not letter.is_let_go:
            name = "" if sender is None else sender.name
            if not self.gate(name, endpoint.name, parcel.message, lambda: self._let_go(ear, letter)):
                return
        kind = type(parcel.message)
        self._delivered[kind] = self._delivered.get(kind, 0) + 1
        if ear.hear is None:
            endpoint.answered(letter.subject, parcel)
        else:
            endpoint.counts.heard += 1
            ear.hear(parcel, letter.reply_to)

    def _heir(self, shut: Ear) -> Ear:
        """The ear at this address of whoever is called now as its hearer was; itself, if there is none."""
        crowd = self._crowds.get(shut.prefix) or Crowd()
        members = (*crowd.single, *crowd.groups.get(shut.group, ()))
        return next((ear for ear in members if ear.endpoint.name == shut.endpoint.name), shut)

    def _let_go(self, held: Ear, letter: Letter) -> None:
        """A message that was held back arrives at whoever is called as its hearer was, and hears its subject now."""
        late = Letter(letter.sender, letter.subject, letter.data, letter.mark, letter.reply_to)
        late.is_let_go = True
        crowd = self._crowds.get(prefix_of(letter.subject)) or Crowd()
        for ear in (*crowd.single, *(ear for members in crowd.groups.values() for ear in members)):
            if ear.endpoint.name == held.endpoint.name:
                self._put(ear, self.clock.now_ns(), late)

    def pass_on_dead(self, endpoint: SimulatedBus, data: bytes) -> None:
        """Count a dead letter, and put it on its way to the dead-letter subject."""
        endpoint.counts.dead_letters += 1
        self.dead_letters += 1
        self._spread(endpoint.name, endpoint, dead_letters_of(self.fleet), data, "")

    def _dead_letter(self, endpoint: SimulatedBus, letter: Letter) -> None:
        """Count a letter and pass the letter on; a listener to dead letters counts them too, and passes none on."""
        if letter.subject != dead_letters_of(self.fleet):
            self.pass_on_dead(endpoint, letter.data)
            return
        endpoint.counts.dead_letters += 1
        self.dead_letters += 1

    def _hash_pieces(self) -> None:
        self._hash.update(b"".join(self._pieces))
        self._pieces.clear()
