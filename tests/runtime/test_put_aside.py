"""A message on which a component fails twice in a row is put aside: the component lives, and the message's workload is held."""

from collections.abc import Callable
from contextlib import suppress
from errno import ENOSPC
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bus.errors import AskTimedOut
from bus.port import Address
from core.codec import Parcel
from core.component import Decision, Effect
from core.effects import KeepFence
from core.messages.agents import FindBid
from core.messages.auditor import ShowAudit
from core.messages.base import (
    BusBack,
    BusLost,
    Envelope,
    LogHeard,
    LogSilent,
    Message,
    Notice,
    Refused,
    Woken,
)
from core.messages.broker import SolicitBid
from core.messages.nodes import CloseNodes, OpenNodes, RecordDomainLoss, UndrainNodes
from core.messages.queue import Acknowledged, CancelWorkload, HoldUnhandled, ShowWorkload, SubmitWorkload
from core.messages.store import SubmitClaim
from core.messages.units import AsideMessage
from core.messages.workers import (
    TasksChanged,
    TasksFound,
    TasksPhase,
    TasksState,
    WorkerBeat,
    WorkerReport,
)
from core.nouns.ids import GLOBAL_LOG, AgentName, TenantName, WorkerName, WorkloadId
from core.nouns.instant import Instant, after, seconds
from core.nouns.limits import ASIDE_SPAN, FACT_BYTES_MAX, SUSPECTS_MAX, SUSPICION_SPAN
from core.nouns.maintenance import ClosureKind, Scope, ScopeKind
from core.nouns.reasons import Reason
from core.rules.message_subject import subject_of_failure, workload_of
from runtime.effects import Doer, Done
from runtime.host_status import HostStatus
from runtime.status.put_aside import Suspects, hold_of
from tests.builders import EU, a_claim, a_spec
from tests.runtime.aids import Counter, CounterState, Place, Running, count, how_many, large_fact, virtual

POISON = "w-13"
BUILD = "1.0"
START = Instant(10**18)


class Failing(Counter):
    """A counter that fails on one name, and can be mended."""

    def __init__(self) -> None:
        super().__init__()
        self.is_mended = False
        self.fails_on = (CancelWorkload, TasksChanged)

    def decide(self, state: CounterState, envelope: Envelope) -> Decision:
        message = envelope.message
        if workload_of(message) == POISON and isinstance(message, self.fails_on) and not self.is_mended:
            raise OverflowError("Python int too large to convert to C long")
        return super().decide(state, envelope)


class Outspoken(Failing):
    """A counter that decides well, and answers what no message can hold, or asks for an effect."""

    def decide(self, state: CounterState, envelope: Envelope) -> Decision:
        match envelope.message:
            case CancelWorkload(workload):
                return Decision(messages=(Acknowledged(workload, 1 << 70),))
            case ShowWorkload():
                return Decision(effects=(KeepFence(1),))
        return super().decide(state, envelope)


class FullDisk:
    """A doer that can do nothing."""

    def attach(self, done: Done) -> None:
        """Nothing ever comes back."""

    def begin(self, effect: Effect) -> None:
        raise OSError(ENOSPC, "No space left on device")


class Lives:
    """A keeper that is started again whenever it dies, as its process would be."""

    def __init__(self, place: Place, suspects: Suspects, component: Failing, doer: Doer | None) -> None:
        self.place = place
        self.component = component
        self.doer = doer
        self.suspects = suspects
        self.deaths: list[BaseException] = []
        self.held: list[HoldUnhandled] = []
        self.dead_letters: list[Parcel] = []
        self._life: Running | None = None

    async def begin(self) -> "Lives":
        """Start the first life, and listen as the queue does, and to the dead letters."""
        ear = self.place.network.endpoint("ear")
        await ear.listen(Address("queue"), self._hear)
        await ear.listen(Address("dead"), lambda parcel, _: self.dead_letters.append(parcel))
        await self._start()
        return self

    @property
    def life(self) -> Running:
        """The present life."""
        assert self._life is not None
        return self._life

    async def hear(self, message: Message) -> Message | None:
        """Say a message; the answer, or None if the keeper died of the message and was started again."""
        answer: Message | None = None
        with suppress(AskTimedOut):
            answer = await self.place.client.ask(message, seconds(1))
        if self.life.failure is not None:
            self.deaths.append(self.life.failure)
            await self._start()
        return answer

    async def take(self, notice: Notice) -> None:
        """Have the host take a notice, and start the keeper again if it died of that."""
        self.life.host.notice(notice)
        await self.place.moment()
        if self.life.failure is not None:
            self.deaths.append(self.life.failure)
            await self._start()

    async def _start(self) -> None:
        if self._life is not None:
            self.place.crash(self._life)
        self._life = await self.place.keep(self.component, self.doer, self.suspects)

    def _hear(self, parcel: Parcel, _: str) -> None:
        if isinstance(parcel.message, HoldUnhandled):
            self.held.append(parcel.message)


