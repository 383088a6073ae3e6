"""The host: nothing is told before it is durable, everything is told in order, and whatever breaks stops it."""

from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from bus.errors import AskTimedOut
from bus.port import Address
from core.codec import Parcel, decode_event
from core.component import Decision
from core.dispatch.policies import POLICIES
from core.effects import KeepFence
from core.events.log import LogOpened
from core.events.queue import RegionAdded
from core.fact import NO_LOG, Fact
from core.messages.agents import ClaimAnswered
from core.messages.base import Envelope, LogHeard, Message, Refused
from core.messages.broker import StopAttempt
from core.messages.logs import FactsTold, HeadTold
from core.messages.queue import Acknowledged, SubmitWorkload
from core.nouns.ids import GLOBAL_LOG, AgentName, ClaimId, WorkloadId
from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.limits import (
    FACT_BYTES_MAX,
    HEAD_INTERVAL,
    INBOX_MAX,
    MESSAGE_BYTES_MAX,
    TOLD_BYTES_MAX,
    WOKEN_IN_A_ROW_MAX,
)
from core.nouns.reasons import Reason
from core.nouns.workload import WorkloadSpec
from runtime.errors import BrokenInvariant
from store.chain import chain
from store.errors import AppendFailed, LogFull
from store.memory_disk import Fate
from store.port import Row
from tests.builders import EU
from tests.runtime.aids import (
    START,
    Counter,
    CounterState,
    Deeds,
    DueSet,
    Place,
    Running,
    WokenAt,
    count,
    count_many,
    how_many,
    in_virtual_time,
    large_answer,
    large_fact,
    number_of,
    virtual,
)

SLOW = Nanoseconds(50 * MILLISECOND)
"""A disk so slow that many messages arrive while it syncs."""


@pytest.fixture(autouse=True, params=POLICIES)
def _policy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a host promises, it promises under every policy of dispatch."""
    monkeypatch.setattr(Place, "policy", request.param)


class Ear:
    """Everything that is told: facts and heads of the log, and reports, each with when and with how many facts durable."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.facts: list[FactsTold] = []
        self.heads: list[tuple[Instant, HeadTold]] = []
        self.reports: list[str] = []
        self.words: list[str] = []
        """Facts and reports in the order heard."""

    async def open(self) -> "Ear":
        faults = self.place.network.faults
        faults.delay_max = faults.delay_min  # Nothing overtakes anything, so order heard is order said.
        endpoint = self.place.network.endpoint("ear")
        await endpoint.listen(Address("log", (GLOBAL_LOG,)), self._hear)
        await endpoint.listen(Address("broker", ("r",)), self._hear)
        return self

    def _hear(self, parcel: Parcel, reply_to: str) -> None:
        match parcel.message:
            case FactsTold() as told:
                assert self.place.durable >= told.first + len(told.facts) - 1, "told before it was durable"
                self.facts.append(told)
                for fact in told.facts:
                    event = decode_event(fact.event)
                    self.words.append(
                        f"fact {event.region}" if isinstance(event, RegionAdded) else type(event).__name__
                    )
            case HeadTold() as head:
                assert self.place.durable >= head.sequence
                self.heads.append((self.place.loop.now_ns(), head))
            case StopAttempt(workload=workload, epoch=number):
                assert self.place.durable > number, "reported before it was durable"
                self.reports.append(workload)
                self.words.append(f"report {workload}")


