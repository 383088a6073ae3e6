"""The region's broker: hands requests to agents, drives granted attempts through workers, and watches both.

It owns nothing: whatever it must do is found in the region's image (which attempts are granted, stopping, promised) and in
what workers report, so a broker that is killed and started again goes on where the log stands. It never places: an
attempt's end goes back to the queue.

Each attempt that needs a word is on the agenda; the word is said again until the log or a report shows that it was heard.
What the words are is in components/attempt_care.py.
"""

from collections.abc import Callable

from components.attempt_care import Care, Shares, care_for, words_for_report
from core.agenda import Agenda
from core.component import NOTHING, Decision, Follow, ImageAdopted, Images
from core.events.region import (
    AttemptEnded,
    AwardDeclined,
    CheckpointCommitted,
    ClaimGranted,
    ClaimPromised,
    GangStarted,
    NodesJoined,
    NodesLost,
    NodesReturned,
    StopOrdered,
)
from core.fact import NO_LOG, Fact, Note
from core.images import RegionImage
from core.images.region import AttemptPhase
from core.messages.agents import AgentPresent, FindBid, PlaceAward, PresenceWanted
from core.messages.base import BusBack, BusLost, Envelope, Message, Woken
from core.messages.broker import ExecuteAward, SolicitBid, StopAttempt, WithdrawAward
from core.messages.store import DeclineAward, OrderStop, RecordJoin, RecordLoss, RecordReturn
from core.messages.workers import (
    BeatHeard,
    InventoryWanted,
    TasksPhase,
    TasksState,
    WorkerBeat,
    WorkerInventory,
    WorkerReport,
)
from core.nouns.ids import AgentName, AttemptKey, LogName, RegionName, WorkerName, region_log
from core.nouns.instant import Instant, Nanoseconds, after, earliest
from core.nouns.limits import COMMAND_SAY_AGAIN, HEAD_INTERVAL, PRESENCE_SILENCE_MAX
from core.nouns.reasons import Reason


class AgentSeen(Note, frozen=True):
    """An agent showed that it is there."""

    agent: AgentName


class WorkerSeen(Note, frozen=True):
    """A worker reported."""

    worker: WorkerName
    is_whole: bool
    tasks: tuple[TasksState, ...]
    order: tuple[int, int]


class Handed(Note, frozen=True):
    """A request for a bid was handed to an agent; the next one is the next agent's."""


class Attended(Note, frozen=True):
    """An attempt was cared for; it is looked at again then, if at all."""

    key: AttemptKey
    again_at: Instant | None


class WorkerWatched(Note, frozen=True):
    """A worker's silence or return was acted on; it is looked at again then."""

    worker: WorkerName
    again_at: Instant


class PresenceAsked(Note, frozen=True):
    """Everybody was asked to show that they are there."""


class BusSeen(Note, frozen=True):
    """Whether the broker's own round trip works: nobody's silence counts while it does not, and then from zero."""

    is_back: bool


class BrokerState:
    """The region's image, who was heard when, and what each worker last said of each attempt."""

    def __init__(self, at: Instant) -> None:
        self.image = RegionImage.empty(("attempts", "capacity"))
        self.sequence = 0
        self.agents: dict[AgentName, Instant] = {}
        self.handed = 0
        self.heard: dict[WorkerName, Instant] = {}
        self.orders: dict[WorkerName, tuple[int, int]] = {}
        """Of each worker's newest report."""
        self.counted: dict[WorkerName, None] = {}
        """Workers whose whole report was heard since the image was adopted."""
        self.shares: Shares = {}
        self.first_seen: dict[AttemptKey, Instant] = {}
        """When this broker first folded or found the attempt: what its deadlines count from."""
        self.attempts_due: Agenda[AttemptKey] = Agenda()
        self.workers_due: Agenda[WorkerName] = Agenda()
        self.ask_at: Instant | None = at
        self.is_bus_lost = False
        self.life = int(at)
        """Told apart from this broker's lives before by when it began."""