async def lives(place: Place, component: Failing | None = None, doer: Doer | None = None) -> Lives:
    """One keeper over its lives."""
    suspects = Suspects(None, BUILD, place.loop.now_ns)
    return await Lives(place, suspects, component or Failing(), doer).begin()


@virtual
async def test_third_message_is_put_aside(place: Place) -> None:
    """It dies of the first and of the second; the third is a dead letter, its workload is held, and other work goes on."""
    keeper = await lives(place)
    assert None is await keeper.hear(count(POISON))
    assert None is await keeper.hear(count(POISON))
    with capture_logs() as lines:
        answer = await keeper.hear(count(POISON))
    assert ["OverflowError", "OverflowError"] == [type(death).__name__ for death in keeper.deaths]
    assert isinstance(answer, Refused)
    assert Reason.UNHANDLED == answer.reason
    [held] = keeper.held
    error = "OverflowError: Python int too large to convert to C long"
    assert (POISON, "queue", "cancel-workload", error) == (
        held.workload,
        held.unit,
        held.message,
        held.error,
    )
    assert [CancelWorkload(WorkloadId(POISON))] == [parcel.message for parcel in keeper.dead_letters]
    told = [line for line in lines if line["event"] == "message_put_aside"]
    assert [("error", f"workload {POISON}")] == [(line["log_level"], line["subject"]) for line in told]
    host = HostStatus(keeper.life.host)
    assert (1, 1) == (host.losses()["put_aside"], keeper.life.bus.counts.dead_letters)
    assert (AsideMessage("cancel-workload", f"workload {POISON}", error, 1),) == host.put_aside()
    assert isinstance(await place.ask(count("w-1")), Acknowledged)


@virtual
async def test_message_that_fails_once_is_not_put_aside(place: Place) -> None:
    """A state that went wrong fails too, and a restart mends it: then nothing is suspected any more."""
    keeper = await lives(place)
    await keeper.hear(count(POISON))
    keeper.component.is_mended = True
    assert isinstance(await keeper.hear(count(POISON)), Acknowledged)
    assert keeper.suspects.is_empty
    keeper.component.is_mended = False
    assert None is await keeper.hear(count(POISON))
    assert 2 == len(keeper.deaths)
    assert () == HostStatus(keeper.life.host).put_aside()


@virtual
async def test_only_the_like_is_put_aside(place: Place) -> None:
    """Another type about the same workload is handled, and so is the same type about another workload."""
    keeper = await lives(place)
    for _ in range(3):
        await keeper.hear(count(POISON))
    assert isinstance(await place.ask(count("w-14")), Acknowledged)
    assert isinstance(await place.ask(how_many(POISON)), Acknowledged)


@virtual
async def test_what_is_put_aside_is_tried_again_after_its_span(place: Place) -> None:
    """One is tried, and its failure puts its like aside again: at most one death an hour."""
    keeper = await lives(place)
    for _ in range(3):
        await keeper.hear(count(POISON))
    await place.sleep(ASIDE_SPAN / 10**9)
    assert None is await keeper.hear(count(POISON))
    assert 3 == len(keeper.deaths)
    assert isinstance(await keeper.hear(count(POISON)), Refused)
    await place.sleep(ASIDE_SPAN / 10**9)
    keeper.component.is_mended = True
    assert isinstance(await keeper.hear(count(POISON)), Acknowledged)
    assert 3 == len(keeper.deaths)


@virtual
async def test_broken_invariant_in_a_decision_counts(place: Place) -> None:
    """A fact that is too large is the message's fault as well."""
    keeper = await lives(place)
    for _ in range(2):
        assert None is await keeper.hear(large_fact(FACT_BYTES_MAX + 1))
    assert isinstance(await keeper.hear(large_fact(FACT_BYTES_MAX + 1)), Refused)
    assert ["BrokenInvariant"] * 2 == [type(death).__name__ for death in keeper.deaths]


@virtual
async def test_failure_after_the_decision_is_not_the_messages_fault(place: Place) -> None:
    """A disk that is full, or an answer that cannot be said, ends the unit each time: no message is suspected of that."""
    keeper = await lives(place, Outspoken(), FullDisk())
    for message in (how_many(), how_many(), how_many(), count("w-1"), count("w-1"), count("w-1")):
        assert None is await keeper.hear(message)
    assert [OSError] * 3 + [OverflowError] * 3 == [type(death) for death in keeper.deaths]
    assert keeper.suspects.is_empty
    assert [] == keeper.dead_letters