class Asked:
    """Questions asked at once, and their answers in the order in which they came."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.answers: list[tuple[str, Message]] = []

    def ask(self, name: str, message: Message) -> None:
        self.place.loop.create_task(self._ask(name, message), name=f"ask {name}")

    async def _ask(self, name: str, message: Message) -> None:
        try:
            answer = await self.place.client.ask(message, seconds(2))
        except AskTimedOut:
            return
        if isinstance(answer, Acknowledged) and isinstance(message, type(count(""))):
            assert self.place.durable > answer.revision, "answered before it was durable"
        self.answers.append((name, answer))

    @property
    def order(self) -> list[str]:
        return [name for name, _ in self.answers]


def failure_of(keeper: Running) -> Any:  # Any: whatever a test is about
    """What it died of."""
    assert keeper.failure is not None, "it lives"
    return keeper.failure


@virtual
async def test_nothing_is_told_before_it_is_durable(place: Place) -> None:
    """Facts, answers and reports all wait for the slow disk, and come at once when it is done."""
    place.sync = SLOW
    ear = await Ear(place).open()
    await place.keep()
    await place.sleep(1)
    asked = Asked(place)
    begun = place.loop.now_ns()
    asked.ask("a", count("a"))
    await place.sleep(0.045)
    assert ["LogOpened"] == ear.words
    assert [] == asked.order
    await place.until(lambda: bool(asked.order))
    assert ["LogOpened", "fact a", "report a"] == ear.words
    assert SLOW <= place.loop.now_ns() - begun < SLOW + 5 * MILLISECOND


@virtual
async def test_decisions_during_an_append_are_the_next_batch(place: Place) -> None:
    """L4: one append is in flight: messages that arrive meanwhile are decided at once and become durable together, next."""
    place.sync = SLOW
    keeper = await place.keep()
    await place.sleep(1)
    ear = await Ear(place).open()
    asked = Asked(place)
    for index in range(7):
        asked.ask(f"n{index}", count(f"n{index}"))
        await place.sleep(0.011)
    assert 7 == len(keeper.counter.names)
    await place.sleep(0.2)
    assert [1, 4, 2] == [len(told.facts) for told in ear.facts]
    assert [f"n{index}" for index in range(7)] == asked.order
    assert 3 == keeper.host.counts.batches
    assert 7 == keeper.host.counts.facts


@virtual
async def test_answers_come_in_the_order_taken(place: Place) -> None:
    """An answer that has no fact of its own waits for the facts decided before it, and is not overtaken."""
    place.sync = SLOW
    ear = await Ear(place).open()
    await place.keep()
    await place.sleep(1)
    asked = Asked(place)
    for name, message in [
        ("read-0", how_many()), ("a", count("a")), ("read-1", how_many()), ("a-again", count("a")),
        ("b", count("b")), ("read-2", how_many()),
    ]:  # fmt: skip
        asked.ask(name, message)
        await place.sleep(0.003)  # Taken as it comes, whatever the policy.
    assert ["read-0"] == asked.order, "nothing stands before the first, and it is answered at once"
    asked.ask("read-3", how_many())
    await place.sleep(0.2)
    assert ["read-0", "a", "read-1", "a-again", "b", "read-2", "read-3"] == asked.order
    assert [0, 1, 1, 1, 2, 2, 2] == [number_of(answer) for _, answer in asked.answers]
    assert ["LogOpened", "fact a", "report a", "fact b", "report b"] == ear.words


@virtual
async def test_facts_of_a_batch_are_told_before_anything_else(place: Place) -> None:
    """Also before what was decided with the first of them."""
    place.sync = SLOW
    ear = await Ear(place).open()
    await place.keep()
    await place.sleep(1)
    asked = Asked(place)
    for name in ("a", "b"):
        asked.ask(name, count(name))
    await place.sleep(0.2)
    assert ["a", "b"] == asked.order
    assert ["LogOpened", "fact a", "fact b", "report a", "report b"] == ear.words


@pytest.mark.parametrize(("fate", "known"), [(Fate.LOST, ["a"]), (Fate.KEPT, ["a", "b"]), (Fate.TORN, ["a"])])
def test_failed_append_stops_it(fate: Fate, known: list[str]) -> None:
    """Its memory is ahead of its log, so it goes on with nothing; started again it knows what the log knows."""

    async def body(place: Place) -> None:
        ear = await Ear(place).open()
        keeper = await place.keep()
        await place.ask(count("a"))
        await place.moment()
        place.disk.sync_fails = fate
        with pytest.raises(AskTimedOut):
            await place.ask(count("b"))
        assert isinstance(failure_of(keeper), AppendFailed)
        assert ["LogOpened", "fact a", "report a"] == ear.words
        place.disk.sync_fails = None
        again = await place.keep()
        assert known == again.counter.names
        assert 2 == number_of(await place.ask(count("b")))

    in_virtual_time(body)


@virtual
async def test_full_disk_refuses_and_goes_on_reading(place: Place) -> None:
    """Requests are answered `log_full` and nothing is lost; the log can be read; once there is room all works again."""
    keeper = await place.keep()
    await place.serve()
    await place.ask(count("a"))
    place.disk.is_full = True
    answer = await place.ask(count("b"))
    assert isinstance(answer, Refused)
    assert Reason.LOG_FULL == answer.reason
    assert isinstance(failure_of(keeper), LogFull)
    place.crash(keeper)

    again = await place.keep()
    watcher = place.follow()
    for name in ("b", "c"):
        answer = await place.ask(count(name))
        assert isinstance(answer, Refused)
        assert Reason.LOG_FULL == answer.reason
    assert not again.host.is_open
    assert ["a"] == watcher.watcher.names

    place.disk.is_full = False
    await place.until(lambda: again.host.is_open)
    assert 2 == number_of(await place.ask(count("b")))
    await place.moment()
    assert ["a", "b"] == watcher.watcher.names
    assert again.counter.image.digest() == (await place.folded()).digest()


@virtual
async def test_notices_outlast_a_full_disk(place: Place) -> None:
    """Only requests are refused: what the host itself has to say is decided once the log is open."""
    place.crash(await place.keep())
    place.disk.is_full = True
    again = await place.keep(HearsSilence())
    await place.sleep(3)
    again.host.notice(LogHeard(GLOBAL_LOG))
    await place.sleep(3)
    place.disk.is_full = False
    await place.until(lambda: again.host.is_open)
    await place.moment()
    assert 1 == len(again.counter.woken)


class HearsSilence(Counter):
    """Remembers notices as if it had been woken."""

    def decide(self, state: Any, envelope: Any) -> Any:  # Any: as the counter's
        if isinstance(envelope.message, LogHeard):
            return Decision(events=(WokenAt(),))
        return super().decide(state, envelope)


@virtual
async def test_fact_too_large_stops_it(place: Place) -> None:
    """Sizes are the decider's to mind: a fact over the limit is a broken invariant, and nothing of it is kept or told."""
    keeper = await place.keep()
    await place.ask(large_fact(FACT_BYTES_MAX - 100))
    before = place.durable
    with pytest.raises(AskTimedOut):
        await place.ask(large_fact(FACT_BYTES_MAX + 1))
    failure = failure_of(keeper)
    assert isinstance(failure, BrokenInvariant)
    assert "RegionAdded" in str(failure)
    assert before == place.durable