class RegionBroker:
    """The broker of one region."""

    keeps: LogName | None = None
    hears: tuple[type[Message], ...] = (
        SolicitBid,
        ExecuteAward,
        WithdrawAward,
        StopAttempt,
        AgentPresent,
        WorkerBeat,
        WorkerReport,
        WorkerInventory,
        BusLost,
        BusBack,
    )

    def __init__(self, region: RegionName) -> None:
        self.region = region
        self.name = f"broker.{region}"
        self.noun = "broker"
        self.scope = (region,)
        self.follows = (Follow(region_log(region), ("attempts", "capacity")),)
        self._deciders: dict[type[Message], Callable[[BrokerState, Envelope], Decision]] = {
            Woken: self._woken,
            SolicitBid: self._solicit,
            ExecuteAward: self._award,
            WithdrawAward: self._withdraw,
            StopAttempt: self._stop,
            AgentPresent: self._agent_present,
            WorkerBeat: self._beat,
            WorkerReport: self._report,
            WorkerInventory: self._inventory,
            BusLost: self._bus_lost,
            BusBack: self._bus_back,
        }

    def initial(self, images: Images) -> BrokerState:
        """Every live attempt is to be looked at; every worker's silence counts from now."""
        state = BrokerState(images.at)
        for image, sequence in images.followed.values():
            assert isinstance(image, RegionImage)
            self._adopt(state, image, sequence, images.at)
        return state

    def due(self, state: BrokerState) -> Instant | None:
        """The next attempt or worker to look at."""
        return earliest(state.attempts_due.due(), state.workers_due.due(), state.ask_at)

    def decide(self, state: BrokerState, envelope: Envelope) -> Decision:
        """Hand on, or do what the image calls for."""
        decider = self._deciders.get(type(envelope.message))
        return decider(state, envelope) if decider else NOTHING

    # Folding.

    def evolve(self, state: BrokerState, fact: Fact) -> BrokerState:
        """Fold one fact of the region, or one note."""
        if fact.log != NO_LOG:
            state.image.fold(fact)
            state.sequence = fact.sequence
            self._index(state, fact)
            return state
        match fact.event:
            case AgentSeen(agent):
                state.agents[agent] = fact.at
                state.ask_at = None
            case WorkerSeen():
                self._worker_seen(state, fact.event, fact.at)
            case Handed():
                state.handed += 1
            case Attended(key, again_at):
                if again_at is None:
                    state.attempts_due.drop(key)
                else:
                    state.attempts_due.put(key, again_at)
            case WorkerWatched(worker, again_at):
                state.workers_due.put(worker, again_at)
            case PresenceAsked():
                state.ask_at = after(fact.at, HEAD_INTERVAL) if not state.agents else None
            case BusSeen(is_back):
                state.is_bus_lost = not is_back
                self._count_silence_from(state, fact.at)
            case ImageAdopted(_, image, sequence):
                assert isinstance(image, RegionImage)
                self._adopt(state, image, sequence, fact.at)
        return state

    def _adopt(self, state: BrokerState, image: RegionImage, sequence: int, at: Instant) -> None:
        state.image = image
        state.sequence = sequence
        state.counted = {}
        state.attempts_due = Agenda()
        state.workers_due = Agenda()
        for key in image.attempts.all_keys():
            row = image.attempts.row(*key)
            assert row is not None, key
            if row.phase.is_live or row.phase == AttemptPhase.PROMISED:
                state.first_seen.setdefault(key, at)
                state.attempts_due.put(key, at)
        self._count_silence_from(state, at)

    def _count_silence_from(self, state: BrokerState, at: Instant) -> None:
        for worker in state.image.capacity.workers:
            state.heard[worker] = at
            state.workers_due.put(worker, after(at, PRESENCE_SILENCE_MAX))

    def _index(self, state: BrokerState, fact: Fact) -> None:
        now = fact.heard_at
        match fact.event:
            case ClaimGranted(workload=workload, epoch=epoch) | ClaimPromised(workload=workload, epoch=epoch):
                state.first_seen[workload, epoch] = now
                state.attempts_due.put((workload, epoch), now)
            case GangStarted(workload=workload, epoch=epoch):
                state.first_seen[workload, epoch] = now
                state.attempts_due.put((workload, epoch), now)
            case (
                StopOrdered(workload=workload, epoch=epoch)
                | CheckpointCommitted(workload=workload, epoch=epoch)
            ):
                state.attempts_due.put((workload, epoch), now)
            case AttemptEnded(workload=workload, epoch=epoch) | AwardDeclined(workload=workload, epoch=epoch):
                state.first_seen.pop((workload, epoch), None)
                state.attempts_due.drop((workload, epoch))
                if state.shares.get((workload, epoch)):
                    state.attempts_due.put((workload, epoch), now)  # Its workers are to be told.
            case NodesJoined(worker=worker) | NodesReturned(worker=worker):
                state.heard[worker] = now
                state.workers_due.put(worker, after(now, PRESENCE_SILENCE_MAX))
            case NodesLost(worker=worker):
                self._look_at_all_on(state, worker, now)

    def _look_at_all_on(self, state: BrokerState, worker: WorkerName, now: Instant) -> None:
        worker_of = state.image.capacity.worker_of
        for workload, epoch, held in state.image.capacity.live():
            if any(worker_of[node] == worker for spread in held.claim.spreads for node in spread.nodes):
                state.attempts_due.put((workload, epoch), now)
        for workload, epochs in state.image.capacity.promises.items():
            for epoch in epochs:
                state.attempts_due.put((workload, epoch), now)

    def _worker_seen(self, state: BrokerState, seen: WorkerSeen, at: Instant) -> None:
        worker = seen.worker
        state.heard[worker] = at
        state.orders[worker] = seen.order
        row = state.image.capacity.workers.get(worker)
        if row is not None and not row.is_lost and worker not in state.workers_due:
            state.workers_due.put(worker, after(at, PRESENCE_SILENCE_MAX))
        for share in seen.tasks:
            key = (share.workload, share.epoch)
            known = state.shares.setdefault(key, {})
            if known.get(worker) != share:
                known[worker] = share
                state.attempts_due.put(key, at)
        if seen.is_whole:
            there = {(share.workload, share.epoch) for share in seen.tasks}
            self._drop_what_is_gone(state, worker, there, at)
            if worker not in state.counted:
                state.counted[worker] = None
                self._end_what_never_came(state, worker, there, at)

    def _end_what_never_came(
        self, state: BrokerState, worker: WorkerName, there: set[AttemptKey], at: Instant
    ) -> None:
        """At a worker's first whole report: what the log shows started on it, and it does not have, has ended."""
        capacity = state.image.capacity
        for workload, epoch, held in capacity.live():
            if not held.started_at or (workload, epoch) in there:
                continue
            if any(
                capacity.worker_of[node] == worker for spread in held.claim.spreads for node in spread.nodes
            ):
                known = state.shares.setdefault((workload, epoch), {})
                known[worker] = TasksState(workload, epoch, TasksPhase.ENDED, exit_code=-1)
                state.attempts_due.put((workload, epoch), at)

    def _drop_what_is_gone(
        self, state: BrokerState, worker: WorkerName, there: set[AttemptKey], at: Instant
    ) -> None:
        """A share that ran and is no longer in a whole report ended without a word: its node started anew."""
        for key in [key for key, known in state.shares.items() if worker in known and key not in there]:
            known = state.shares[key]
            row = state.image.attempts.row(*key)
            if row is None or not row.phase.is_live:
                del known[worker]
                if not known:
                    del state.shares[key]
            elif known[worker].phase != TasksPhase.PREPARED:
                known[worker] = TasksState(*key, TasksPhase.ENDED, known[worker].saved_step, exit_code=-1)
                state.attempts_due.put(key, at)
            else:
                del known[worker]  # It was only prepared: it is prepared again.
                state.attempts_due.put(key, at)

    # Requests of the queue.

    def _solicit(self, state: BrokerState, envelope: Envelope) -> Decision:
        request = envelope.message
        assert isinstance(request, SolicitBid)
        agents = self._agents(state, envelope.at)
        if not agents:
            return NOTHING  # The auction closes without this region, and is opened again.
        agent = agents[state.handed % len(agents)]
        return Decision(events=(Handed(),), messages=(FindBid(self.region, agent, request),))

    def _award(self, state: BrokerState, envelope: Envelope) -> Decision:
        award = envelope.message
        assert isinstance(award, ExecuteAward)
        if state.image.attempts.row(award.workload, award.epoch) is not None:
            return NOTHING  # The queue is about to read it in the log.
        agents = self._agents(state, envelope.at)
        if not agents:
            return NOTHING  # The queue says it again.
        agent = award.agent if award.agent in agents else agents[state.handed % len(agents)]
        return Decision(messages=(PlaceAward(self.region, agent, award),))

    def _withdraw(self, state: BrokerState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, WithdrawAward)
        row = state.image.attempts.row(message.workload, message.epoch)
        if row is not None and (row.phase != AttemptPhase.PROMISED or message.is_overdue):
            return NOTHING
        decline = DeclineAward(
            self.region, message.workload, message.epoch, message.award_sequence, Reason.WITHDRAWN
        )
        return Decision(messages=(decline,))

    def _stop(self, state: BrokerState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, StopAttempt)
        row = state.image.attempts.row(message.workload, message.epoch)
        if row is None or not row.phase.is_live or row.stop_cause:
            return NOTHING
        return Decision(messages=(OrderStop(self.region, message.workload, message.epoch, message.cause),))

    def _agents(self, state: BrokerState, now: Instant) -> list[AgentName]:
        """Those heard lately, by name."""
        return sorted(agent for agent, at in state.agents.items() if after(at, PRESENCE_SILENCE_MAX) > now)

    # Reports.

    def _agent_present(self, state: BrokerState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, AgentPresent)
        return Decision(events=(AgentSeen(message.agent),))

    def _beat(self, state: BrokerState, envelope: Envelope) -> Decision:
        beat = envelope.message
        assert isinstance(beat, WorkerBeat)
        if self._is_old(state, beat.worker, beat.order):
            return NOTHING
        if beat.life != state.life:
            # Said to another life of this broker, who knows when: it is believed once it comes back with this one's.
            return Decision(
                messages=(BeatHeard(self.region, beat.worker, state.sequence, beat.order, state.life),)
            )
        messages: list[Message] = [
            BeatHeard(self.region, beat.worker, state.sequence, beat.order, state.life)
        ]
        row = state.image.capacity.workers.get(beat.worker)
        if row is None:
            messages.append(InventoryWanted(self.region, beat.worker))
        for share in beat.tasks:
            messages.extend(words_for_report(self.region, state.image, state.sequence, beat.worker, share))
        has_ended = all(share.phase == TasksPhase.ENDED for share in beat.tasks)
        if row is not None and row.is_lost and has_ended:
            messages.append(RecordReturn(self.region, beat.worker, state.sequence))
        seen = WorkerSeen(beat.worker, is_whole=True, tasks=beat.tasks, order=beat.order)
        return Decision((seen,), tuple(messages))

    def _report(self, state: BrokerState, envelope: Envelope) -> Decision:
        report = envelope.message
        assert isinstance(report, WorkerReport)
        if self._is_old(state, report.worker, report.order) or report.life != state.life:
            return NOTHING
        seen = WorkerSeen(report.worker, is_whole=False, tasks=(report.tasks,), order=report.order)
        if report.tasks.phase == TasksPhase.STOPPING:
            # It has heard the order. To say it at every report, which is how a worker answers it, would go on as fast as
            # the bus carries it; it is said again at the next beat.
            return Decision((seen,))
        words = words_for_report(self.region, state.image, state.sequence, report.worker, report.tasks)
        return Decision((seen,), words)

    def _is_old(self, state: BrokerState, worker: WorkerName, order: tuple[int, int]) -> bool:
        """A repeat that came late: it was so once, and may not be so now."""
        return order <= state.orders.get(worker, (-1, 0))

    def _inventory(self, state: BrokerState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, WorkerInventory)
        if message.worker in state.image.capacity.workers:
            return NOTHING
        return Decision(messages=(RecordJoin(self.region, message.inventory),))

    def _bus_lost(self, state: BrokerState, envelope: Envelope) -> Decision:
        return Decision(events=(BusSeen(is_back=False),))

    def _bus_back(self, state: BrokerState, envelope: Envelope) -> Decision:
        return Decision(events=(BusSeen(is_back=True),))

    # Time.

    def _woken(self, state: BrokerState, envelope: Envelope) -> Decision:
        now = envelope.at
        events: list[Note] = []
        messages: list[Message] = []
        for key in state.attempts_due.passed(now):
            care = self._care(state, key, now)
            messages.extend(care.messages)
            events.append(Attended(key, care.again_at))
        for worker in state.workers_due.passed(now):
            watched, said = self._watch(state, worker, now)
            events.append(watched)
            messages.extend(said)
        if state.ask_at is not None and state.ask_at <= now:
            events.append(PresenceAsked())
            messages.append(PresenceWanted(self.region, state.life))
        return Decision(tuple(events), tuple(messages))

    def _care(self, state: BrokerState, key: AttemptKey, now: Instant) -> Care:
        seen = state.first_seen.get(key, now)
        return care_for(self.region, state.image, state.sequence, key, state.shares.get(key, {}), seen, now)

    def _watch(
        self, state: BrokerState, worker: WorkerName, now: Instant
    ) -> tuple[WorkerWatched, list[Message]]:
        """Silent for too long is lost, and said again until the log shows it."""
        row = state.image.capacity.workers[worker]
        silent_at = after(state.heard.get(worker, now), PRESENCE_SILENCE_MAX)
        if row.is_lost or state.is_bus_lost:
            return WorkerWatched(worker, after(now, PRESENCE_SILENCE_MAX)), []
        if silent_at > now:
            return WorkerWatched(worker, silent_at), []
        again: Nanoseconds = COMMAND_SAY_AGAIN
        return WorkerWatched(worker, after(now, again)), [RecordLoss(self.region, worker, state.sequence)]
