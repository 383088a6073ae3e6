"""The host: runs one component. It waits, listens, remembers, tells and acts, so that the component need only decide.

Followed facts are folded as they come; messages wait in a mailbox (runtime/dispatch/mailbox.py), which says which is decided next. One envelope at a time is decided and evolved, to the end. What was decided goes into the log as one durable batch; one
append is in flight, and what is decided meanwhile is the next batch. Nothing is told, no answer given and no effect begun
before every fact evolved until then is durable: whoever hears of it may rely on it.

A failed append stops the component: its memory is ahead of its log, and starting again from the log is the remedy.
"""

from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Generic

import structlog

from bus.catalogue import CREWS, DISPATCH, KEEPER, STATUS, own_costs
from bus.port import Address, Bus
from core.codec import Parcel, encode
from core.component import Component, Decision, ImageAdopted, Images, Refollowing, RowKeeper, State
from core.dispatch.costs import COST_MAX, Costs, CostsTold
from core.dispatch.traits import NOTICE
from core.events.log import ClockAccepted, LogOpened
from core.fact import NO_LOG, Fact, Head, Note
from core.images import Image
from core.messages.base import (
    BusLost,
    Envelope,
    LogHeard,
    LogSilent,
    Message,
    Refused,
    Woken,
)
from core.messages.units import UnitStatus
from core.nouns.ids import LogName
from core.nouns.instant import Instant, Nanoseconds, after, earliest, seconds
from core.nouns.limits import (
    FACT_BYTES_MAX,
    HEAD_INTERVAL,
    SETTINGS,
    WOKEN_IN_A_ROW_MAX,
)
from core.nouns.reasons import Reason, sentence
from runtime.clock import Clock
from runtime.dispatch.lanes import Mail
from runtime.dispatch.mailbox import Mailbox, hear_of_dispatch
from runtime.dispatch.turns import Pace, Turn, Turns
from runtime.effects import Doer
from runtime.errors import BrokenInvariant, OlderCopy
from runtime.following import Following
from runtime.keeping.kept import Kept
from runtime.keeping.log_dependencies import cited_by, known_of
from runtime.keeping.single_keeper import answer_asker, ensure_no_other
from runtime.purity import check_purity
from runtime.status.bus_watch import watch_bus
from runtime.status.put_aside import Suspects
from runtime.telling import HostCounts, Outgoing, Teller, announcements
from runtime.wake import Wake
from store.errors import LogFull
from store.port import Row

logger = structlog.get_logger()

_WOKEN = Woken()