@virtual
async def test_message_too_large_is_not_sent_and_its_asker_is_told(place: Place) -> None:
    """Whoever waits for an answer that no message can hold is refused; the host lives on."""
    keeper = await place.keep()
    with capture_logs() as lines:
        answer = await place.ask(large_answer(MESSAGE_BYTES_MAX))
    assert isinstance(answer, Refused)
    assert Reason.TOO_LARGE == answer.reason
    assert ["not_said"] == [line["event"] for line in lines]
    assert 1 == number_of(await place.ask(count("a")))
    assert keeper.failure is None


@virtual
async def test_woken_when_due(place: Place) -> None:
    """At the instant that `due` names, whatever was slept through; again at once while it is still past; then no more."""
    keeper = await place.keep(counter := Counter())
    await place.sleep(1)
    at = after(place.loop.now_ns(), seconds(1.5))
    counter.stays_due = 3
    keeper.host.state = keeper.host.component.evolve(keeper.counter, _note(DueSet(at)))
    await place.ask(how_many())  # Whatever is decided, the next deadline is looked up after it.
    await place.sleep(5)
    assert [at] * 4 == keeper.counter.woken


@virtual
async def test_earlier_deadline_is_not_slept_through(place: Place) -> None:
    """A deadline that moves forward while the host sleeps towards a later one is kept."""
    keeper = await place.keep()
    await place.sleep(1)
    for span in (1.0, 0.5):
        keeper.host.component.evolve(keeper.counter, _note(DueSet(after(place.loop.now_ns(), seconds(span)))))
        await place.ask(how_many())
    due = keeper.counter.due_at
    await place.sleep(3)
    assert [due] == keeper.counter.woken


@virtual
async def test_due_for_ever_is_a_broken_invariant(place: Place) -> None:
    """A component that is due again and again at one instant would never sleep: it is stopped."""
    keeper = await place.keep(counter := Counter())
    counter.stays_due = 10 * WOKEN_IN_A_ROW_MAX
    keeper.host.component.evolve(keeper.counter, _note(DueSet(place.loop.now_ns())))
    place.client.say(how_many())
    await place.moment()
    assert isinstance(failure_of(keeper), BrokenInvariant)
    assert WOKEN_IN_A_ROW_MAX <= len(keeper.counter.woken) <= WOKEN_IN_A_ROW_MAX + 1


@virtual
async def test_heads_are_said_after_silence(place: Place) -> None:
    """At the start the first fact of the term tells the head; then after 2 s without a fact, and 2 s after each fact."""
    ear = await Ear(place).open()
    await place.keep()
    await place.sleep(5)
    assert ["LogOpened"] == ear.words
    span = HEAD_INTERVAL / SECOND
    assert [span, 2 * span] == [pytest.approx((at - START) / SECOND, abs=0.02) for at, _ in ear.heads]
    await place.ask(count("a"))
    told_at = place.loop.now_ns()
    ear.heads.clear()
    await place.sleep(3)
    ((at, head),) = ear.heads
    assert (at - told_at) / SECOND == pytest.approx(span, abs=0.02)
    assert (1, 2) == (head.term, head.sequence)
    assert ear.facts[-1].hash_after == head.hash


