"""The region's broker: hands requests to agents, drives granted attempts through workers, and watches agents and workers.

The broker keeps no log. All work follows from the region's image (which attempts are granted, stopping or promised) and
from the reports of workers, so a restarted broker continues where the log stands. The broker never searches for nodes:
agents do, and after an attempt's end the queue decides where the workload runs next.

An attempt that needs a command is on the agenda; the command is repeated until the log or a report shows its effect. The
commands of gangs are derived in components/region_broker/gangs.py, those of independent tasks in
components/region_broker/service_tasks.py.
"""

from collections.abc import Callable

from components.region_broker.agents import able_agents, agents_shown, needs_full_agent
from components.region_broker.gangs import Known, commands_for
from components.region_broker.lending import LENDERS_AT_ONCE, LentSaid, words_of
from components.region_broker.node_health import (
    ChecksAsked,
    HealthWords,
    NodesAccused,
    WorkersWatched,
)
from components.region_broker.service_tasks import care_for_tasks
from components.region_broker.state import (
    SECTIONS,
    AgentSeen,
    Attended,
    BrokerState,
    BusSeen,
    Handed,
    PresenceAsked,
    ShapeHandedBack,
    WorkerSeen,
)
from components.region_broker.task_timers import TasksAttended
from components.region_broker.worker_reports import words_for_report
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
from core.messages.agents import (
    AgentPresent,
    AwardHandedBack,
    FindBid,
    PlaceAward,
    PresenceWanted,
    RequestHandedBack,
    ShowAgents,
)
from core.messages.base import BusBack, BusLost, Envelope, Message, Woken
from core.messages.broker import ExecuteAward, SolicitBid, StopAttempt, WithdrawAward
from core.messages.store import DeclineAward, OrderStop, RecordJoin, RecordReturn
from core.messages.workers import (
    BeatHeard,
    InventoryWanted,
    NodesChecked,
    PartOfBeat,
    TasksPhase,
    WorkerBeat,
    WorkerInventory,
    WorkerReport,
)
from core.nouns.ids import AgentName, AttemptKey, LogName, RegionName, WorkerName, region_log
from core.nouns.instant import Instant, after, earliest
from core.nouns.limits import (
    HEAD_INTERVAL,
    PRESENCE_SILENCE_MAX,
)
from core.nouns.reasons import Reason
from core.placing.partitions import full_of, turn_of
from core.rules.agents.full import shape_of


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
        RequestHandedBack,
        AwardHandedBack,
        ShowAgents,
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
            PartOfBeat: self._beat,
            WorkerReport: self._report,
            WorkerInventory: self._inventory,
            NodesChecked: self._nodes_checked,
            BusLost: self._bus_lost,
            BusBack: self._bus_back,
            RequestHandedBack: self._request_handed_back,
            AwardHandedBack: self._award_handed_back,
            ShowAgents: self._show_agents,
        }

    def initial(self, images: Images) -> BrokerState:
        """Return a state in which every live attempt is due and every worker's silence counts from now."""
        state = BrokerState(images.at)
        for image, sequence in images.followed.values():
            assert isinstance(image, RegionImage)
            self._adopt(state, image, sequence, images.at)
        return state

    def due(self, state: BrokerState) -> Instant | None:
        """Return the next instant at which an attempt, a worker or a request for presence is due."""
        return earliest(state.attempts_due.due(), state.lenders.due.due(), state.health.due(), state.ask_at)

    def decide(self, state: BrokerState, envelope: Envelope) -> Decision:
        """Hand a request to an agent, or return the commands and records that the image calls for."""
        decider = self._deciders.get(type(envelope.message))
        return decider(state, envelope) if decider else NOTHING

    # Folding.

    def evolve(self, state: BrokerState, fact: Fact) -> BrokerState:
        """Fold one fact of the region, or one note."""
        if fact.log != NO_LOG:
            harvested = state.image.harvest.touched_by(fact)
            state.image.fold(fact)
            state.lenders.touched(state.image, harvested, fact.heard_at)
            state.sequence = fact.sequence
            self._index(state, fact)
            return state
        match fact.event:
            case AgentSeen(agent, figures):
                state.agent_seen(agent, figures, fact.at)
                state.ask_at = None
            case WorkerSeen():
                self._worker_seen(state, fact.event, fact.at)
            case Handed():
                state.handed += 1
            case ShapeHandedBack(shape):
                state.shape_handed_back(shape, fact.at)
            case Attended(key, again_at):
                if again_at is None:
                    state.attempts_due.drop(key)
                else:
                    state.attempts_due.put(key, again_at)
            case TasksAttended(key):
                state.attempts_due.drop(key)
                state.watches.tasks[key].attended(fact.event, fact.at)
                state.look(key, fact.at)
            case WorkersWatched() | NodesAccused() | ChecksAsked():
                state.health.note(fact.event)
            case LentSaid():
                state.lenders.said(fact.event)
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
        state.lenders.adopt(image, at)
        known, state.first_seen = state.first_seen, {}
        for key in image.attempts.all_keys():
            row = image.attempts.row(*key)
            assert row is not None, key
            if row.phase.is_live or row.phase == AttemptPhase.PROMISED:
                state.first_seen[key] = known.get(key, at)
                state.attempts_due.put(key, at)
        state.health.adopt(image.capacity, at)

    def _index(self, state: BrokerState, fact: Fact) -> None:
        now = fact.heard_at
        state.health.fold(state.image.capacity, fact)
        assert isinstance(fact.event, Event), fact
        for key in state.watches.fold(state.image, fact.event, now):
            state.look(key, now)
        match fact.event:
            case (
                ClaimGranted(workload=workload, epoch=epoch)
                | ClaimPromised(workload=workload, epoch=epoch)
                | GangStarted(workload=workload, epoch=epoch)
            ):
                state.first_seen[workload, epoch] = now
                state.look((workload, epoch), now)
            case AttemptEnded(workload=workload, epoch=epoch) | AwardDeclined(workload=workload, epoch=epoch):
                state.first_seen.pop((workload, epoch), None)
                state.attempts_due.drop((workload, epoch))
                if state.shares.of((workload, epoch)):
                    state.attempts_due.put((workload, epoch), now)  # Its workers must learn of the end.
            case NodesLost(worker=worker):
                self._look_at_all_on(state, (worker,), now)
            case DomainLost(workers=workers):
                self._look_at_all_on(state, workers, now)

    def _look_at_all_on(self, state: BrokerState, workers: tuple[WorkerName, ...], now: Instant) -> None:
        worker_of, lost = state.image.capacity.worker_of, frozenset(workers)
        for workload, epoch, held in state.image.capacity.live():
            if any(worker_of[node] in lost for spread in held.claim.spreads for node in spread.nodes):
                state.look((workload, epoch), now)
        for workload, epochs in state.image.capacity.promises.items():
            for epoch in epochs:
                state.attempts_due.put((workload, epoch), now)

    # Reports of workers.

    def _worker_seen(self, state: BrokerState, seen: WorkerSeen, at: Instant) -> None:
        worker = seen.worker
        state.worker_seen(worker, at)
        state.orders[worker] = seen.order
        state.health.hear(state.image.capacity, worker, at, seen.ill)
        changed = [share for share in seen.tasks if state.shares.put(worker, share)]
        if seen.is_whole:
            is_first = worker not in state.counted
            state.counted[worker] = None
            there = {*(share.key for share in seen.tasks), *seen.unsaid}
            changed.extend(state.shares.miss(state.image, state.watches, worker, there, is_first=is_first))
        for share in changed:
            state.share_changed(share, at)

    # Requests of the queue.

    def _solicit(self, state: BrokerState, envelope: Envelope) -> Decision:
        request = envelope.message
        assert isinstance(request, SolicitBid)
        return self._hand(state, request, envelope, is_for_full=needs_full_agent(state, request))

    def _hand(
        self, state: BrokerState, request: SolicitBid, envelope: Envelope, *, is_for_full: bool
    ) -> Decision:
        """Give a request to the next agent that can search for it."""
        now = envelope.at
        agents = self._agents(state, now)
        if not agents:
            return NOTHING  # The auction closes without this region, and is opened again.
        able = able_agents(state, agents, request.jobs, now, is_for_full=is_for_full)
        agent = able[state.handed % len(able)]
        turn = turn_of(state.image.agents.settings, agents, agent, now)
        asked = FindBid(self.region, agent, request, turn, envelope.waited)
        return Decision(events=(Handed(),), messages=(asked,))

    def _request_handed_back(self, state: BrokerState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, RequestHandedBack)
        handed = self._hand(state, message.request, envelope, is_for_full=True)
        return Decision((ShapeHandedBack(shape_of(message.request.jobs)), *handed.events), handed.messages)

    def _award(self, state: BrokerState, envelope: Envelope) -> Decision:
        award = envelope.message
        assert isinstance(award, ExecuteAward)
        if state.image.attempts.row(award.workload, award.epoch) is not None:
            return NOTHING  # The queue will read the outcome in the log.
        return self._hand_award(state, award, envelope, is_for_full=needs_full_agent(state, award))

    def _hand_award(
        self,
        state: BrokerState,
        award: ExecuteAward,
        envelope: Envelope,
        tries: int = 0,
        *,
        is_for_full: bool,
    ) -> Decision:
        """Give an award to the agent that bid, if it is there, or to another that can search for it."""
        now = envelope.at
        agents = self._agents(state, now)
        if not agents:
            return NOTHING  # The queue repeats the award.
        able = able_agents(state, agents, award.jobs, now, is_for_full=is_for_full)
        is_there = award.agent in (able if is_for_full else agents)
        agent = award.agent if is_there else able[state.handed % len(able)]
        turn = turn_of(state.image.agents.settings, agents, agent, now)
        return Decision(messages=(PlaceAward(self.region, agent, award, turn, envelope.waited, tries),))

    def _award_handed_back(self, state: BrokerState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, AwardHandedBack)
        award = message.award
        if state.image.attempts.row(award.workload, award.epoch) is not None:
            return NOTHING
        handed = self._hand_award(state, award, envelope, message.tries, is_for_full=True)
        return Decision((ShapeHandedBack(shape_of(award.jobs)), *handed.events), handed.messages)

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
        """Return the agents heard within `PRESENCE_SILENCE_MAX`, by number: a2 comes before a10."""
        present = (agent for agent, at in state.agents.items() if after(at, PRESENCE_SILENCE_MAX) > now)
        return sorted(present, key=lambda agent: (len(agent), agent))

    # Reports.

    def _agent_present(self, state: BrokerState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, AgentPresent)
        return Decision(events=(AgentSeen(message.agent, message.figures),))

    def _show_agents(self, state: BrokerState, envelope: Envelope) -> Decision:
        agents = self._agents(state, envelope.at)
        return Decision(messages=(agents_shown(state, agents, envelope.at),))

    def _beat(self, state: BrokerState, envelope: Envelope) -> Decision:
        message = envelope.message
        beat, unsaid = (message.beat, message.unsaid) if isinstance(message, PartOfBeat) else (message, ())
        assert isinstance(beat, WorkerBeat)
        if self._is_old(state, beat.worker, beat.order):
            return NOTHING
        if beat.life != state.life:
            # Sent to an earlier life of this broker, perhaps long ago. The next beat has the life of this answer and counts.
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
        has_ended = not unsaid and all(share.phase == TasksPhase.ENDED for share in beat.tasks)
        is_back = row is not None and row.is_lost and has_ended
        if is_back and state.health.may_return(state.image.capacity, beat.worker, envelope.at):
            messages.append(RecordReturn(self.region, beat.worker, state.sequence))
        ill = row.inventory.ailing(beat.ill) if row is not None else ()
        if ill:
            words = self._health_words(state, envelope.at)
            words.close_ill(beat.worker, ill)
            messages.extend(words.messages)
        seen = WorkerSeen(beat.worker, True, beat.tasks, beat.order, ill, unsaid)
        return Decision((seen,), tuple(messages))

    def _report(self, state: BrokerState, envelope: Envelope) -> Decision:
        report = envelope.message
        assert isinstance(report, WorkerReport)
        if self._is_old(state, report.worker, report.order) or report.life != state.life:
            return NOTHING
        seen = WorkerSeen(report.worker, is_whole=False, tasks=(report.tasks,), order=report.order)
        if report.tasks.phase == TasksPhase.STOPPING:
            # The worker has the order, and answers each repetition with a report: to repeat the order here would be a
            # loop at the speed of the bus. The next beat repeats it.
            return Decision((seen,))
        words = words_for_report(self.region, state.image, state.sequence, report.worker, report.tasks)
        return Decision((seen,), words)

    def _is_old(self, state: BrokerState, worker: WorkerName, order: tuple[int, int]) -> bool:
        """Return whether a report is no newer than the worker's last one: a delayed repeat may be outdated."""
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
        for key in state.lenders.due.passed(now, LENDERS_AT_ONCE):
            said, lent = words_of(self.region, state.image, key, state.shares.of(key), state.counted, now)
            events.append(said)
            messages.extend(lent)
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
        """Return the note of this look, whether the next agent was asked to search, and the commands."""
        seen, shares, watches = state.first_seen.get(key, now), state.shares.of(key), state.watches
        about = (self.region, state.image, state.sequence, key)
        if key in watches.tasks:
            full = full_of(state.image.agents.settings, agents)
            agent = full[state.handed % len(full)] if full else None
            alone = care_for_tasks(*about, watches, shares, seen, agent, now)
            return alone.note, alone.has_asked_agent, alone.messages
        known = Known(shares, seen, watches.gangs.get(key, seen), watches.lost_at)
        commands = commands_for(*about, known, now)
        return Attended(key, commands.again_at), False, commands.messages

    def _health_words(self, state: BrokerState, now: Instant) -> HealthWords:
        return HealthWords(self.region, state.image.capacity, state.sequence, state.health, now)