def suspects_in(path: Path, build: str = BUILD, at: Instant = START) -> Suspects:
    """Those of a unit whose process has just started."""
    return Suspects(path / "unit.json", build, lambda: at)


def test_failures_outlive_the_process(tmp_path: Path) -> None:
    """They are in a file; another build tries anew, and a damaged file is as none."""
    message = count(POISON)
    suspects_in(tmp_path).blame(message, ValueError("no"))
    suspects_in(tmp_path).blame(message, ValueError("no"))
    assert suspects_in(tmp_path).put_aside(message)
    assert suspects_in(tmp_path, build="1.1").is_empty
    (tmp_path / "unit.json").write_bytes(b"{")
    assert suspects_in(tmp_path).is_empty


def test_disk_that_takes_nothing_stops_nothing(tmp_path: Path) -> None:
    """Then failures are remembered by this life alone."""
    (tmp_path / "unit.json").mkdir()
    suspects = suspects_in(tmp_path)
    for _ in range(2):
        suspects.blame(count(POISON), ValueError("no"))
    assert suspects.put_aside(count(POISON))


def test_suspects_are_bounded() -> None:
    """The oldest makes room."""
    suspects = Suspects(None, BUILD, lambda: START)
    for number in range(SUSPECTS_MAX + 10):
        for _ in range(2):
            suspects.blame(count(f"w-{number}"), ValueError("no"))
    assert SUSPECTS_MAX == len(suspects.told())
    assert not suspects.put_aside(count("w-9"))
    assert suspects.put_aside(count("w-10"))


NOTICES = (
    Woken(),
    LogSilent(GLOBAL_LOG),
    LogHeard(GLOBAL_LOG),
    BusLost(),
    BusBack(),
    TasksFound((TasksState(WorkloadId(POISON), 1, TasksPhase.RUNNING),), 1, 1),
)


@pytest.mark.parametrize("notice", NOTICES, ids=lambda notice: type(notice).__name__)
def test_notices_of_no_workload_are_never_put_aside(notice: Notice) -> None:
    """They are the host's own words, or waited for: a component that fails when it is woken fails until it is mended."""
    suspects = Suspects(None, BUILD, lambda: START)
    for _ in range(3):
        suspects.blame(notice, ValueError("no"))
    assert suspects.is_empty
    assert not suspects.put_aside(notice)


@virtual
async def test_notice_of_a_workload_is_put_aside(place: Place) -> None:
    """A share that changed is no word of the host's own: the unit lives, and the workload is held."""
    keeper = await lives(place)
    notice = TasksChanged(TasksState(WorkloadId(POISON), 1, TasksPhase.RUNNING))
    for _ in range(4):
        await keeper.take(notice)
    assert ["OverflowError"] * 2 == [type(death).__name__ for death in keeper.deaths]
    assert [("tasks-changed", POISON)] * 2 == [(held.message, held.workload) for held in keeper.held]
    assert 2 == HostStatus(keeper.life.host).losses()["put_aside"]


REPEATS: tuple[Callable[[int], Message], ...] = (
    lambda said: CloseNodes(EU, ClosureKind.QUARANTINE, (3,), "failed", True, said),
    lambda said: OpenNodes(EU, ClosureKind.SUSPECT, (3,), "heard again", said),
    lambda said: RecordDomainLoss(EU, "power-0", (WorkerName("w0"), WorkerName("w1")), said),
    lambda said: UndrainNodes(EU, Scope(ScopeKind.NODE, ("3",)), said),
)


@pytest.mark.parametrize("repeat", REPEATS, ids=lambda repeat: type(repeat(0)).__name__)
def test_repeat_that_carries_another_number_is_recognised(repeat: Callable[[int], Message]) -> None:
    """It names no workload and no worker, and each repeat carries the sequence or revision that its sender has seen by then."""
    suspects = Suspects(None, BUILD, lambda: START)
    for said in (100, 101):
        suspects.blame(repeat(said), ValueError("no"))
    assert suspects.put_aside(repeat(102))


def test_messages_of_other_nodes_are_told_apart() -> None:
    """Beside what varies between repeats, all fields count."""
    closed = [CloseNodes(EU, ClosureKind.QUARANTINE, (node,), "failed", True, 7) for node in (3, 4)]
    assert 2 == len({subject_of_failure(message) for message in closed})


def test_queue_that_fails_on_a_hold_asks_for_none() -> None:
    """Otherwise it would ask itself for ever."""
    suspects = Suspects(None, BUILD, lambda: START)
    hold = HoldUnhandled(WorkloadId("w-1"), "queue", "bid", "ValueError", "m-1")
    for _ in range(2):
        suspects.blame(hold, ValueError("no"))
    suspect = suspects.put_aside(hold)
    assert suspect is not None
    assert None is hold_of(hold, "m-2", "queue", suspect)