@virtual
async def test_inbox_is_bounded(place: Place) -> None:
    """What comes when the inbox is full is lost and counted, as on any bus; the rest is decided."""
    keeper = await place.keep()
    host, before = keeper.host, keeper.host.counts.decided
    parcel = Parcel("client.0.0", "client", how_many())
    for _ in range(INBOX_MAX + 3):
        host.hear(parcel, "")
    assert 3 == host.counts.inbox_lost
    await place.sleep(1)
    assert before + INBOX_MAX == host.counts.decided
    assert 0 == number_of(await place.ask(how_many()))


@virtual
async def test_unexpected_messages_are_counted(place: Place) -> None:
    """A type that the component does not hear is a dead letter: counted, named in a line, and not decided."""
    keeper = await place.keep()
    before = keeper.host.counts.decided
    with capture_logs() as lines:
        place.client.say(SubmitWorkload(WorkloadSpec("job", ()), "user"))
        await place.moment()
    assert 1 == keeper.host.counts.unexpected
    assert before == keeper.host.counts.decided
    assert [("unexpected_message", "SubmitWorkload")] == [(line["event"], line["message"]) for line in lines]


class Refuser(Counter):
    """Says that a claim is refused whenever it decides anything."""

    def decide(self, state: CounterState, envelope: Envelope) -> Decision:
        """What a counter decides, and that."""
        decision = super().decide(state, envelope)
        refused = ClaimAnswered(
            EU, AgentName("a0"), WorkloadId("w-1"), 2, ClaimId("c"), "refused", "bad_claim"
        )
        granted = replace(refused, verdict="granted", reason="")
        return replace(decision, messages=(*decision.messages, granted, refused))


@virtual
async def test_refused_claims_are_told_in_a_line(place: Place) -> None:
    """No log remembers them: operators read who claimed what, and why it was refused."""
    await place.keep(Refuser())
    with capture_logs() as lines:
        await place.ask(how_many())
    (told,) = (line for line in lines if line["event"] == "claim_refused")
    wanted = {"claim": "c", "workload": "w-1", "epoch": "2", "agent": "a0", "reason": "bad_claim"}
    assert wanted.items() <= told.items()


@virtual
async def test_effects_begin_once_durable_and_come_back(place: Place) -> None:
    """A deed is begun when its decision's facts are durable, in order; what comes of it is a message to the component."""
    place.sync = SLOW
    deeds = Deeds(place)
    keeper = await place.keep(Counter(has_effects=True), doer=deeds)
    await place.sleep(1)
    asked = Asked(place)
    for name in ("a", "b", "c"):
        asked.ask(name, count(name))
    await place.sleep(0.04)
    assert [] == deeds.begun
    await place.sleep(0.2)
    assert [KeepFence(1), KeepFence(2), KeepFence(3)] == [deed.effect for deed in deeds.begun]
    assert all(
        deed.durable > deed.effect.sequence for deed in deeds.begun if isinstance(deed.effect, KeepFence)
    )
    assert [1, 2, 3] == keeper.counter.outcomes


@virtual
async def test_large_batch_is_told_in_parts_that_chain(place: Place) -> None:
    """Each part fits an announcement, begins where the one before ended, and has the hashes that the log has."""
    ear = await Ear(place).open()
    await place.keep()
    watcher = place.follow()
    await place.serve()
    await place.moment()
    name = "n" * 1000
    assert 1000 == number_of(await place.ask(count_many(name, 1000)))
    await place.sleep(1)
    parts = ear.facts[1:]
    assert len(parts) == pytest.approx(1000 * 1050 / TOLD_BYTES_MAX, abs=1)
    file = place.file
    first = 2
    for told in parts:
        assert first == told.first
        rows = [
            Row(first + index, fact.at, fact.cause, fact.actor, _about(fact.event), fact.event)
            for index, fact in enumerate(told.facts)
        ]
        assert file.hash_at(first - 1) == told.hash_before
        assert chain(told.hash_before, rows)[-1] == told.hash_after
        first += len(rows)
    assert file.hash_at(1001) == parts[-1].hash_after
    assert 1000 == len(watcher.watcher.names)


@virtual
async def test_many_small_facts_fit_their_announcements(place: Place) -> None:
    """What a fact weighs beside its event counts too: twenty thousand tiny ones with long causes are all told."""
    ear = await Ear(place).open()
    await place.keep()
    place.client.name = "c" * 120
    with capture_logs() as lines:
        assert 20_000 == number_of(await place.ask(count_many("n", 20_000)))
    assert [] == [line for line in lines if line["event"] == "not_said"]
    await place.moment()
    assert 20_000 == sum(len(told.facts) for told in ear.facts[1:])


def _about(event: bytes) -> str:
    decoded = decode_event(event)
    assert not isinstance(decoded, LogOpened)
    return decoded.about


def _note(event: DueSet) -> Fact:
    return Fact(NO_LOG, 0, START, "", "", event)