class Host(Generic[State]):
    """One component, alive."""

    def __init__(
        self,
        component: Component[State],
        bus: Bus,
        clock: Clock,
        kept: Kept | None = None,
        doer: Doer | None = None,
        *,
        decides_twice: bool = False,
        suspects: Suspects | None = None,
        pace: Pace | None = None,
        turn: Turn | None = None,
        costs: Costs | None = None,
    ) -> None:
        """`suspects` are the messages on which earlier lives have failed; None: those of this life alone. With `pace`, decisions take
        time on the host's clock. `costs` are what decisions are known to cost; None: nothing is known yet.
        """
        assert (component.keeps is not None) == (kept is not None), component.name
        self.component = component
        self.bus = bus
        self.clock = clock
        self.counts = HostCounts()
        self.state: State | None = None
        """None until the component has begun."""
        self.is_open = kept is None
        """Whether facts can be decided: false while a full disk keeps the log from being opened."""
        self.guard = kept.guard if kept is not None else None
        self.log = kept.log if kept is not None else None
        self._kept = kept
        self._doer = doer
        self.costs = costs or Costs(component.hears)
        self.mailbox = Mailbox(self.costs)
        self._turns = Turns(turn, pace, clock)
        self._teller = Teller(component.name, bus, self.counts, doer, clock, self.costs)
        self._row_keeper = component if isinstance(component, RowKeeper) else None
        self._refollowing = component if isinstance(component, Refollowing) else None
        self._follows = component.follows
        self._decides_twice = decides_twice
        self.suspects = suspects if suspects is not None else Suspects(None, "", clock.now)
        self._term = kept.log.head.term + 1 if kept else 0
        self.sequence = kept.log.head.sequence if kept else 0
        """Of the newest fact decided; what is durable may be behind it."""
        self._facts: list[Fact] = []
        """Those that came before the component could fold them."""
        self._early: dict[LogName, tuple[Image, int]] = {}
        self._wake = Wake(clock)
        self._hears = frozenset(component.hears)
        self._woken = 0
        self._due: Instant | None = None
        """What the component was due at when it was last asked; nothing has been decided since."""
        self._sleeps_until: Instant | None = None
        self._rows: list[Row] = []
        self._outgoing: list[Outgoing] = []
        self._to_append = Wake(clock)
        self._is_appending = False
        self._told_at = clock.now()
        is_keeper = kept is not None
        self._followings = [
            Following(follow, bus, clock, self, is_keeper=is_keeper) for follow in component.follows
        ]

    # Life.

    async def prepare(self) -> None:
        """Make sure that no other keeper answers for the log, nor could. Raises KeeperExists and KeeperSilent."""
        if self._kept is not None:
            await ensure_no_other(self.bus, self._kept.log.head.log)

    def tasks(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """What the supervisor is to run for as long as the component lives, each under a name. Any of them ends by raising."""
        name = self.component.name
        tasks = [(f"{name}/following.{f.log}", f.keep_up()) for f in self._followings]
        tasks.append((f"{name}/deciding", self._decide_forever()))
        if self._kept is not None:
            tasks.append((f"{name}/appending", self._append_forever()))
        if BusLost in self._hears:
            tasks.append((f"{name}/bus", watch_bus(self.bus, self.notice)))
        return tasks

    def close(self) -> None:
        """Let go of timers. What was not durable is gone, as it would be with the process."""
        self._wake.close()
        self._turns.close()
        self._to_append.close()
        for following in self._followings:
            following.close()

    # Hearing: called by the bus and by doers, never waits.

    def hear(self, parcel: Parcel, reply_to: str) -> None:
        """A message for the component."""
        if parcel.costs and not parcel.tenant:
            self.take_costs(parcel.sender, parcel.costs)
        if type(parcel.message) not in self._hears:
            self.counts.unexpected += 1
            logger.warning(
                "unexpected_message", host=self.component.name, message=type(parcel.message).__name__
            )
            return
        self._put(parcel, reply_to)

    def notice(self, message: Message) -> None:
        """A message of the host's own, or what came of an effect."""
        self._put(Parcel(f"{self.component.name}.n", self.component.name, message), "")

    def _put(self, parcel: Parcel, reply_to: str) -> None:
        if self._turns.puts_off(self._put, parcel, reply_to):
            return
        if not self.mailbox.put(parcel, reply_to, self.clock.now()):
            self.counts.inbox_lost += 1
        self._wake.ring()

    # Following (Listener).

    def adopt(self, log: LogName, image: Image, head: Head, *, has_rows_alone: bool = False) -> bool:
        """An image is adopted unless it is shorter than what our own log rests on: then it is a copy of an older file."""
        known = known_of(self._kept.image if self._kept else None, log)
        if head.sequence < known:
            logger.warning(
                "older_log_refused", host=self.component.name, log=log, sequence=head.sequence, known=known
            )
            return False
        if self._kept is not None and cited_by(image, self._kept.log.head.log) > self._kept.log.head.sequence:
            raise OlderCopy(self._kept.log.head.log, self._kept.log.head.sequence, log)
        if self.state is None:
            self._early[log] = (image, head.sequence)
            self._wake.ring()
        else:
            # What was taken before belongs to the history before; it is folded first, and the image replaces it.
            self.take_facts([self._fact_of(ImageAdopted(log, image, head.sequence, has_rows_alone))])
            self.notice(LogHeard(log))
        return True

    def take_facts(self, facts: list[Fact]) -> None:
        """The next facts of a followed log."""
        if self.state is None:
            log = facts[0].log
            image, _ = self._early[log]
            for fact in facts:
                image.fold(fact)
            self._early[log] = (image, facts[-1].sequence)
            return
        if self._turns.puts_off(self.take_facts, facts):
            return
        if not self.is_open:
            self._facts += facts
            return
        # Facts are only folded, so the coroutine is left asleep unless they make something due before it would wake.
        component, state = self.component, self.state
        for fact in facts:
            state = component.evolve(state, fact)
        self.state = state
        due = self._due = component.due(state)
        if due is not None and (self._sleeps_until is None or due < self._sleeps_until):
            self._wake.ring()

    def take_note(self, note: Note) -> None:
        """What is to be known beside the facts just taken."""
        if self.state is not None:
            self.take_facts([self._fact_of(note)])

    def take_costs(self, sender: str, costs: CostsTold) -> None:
        """What another host told of its costs: those of messages that go to hosts such as that one."""
        self.costs.hear(sender, own_costs(sender, costs), self.clock.now())

    def _fact_of(self, note: Note) -> Fact:
        return Fact(NO_LOG, 0, self.clock.now(), "", self.component.name, note)

    def take_silence(self, log: LogName, is_silent: bool) -> None:
        """A followed log's keeper fell silent, or is heard again."""
        self.notice(LogSilent(log) if is_silent else LogHeard(log))

    # Its status (runtime.host_status.py).

    @property
    def followings(self) -> Sequence[Following]:
        """Each followed log."""
        return self._followings

    @property
    def waiting(self) -> int:
        """The number of messages in the mailbox."""
        return len(self.mailbox)

    # Deciding: one coroutine.

    async def _decide_forever(self) -> None:
        # 1. Nothing is decided before every log that is needed is known.
        required = [following.log for following in self._followings if following.follow.is_required]
        while any(log not in self._early for log in required):
            await self._wake.wait()
        self._begin()
        # 2. From here on messages are heard.
        component = self.component
        await self.bus.listen(Address(component.noun, component.scope), self.hear)
        if crew := CREWS.get(component.noun):
            await self.bus.listen(Address(crew.noun, component.scope[: len(crew.scope)]), self.hear)
        if UnitStatus in self._hears:
            await self.bus.listen(Address(STATUS.noun), self.hear)
        hear = partial(hear_of_dispatch, self.mailbox, self.bus)
        for scope in ((), (component.name,)):
            await self.bus.listen(Address(DISPATCH.noun, scope), hear)
        if self._kept is not None:
            hear_ask = partial(answer_asker, self._kept, self._term, self.bus, self._wake)
            await self.bus.listen(Address(KEEPER.noun, (self._kept.log.head.log,)), hear_ask)
            await self._believe_clock()
            await self._open()
        if self._doer is not None:
            self._doer.attach(self.notice)
        while True:
            # 3. Take what has arrived, decide and evolve it, and whatever is due; nothing while the clock is not to be believed.
            await self._believe_clock()
            if self.guard is not None and (word := self.guard.take_word()) is not None:
                self._record_word(word)
            is_long_next = await self._take_turn()
            # 4. Let the batch go.
            if self._rows or self._outgoing:
                self._to_append.ring()
            if self.mailbox:
                await self._turns.rest(
                    lambda: bool(self._rows) or self._is_appending, is_long_next=is_long_next
                )
            else:
                self._sleeps_until = self._next_due()
                await self._wake.wait(self._sleeps_until)

    def _begin(self) -> None:
        own = self._kept.image if self._kept else None
        self.state = self.component.initial(Images(self.clock.now(), own, dict(self._early)))
        for log in self._early:
            self.notice(LogHeard(log))

    async def _believe_clock(self) -> None:
        """Wait while the machine's clock is not to be believed, and refuse what is asked meanwhile (runtime/keeping/clock_guard.py)."""
        if self.guard is not None:
            await self.guard.believe(self._wake, lambda: self._refuse_all(Reason.CLOCK_UNCERTAIN))

    def _record_word(self, event: ClockAccepted) -> None:
        """Record the operator's word by which the clock is believed."""
        name = self.component.name
        envelope = Envelope(_WOKEN, name, f"{name}.{self._term}.clock", self.clock.now())
        self._evolve(Decision(events=(event,)), envelope)

    async def _open(self) -> None:
        """The first fact of the term. While the disk is full every request is refused, and the log can still be read."""
        assert self._kept is not None, self.component.name
        head = self._kept.log.head
        opened = LogOpened(head.log_id, self._term, self._kept.fleet, self._kept.build, SETTINGS)
        row = Row(head.sequence + 1, self.clock.now(), "", self.component.name, "", encode(opened))
        while True:
            try:
                after_it = await self._kept.log.append([row], self._term)
                break
            except LogFull:
                self.counts.log_full += 1
                logger.error("log_full", log=head.log, host=self.component.name)
                self._refuse_all(Reason.LOG_FULL)
                await self._wake.wait(after(self.clock.now(), seconds(1)))
        self.sequence = row.sequence
        assert self.state is not None
        fact = Fact(
            head.log, row.sequence, Instant(row.at), "", self.component.name, opened, self.clock.now()
        )
        self.state = self.component.evolve(self.state, fact)
        self.is_open = True
        self.take_facts(self._facts)
        self._facts = []
        self._announce([row], head, after_it, b"")

    def _refuse_all(self, reason: Reason) -> None:
        """Followed facts and the host's own notices wait; requests are answered that nothing new is accepted."""
        for mail in self.mailbox.refuse():
            if mail.reply_to:
                self.bus.say(Refused(reason, sentence(reason)), mail.reply_to)

    def _next_due(self) -> Instant | None:
        if self._kept is None:
            return self._due
        return earliest(self._due, after(self._told_at, HEAD_INTERVAL))

    async def _take_turn(self) -> bool:
        """Decide what has arrived until the turn is over, and then whatever is due. Return whether it ended before a long decision."""
        mailbox, turn = self.mailbox, self._turns.turn
        begun = now = self.clock.now()
        for count in range(turn.envelopes):
            if (mail := mailbox.take(now, turn.span if count else COST_MAX)) is None:
                break
            await self._turns.spend(mail.parcel.message)
            now = self._handle(mail, now)
            if turn.is_over(now, Nanoseconds(now - begun), mailbox):
                break
        self._turns.end_turn()
        self._wake_component(now)
        self._follow_as_wanted()
        if self._kept is not None and self._told_at + HEAD_INTERVAL <= now:
            self._say_head(now)
        return mail is None and bool(mailbox)

    def _follow_as_wanted(self) -> None:
        """Let a component change how it follows."""
        if (
            self._refollowing is None
            or (follows := self._refollowing.follows_now(self.state)) is self._follows
        ):
            return
        self._follows = follows
        for following, follow in zip(self._followings, follows, strict=True):
            following.follow_as(follow)

    def _handle(self, mail: Mail, taken_at: Instant) -> Instant:
        """Decide a message, or the part whose like has not made the component fail before (runtime/status/put_aside.py). Return when
        that is done.
        """
        parcel, reply_to = mail.parcel, mail.reply_to
        suspects, message = self.suspects, parcel.message
        handed = None if suspects.is_empty else suspects.hand(message)
        if handed is not None:
            self._teller.put_aside(parcel, reply_to, handed.aside)
            if handed.message is None:
                return self.clock.now()
            message = handed.message
        try:
            waited = Nanoseconds(max(0, taken_at - mail.heard))
            envelope = Envelope(message, parcel.sender, parcel.id, taken_at, reply_to, parcel.tenant, waited)
            decision = self._decide(envelope)
        except Exception as error:
            suspects.blame(parcel.message, error, handed)
            raise
        if handed is not None:
            suspects.handled(parcel.message, handed, decision)
        # Outside of the blame: a bus or a disk that fails is not the message's fault.
        self._let_go(decision, reply_to, "" if mail.traits is NOTICE else mail.sort, mail.chain_deadline)
        done_at = self.clock.now()
        self.costs.measured(type(parcel.message), mail.size, done_at - taken_at)
        return done_at

    def _wake_component(self, now: Instant) -> None:
        assert self.state is not None
        due = self.component.due(self.state)
        turns = 0
        while due is not None and due <= now:
            self._woken += 1
            name = self.component.name
            self._let_go(self._decide(Envelope(_WOKEN, name, f"{name}.{self._term}.w{self._woken}", now)), "")
            due = self.component.due(self.state)
            turns += 1
            if turns > WOKEN_IN_A_ROW_MAX:
                raise BrokenInvariant(name, f"due at {due} for ever, and it is {now}")
        self._due = due

    def _decide(self, envelope: Envelope) -> Decision:
        """Decide and evolve one envelope, and return the decision, which is to be told."""
        self.counts.decided += 1
        assert self.state is not None
        decision = self.component.decide(self.state, envelope)
        if self._decides_twice:
            check_purity(self.component, self.state, decision, envelope)
        if decision.events:
            self._evolve(decision, envelope)
        return decision

    def _let_go(self, decision: Decision, reply_to: str, sort: str = "", deadline: int = 0) -> None:
        """Tell a decision, once every fact evolved before is durable: at once if there is none."""
        if decision.messages or decision.effects:
            outgoing = Outgoing(decision.messages, reply_to, decision.effects, sort, deadline)
            if self._rows or self._is_appending or self._outgoing:
                self._outgoing.append(outgoing)
            else:
                self._teller.tell(outgoing)

    def _evolve(self, decision: Decision, envelope: Envelope) -> None:
        """Number the facts, and evolve them and the notes in the order decided."""
        assert self.state is not None
        now = envelope.at
        log = self.component.keeps
        for event in decision.events:
            if isinstance(event, Note):
                fact = Fact(NO_LOG, 0, now, envelope.id, envelope.sender, event, now)
            else:
                assert log is not None, (self.component.name, type(event).__name__)
                data = encode(event)
                if len(data) > FACT_BYTES_MAX:
                    raise BrokenInvariant(
                        self.component.name, f"{type(event).__name__} has {len(data)} bytes"
                    )
                self.sequence += 1
                self.counts.facts += 1
                self._rows.append(Row(self.sequence, now, envelope.id, envelope.sender, event.about, data))
                fact = Fact(log, self.sequence, now, envelope.id, envelope.sender, event, now)
            self.state = self.component.evolve(self.state, fact)

    # Remembering and telling.

    async def _append_forever(self) -> None:
        assert self._kept is not None, self.component.name
        log = self._kept.log
        while True:
            while not (self._rows or self._outgoing):
                await self._to_append.wait()
            # 1. Take all that was decided until now: it becomes durable together, or not at all.
            rows, outgoing = self._rows, self._outgoing
            self._rows, self._outgoing = [], []
            packed = self._packed_rows(rows)
            if rows:
                before = log.head
                self._is_appending = True
                try:
                    head = await log.append(rows, self._term)
                except LogFull:
                    self.counts.log_full += 1
                    self._teller.refuse([*outgoing, *self._outgoing], Reason.LOG_FULL)
                    raise
                self._is_appending = False
                self.counts.batches += 1
                # 2. Tell the facts, so that whoever hears of them by other words can have heard them.
                self._announce(rows, before, head, packed)
            # 3. Tell what was decided with them, in the order in which it was.
            for item in outgoing:
                self._teller.tell(item)
            self._turns.tell_durable()

    def _packed_rows(self, rows: list[Row]) -> bytes | None:
        """As the nodes are after the last of these facts, which is the last one evolved."""
        if not rows or self._row_keeper is None:
            return b""
        return self._row_keeper.packed_rows(self.state, rows[0].sequence)

    def _announce(self, rows: list[Row], before: Head, head: Head, packed: bytes | None) -> None:
        self._told_at = self.clock.now()
        self._teller.announce(announcements(rows, before, head, self._term, packed))

    def _say_head(self, now: Instant) -> None:
        assert self._kept is not None
        self._told_at = now
        self._teller.say_head(self._kept.log.head, self._term)
