"""The region's broker: hands requests to agents, drives granted attempts through workers, and watches both.

It owns nothing: whatever it must do is found in the region's image (which attempts are granted, stopping, promised) and in
what workers report, so a broker that is killed and started again goes on where the log stands. It never places: an
attempt's end goes back to the queue.

Each attempt that needs a word is on the agenda; the word is said again until the log or a report shows that it was heard.
What the words are is in components/region_broker/gangs.py, and for tasks that stand alone in components/region_broker/service_tasks.py.
"""

from collections.abc import Callable, Sequence

from components.region_broker.gangs import Known, commands_for
from components.region_broker.node_health import (
    ChecksAsked,
    HealthWords,
    Ill,
    NodeHealth,
    NodesAccused,
    WorkersWatched,
)
from components.region_broker.service_tasks import care_for_tasks
from components.region_broker.task_timers import TasksAttended, Watches
from components.region_broker.worker_reports import ReportedShares, words_for_report
from core.agenda import Agenda
from core.component import NOTHING, Decision, Follow, ImageAdopted, Images
from core.events.control import DomainLost
from core.events.region import (
    AttemptEnded,
    AwardDeclined,
    ClaimGranted,
    ClaimPromised,
    GangStarted,
    NodesLost,
)
from core.fact import NO_LOG, Event, Fact, Note
from core.images import RegionImage
from core.images.region import AttemptPhase
from core.messages.agents import AgentPresent, FindBid, PlaceAward, PresenceWanted
from core.messages.base import BusBack, BusLost, Envelope, Message, Woken
from core.messages.broker import ExecuteAward, SolicitBid, StopAttempt, WithdrawAward
from core.messages.store import DeclineAward, OrderStop, RecordJoin, RecordReturn
from core.messages.workers import (
    BeatHeard,
    InventoryWanted,
    NodesChecked,
    TasksPhase,
    TasksState,
    WorkerBeat,
    WorkerInventory,
    WorkerReport,
)
from core.nouns.ids import AgentName, AttemptKey, LogName, RegionName, WorkerName, region_log
from core.nouns.instant import Instant, after, earliest
from core.nouns.limits import HEAD_INTERVAL, PRESENCE_SILENCE_MAX, STRIPE_SPAN
from core.nouns.reasons import Reason

SECTIONS = ("attempts", "capacity", "control", "maintenance", "preemption")


class AgentSeen(Note, frozen=True):
    """An agent showed that it is there."""

    agent: AgentName


class WorkerSeen(Note, frozen=True):
    """A worker reported."""

    worker: WorkerName
    is_whole: bool
    tasks: tuple[TasksState, ...]
    order: tuple[int, int]
    ill: Ill | None = None
    """What a beat says of its nodes; None: it was no beat."""


class Handed(Note, frozen=True):
    """A request for a bid was handed to an agent; the next one is the next agent's."""


class Attended(Note, frozen=True):
    """An attempt was cared for; it is looked at again then, if at all."""

    key: AttemptKey
    again_at: Instant | None


class PresenceAsked(Note, frozen=True):
    """Everybody was asked to show that they are there."""


class BusSeen(Note, frozen=True):
    """Whether the broker's own round trip works: nobody's silence counts while it does not, and then from zero."""

    is_back: bool