def test_repeats_have_one_subject() -> None:
    """Two requests for bids of one workload differ by their auctions; two beats of one worker by their order."""
    asked = [
        SolicitBid(EU, WorkloadId("w-1"), auction, (), 0, "training", TenantName("t"))
        for auction in ("a", "b")
    ]
    beats = [WorkerBeat(EU, WorkerName("w0"), (), (1, order), 1) for order in (1, 2)]
    specs = [SubmitWorkload(a_spec(name=name), "ada") for name in ("a", "b")]
    assert ["workload w-1"] * 2 == [subject_of_failure(message) for message in asked]
    assert ["worker w0"] * 2 == [subject_of_failure(message) for message in beats]
    assert 2 == len({subject_of_failure(message) for message in specs})
    assert subject_of_failure(specs[0]) == subject_of_failure(SubmitWorkload(a_spec(name="a"), "ada"))


def test_message_names_its_workload_itself_or_in_what_it_carries() -> None:
    """A request for a bid, a claim and a report carry it one level down; a beat belongs to no workload."""
    claim = a_claim("w-1")
    asked = SolicitBid(EU, WorkloadId("w-1"), "a", (), 0, "training", TenantName("t"))
    carried: list[Message] = [
        asked,
        FindBid(EU, AgentName("a0"), asked),
        SubmitClaim(EU, claim),
        WorkerReport(EU, WorkerName("w0"), TasksState(WorkloadId("w-1"), 1, TasksPhase.RUNNING), (1, 1), 1),
    ]
    assert ["w-1"] * 4 == [workload_of(message) for message in carried]
    assert None is workload_of(WorkerBeat(EU, WorkerName("w0"), (), (1, 1), 1))


def test_span_is_counted_from_the_newest_failure() -> None:
    """A failure after the span begins another."""
    now = START
    suspects = Suspects(None, BUILD, lambda: now)
    for _ in range(2):
        suspects.blame(ShowAudit(), ValueError("no"))
    now = after(START, seconds(3_599))
    assert suspects.put_aside(ShowAudit())
    now = after(START, ASIDE_SPAN)
    assert not suspects.put_aside(ShowAudit())
    suspects.blame(ShowAudit(), ValueError("no"))
    assert suspects.put_aside(ShowAudit())


def test_what_is_put_aside_is_told_for_its_span(tmp_path: Path) -> None:
    """Its workload may be cancelled meanwhile, so that no such message ever comes again: then there is nothing to look at."""
    suspects = suspects_in(tmp_path)
    for _ in range(2):
        suspects.blame(count(POISON), ValueError("no"))
    assert 1 == len(suspects.told())
    assert 1 == len(suspects_in(tmp_path, at=after(START, seconds(3_599))).told())
    assert () == suspects_in(tmp_path, at=after(START, ASIDE_SPAN)).told()


def test_old_failures_leave_the_file(tmp_path: Path) -> None:
    """While the unit lives, when its status is asked for, and at its start."""
    now = START
    suspects = Suspects(tmp_path / "unit.json", BUILD, lambda: now)
    suspects.blame(count(POISON), ValueError("no"))
    kept = (tmp_path / "unit.json").read_bytes()
    now = after(START, SUSPICION_SPAN)
    assert () == suspects.told()
    assert suspects.is_empty
    assert POISON.encode() not in (tmp_path / "unit.json").read_bytes()
    (tmp_path / "unit.json").write_bytes(kept)
    assert suspects_in(tmp_path, at=now).is_empty
    assert POISON.encode() not in (tmp_path / "unit.json").read_bytes()


def test_two_failures_far_apart_are_not_in_a_row() -> None:
    """A year lies between them: nobody could say that the message is at fault."""
    now = START
    suspects = Suspects(None, BUILD, lambda: now)
    suspects.blame(count(POISON), ValueError("no"))
    now = after(START, seconds(365 * 86_400))
    suspects.blame(count(POISON), MemoryError())
    assert not suspects.put_aside(count(POISON))
    now = after(now, seconds(60))
    suspects.blame(count(POISON), MemoryError())
    assert suspects.put_aside(count(POISON))


def test_failure_at_a_clock_that_was_ahead_ends() -> None:
    """A clock that is set right does not make an entry last for as long as it was wrong."""
    now = after(START, seconds(365 * 86_400))
    suspects = Suspects(None, BUILD, lambda: now)
    for _ in range(2):
        suspects.blame(count(POISON), ValueError("no"))
    now = START
    assert not suspects.put_aside(count(POISON))
    assert () == suspects.told()