class BrokerState:
    """The region's image, who was heard when, and what each worker last said of each attempt."""

    def __init__(self, at: Instant) -> None:
        self.image = RegionImage.empty(SECTIONS)
        self.sequence = 0
        self.agents: dict[AgentName, Instant] = {}
        self.handed = 0
        self.health = NodeHealth(at)
        self.orders: dict[WorkerName, tuple[int, int]] = {}
        """Of each worker's newest report."""
        self.counted: dict[WorkerName, None] = {}
        """Workers whose whole report was heard since the image was adopted."""
        self.shares = ReportedShares()
        self.first_seen: dict[AttemptKey, Instant] = {}
        """When this broker first folded or found the attempt: what its deadlines count from."""
        self.watches = Watches()
        self.attempts_due: Agenda[AttemptKey] = Agenda()
        self.ask_at: Instant | None = at
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
        NodesChecked,
        BusLost,
        BusBack,
    )

    def __init__(self, region: RegionName) -> None:
        self.region = region
        self.name = f"broker.{region}"
        self.noun = "broker"
        self.scope = (region,)
        self.follows = (Follow(region_log(region), SECTIONS),)
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
            NodesChecked: self._nodes_checked,
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
        return earliest(state.attempts_due.due(), state.health.due(), state.ask_at)

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
            case TasksAttended(key):
                state.attempts_due.drop(key)
                state.watches.tasks[key].attended(fact.event, fact.at)
                self._look(state, key, fact.at)
            case WorkersWatched() | NodesAccused() | ChecksAsked():
                state.health.note(fact.event)
            case PresenceAsked():
                state.ask_at = after(fact.at, HEAD_INTERVAL) if not state.agents else None
            case BusSeen(is_back):
                state.health.bus_seen(state.image.capacity, fact.at, is_back=is_back)
            case ImageAdopted(_, image, sequence):
                assert isinstance(image, RegionImage)
                self._adopt(state, image, sequence, fact.at)
        return state

    def _adopt(self, state: BrokerState, image: RegionImage, sequence: int, at: Instant) -> None:
        state.image = image
        state.sequence = sequence
        state.counted = {}
        state.attempts_due = Agenda()
        state.watches.adopt(image, at)
        for key in image.attempts.all_keys():
            row = image.attempts.row(*key)
            assert row is not None, key
            if row.phase.is_live or row.phase == AttemptPhase.PROMISED:
                state.first_seen.setdefault(key, at)
                state.attempts_due.put(key, at)
        state.health.adopt(image.capacity, at)

    def _index(self, state: BrokerState, fact: Fact) -> None:
        now = fact.heard_at
        state.health.fold(state.image.capacity, fact)
        assert isinstance(fact.event, Event), fact
        for key in state.watches.fold(state.image, fact.event, now):
            self._look(state, key, now)
        match fact.event:
            case (
                ClaimGranted(workload=workload, epoch=epoch)
                | ClaimPromised(workload=workload, epoch=epoch)
                | GangStarted(workload=workload, epoch=epoch)
            ):
                state.first_seen[workload, epoch] = now
                self._look(state, (workload, epoch), now)
            case AttemptEnded(workload=workload, epoch=epoch) | AwardDeclined(workload=workload, epoch=epoch):
                state.first_seen.pop((workload, epoch), None)
                state.attempts_due.drop((workload, epoch))
                if state.shares.of((workload, epoch)):
                    state.attempts_due.put((workload, epoch), now)  # Its workers are to be told.
            case NodesLost(worker=worker):
                self._look_at_all_on(state, (worker,), now)
            case DomainLost(workers=workers):
                self._look_at_all_on(state, workers, now)

    def _look(self, state: BrokerState, key: AttemptKey, at: Instant) -> None:
        """Look at an attempt: at once, or when what has changed of its tasks is due."""
        watch = state.watches.tasks.get(key)
        due = at if watch is None else watch.next_at()
        if due is not None:
            state.attempts_due.put(key, due)

    def _look_at_all_on(self, state: BrokerState, workers: tuple[WorkerName, ...], now: Instant) -> None:
        worker_of, lost = state.image.capacity.worker_of, frozenset(workers)
        for workload, epoch, held in state.image.capacity.live():
            if any(worker_of[node] in lost for spread in held.claim.spreads for node in spread.nodes):
                self._look(state, (workload, epoch), now)
        for workload, epochs in state.image.capacity.promises.items():
            for epoch in epochs:
                state.attempts_due.put((workload, epoch), now)

    # What workers report.

    def _worker_seen(self, state: BrokerState, seen: WorkerSeen, at: Instant) -> None:
        worker = seen.worker
        state.orders[worker] = seen.order
        state.health.hear(state.image.capacity, worker, at, seen.ill)
        changed = [share for share in seen.tasks if state.shares.put(worker, share)]
        if seen.is_whole:
            is_first = worker not in state.counted
            state.counted[worker] = None
            there = {share.key for share in seen.tasks}
            changed.extend(state.shares.miss(state.image, state.watches, worker, there, is_first=is_first))
        for share in changed:
            self._share_changed(state, share, at)

    def _share_changed(self, state: BrokerState, share: TasksState, at: Instant) -> None:
        """What is of no live attempt was answered as it was reported."""
        key = share.key.attempt
        watch = state.watches.tasks.get(key)
        if watch is not None and share.task in watch.seen:
            watch.look(share.task, at)
            self._look(state, key, at)
        elif watch is None and state.image.capacity.holding(*key) is not None:
            state.attempts_due.put(key, at)

    # Requests of the queue.

    def _solicit(self, state: BrokerState, envelope: Envelope) -> Decision:
        request = envelope.message
        assert isinstance(request, SolicitBid)
        agents = self._agents(state, envelope.at)
        if not agents:
            return NOTHING  # The auction closes without this region, and is opened again.
        agent = agents[state.handed % len(agents)]
        found = FindBid(self.region, agent, request, *stripe_of(agents, agent, envelope.at))
        return Decision(events=(Handed(),), messages=(found,))

    def _award(self, state: BrokerState, envelope: Envelope) -> Decision:
        award = envelope.message
        assert isinstance(award, ExecuteAward)
        if state.image.attempts.row(award.workload, award.epoch) is not None:
            return NOTHING  # The queue is about to read it in the log.
        agents = self._agents(state, envelope.at)
        if not agents:
            return NOTHING  # The queue says it again.
        agent = award.agent if award.agent in agents else agents[state.handed % len(agents)]
        return Decision(
            messages=(PlaceAward(self.region, agent, award, *stripe_of(agents, agent, envelope.at)),)
        )

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
        is_back = row is not None and row.is_lost and has_ended
        if is_back and state.health.may_return(state.image.capacity, beat.worker, envelope.at):
            messages.append(RecordReturn(self.region, beat.worker, state.sequence))
        ill = row.inventory.ailing(beat.ill) if row is not None else ()
        if ill:
            words = self._health_words(state, envelope.at)
            words.close_ill(beat.worker, ill)
            messages.extend(words.messages)
        seen = WorkerSeen(beat.worker, is_whole=True, tasks=beat.tasks, order=beat.order, ill=ill)
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

    def _nodes_checked(self, state: BrokerState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, NodesChecked)
        words = self._health_words(state, envelope.at)
        words.checked(message)
        return Decision(messages=tuple(words.messages))

    def _bus_lost(self, state: BrokerState, envelope: Envelope) -> Decision:
        return Decision(events=(BusSeen(is_back=False),))

    def _bus_back(self, state: BrokerState, envelope: Envelope) -> Decision:
        return Decision(events=(BusSeen(is_back=True),))

    # Time.

    def _woken(self, state: BrokerState, envelope: Envelope) -> Decision:
        now = envelope.at
        events: list[Note] = []
        messages: list[Message] = []
        agents = self._agents(state, now)
        for key in state.attempts_due.passed(now):
            note, asks_agent, words = self._care(state, key, agents, now)
            messages.extend(words)
            events.append(note)
            if asks_agent:
                events.append(Handed())
        health = self._health_words(state, now)
        health.look()
        events.extend(health.notes)
        messages.extend(health.messages)
        if state.ask_at is not None and state.ask_at <= now:
            events.append(PresenceAsked())
            messages.append(PresenceWanted(self.region, state.life))
        return Decision(tuple(events), tuple(messages))

    def _care(
        self, state: BrokerState, key: AttemptKey, agents: list[AgentName], now: Instant
    ) -> tuple[Note, bool, tuple[Message, ...]]:
        """What an attempt calls for, and whether the next agent is to look for room for it."""
        seen, shares, watches = state.first_seen.get(key, now), state.shares.of(key), state.watches
        about = (self.region, state.image, state.sequence, key)
        if key in watches.tasks:
            agent = agents[state.handed % len(agents)] if agents else None
            alone = care_for_tasks(*about, watches, shares, seen, agent, now)
            return alone.note, alone.has_asked_agent, alone.messages
        known = Known(shares, seen, watches.gangs.get(key, seen), watches.lost_at)
        commands = commands_for(*about, known, now)
        return Attended(key, commands.again_at), False, commands.messages

    def _health_words(self, state: BrokerState, now: Instant) -> HealthWords:
        return HealthWords(self.region, state.image.capacity, state.sequence, state.health, now)


def stripe_of(agents: Sequence[AgentName], agent: AgentName, now: Instant) -> tuple[int, int]:
    """Which pods an agent is to look at first, and of how many such sets: each agent has another one, and in turn each.

    source    ParSync: different partitions for different schedulers at any moment, and all of them for each in time
    """
    return (agents.index(agent) + now // STRIPE_SPAN) % len(agents), len(agents)
