"""The broker's memory: the region's image, when agents and workers were heard, and the newest report of each share."""

from components.region_broker.lending import Lenders
from components.region_broker.node_health import Ill, NodeHealth
from components.region_broker.task_timers import Watches
from components.region_broker.worker_reports import ReportedShares
from core.agenda import Agenda
from core.fact import Note
from core.images import RegionImage
from core.messages.agents import AgentFigures
from core.messages.workers import TasksState
from core.nouns.ids import AgentName, AttemptKey, ShareKey, WorkerName
from core.nouns.instant import Instant, after
from core.nouns.limits import (
    AGENTS_MAX,
    HANDED_BACK_SPAN,
    PRESENCE_SILENCE_MAX,
    SHAPES_HANDED_BACK_MAX,
    STRANGER_SPAN,
    STRANGERS_MAX,
)

SECTIONS = (
    "agents",
    "attempts",
    "capacity",
    "control",
    "harvest",
    "maintenance",
    "pools",
    "preemption",
    "starts",
)


class AgentSeen(Note, frozen=True):
    """An agent showed its presence."""

    agent: AgentName
    figures: AgentFigures = AgentFigures()


class WorkerSeen(Note, frozen=True):
    """A worker sent a report or a beat."""

    worker: WorkerName
    is_whole: bool
    tasks: tuple[TasksState, ...]
    order: tuple[int, int]
    ill: Ill | None = None
    """Ill nodes as reported by a beat; None: the message was no beat."""
    unsaid: tuple[ShareKey, ...] = ()
    """Shares that the worker has, beside those of which the beat tells."""


class Handed(Note, frozen=True):
    """A request was handed to an agent; the next request goes to the next agent."""


class ShapeHandedBack(Note, frozen=True):
    """An agent with partitions found no place for jobs of a shape: for a while, full agents are asked at once."""

    shape: bytes


class Attended(Note, frozen=True):
    """An attempt was looked at; it is due again at `again_at`, or if None when a fact or report changes it."""

    key: AttemptKey
    again_at: Instant | None


class PresenceAsked(Note, frozen=True):
    """All agents and workers were asked to show their presence."""


class BusSeen(Note, frozen=True):
    """The broker's own round trip failed, or works again: until then no silence counts, afterwards every silence from zero."""

    is_back: bool


class BrokerState:
    """The region's image, the times at which agents and workers were heard, and the newest report of each share."""

    def __init__(self, at: Instant) -> None:
        self.image = RegionImage.empty(SECTIONS)
        self.sequence = 0
        self.agents: dict[AgentName, Instant] = {}
        self.figures: dict[AgentName, AgentFigures] = {}
        """Figures of each agent, from its last beat."""
        self.handed = 0
        self.handed_back: dict[bytes, Instant] = {}
        """Shapes of which an agent with partitions found no place lately, with the time until which full agents are asked at once."""
        self.health = NodeHealth(at)
        self.orders: dict[WorkerName, tuple[int, int]] = {}
        """Order of each worker's newest report: its start, and its reports since."""
        self.counted: dict[WorkerName, None] = {}
        """Workers that sent a beat since the image was adopted."""
        self.shares = ReportedShares()
        self.first_seen: dict[AttemptKey, Instant] = {}
        """When this broker learned of each attempt's phase; the attempt's deadlines count from then."""
        self.watches = Watches()
        self.lenders = Lenders()
        self.attempts_due: Agenda[AttemptKey] = Agenda()
        self.ask_at: Instant | None = at
        self.life = int(at)
        """Identifies this start of the broker: the instant of the start."""
        self.strangers: dict[WorkerName, Instant] = {}
        """When each worker without nodes in the region was last heard, the longest silent first."""

    def agent_seen(self, agent: AgentName, figures: AgentFigures, at: Instant) -> None:
        """Record that an agent was heard, and forget agents that are silent: they get no requests, and may never return."""
        if agent not in self.agents:
            silent = [one for one, heard in self.agents.items() if after(heard, PRESENCE_SILENCE_MAX) <= at]
            for one in silent:
                self._forget_agent(one)
            while len(self.agents) >= AGENTS_MAX:
                self._forget_agent(min(self.agents, key=lambda one: (self.agents[one], one)))
        self.agents[agent], self.figures[agent] = at, figures

    def _forget_agent(self, agent: AgentName) -> None:
        del self.agents[agent]
        self.figures.pop(agent, None)

    def shape_handed_back(self, shape: bytes, at: Instant) -> None:
        """Record that jobs of a shape find no place by rows alone."""
        self.handed_back.pop(shape, None)
        self.handed_back[shape] = after(at, HANDED_BACK_SPAN)
        while len(self.handed_back) > SHAPES_HANDED_BACK_MAX:
            del self.handed_back[next(iter(self.handed_back))]

    def worker_seen(self, worker: WorkerName, at: Instant) -> None:
        """Record that a worker was heard, and forget strangers that are silent or too many."""
        strangers, known = self.strangers, self.image.capacity.workers
        strangers.pop(worker, None)
        if worker not in known:
            strangers[worker] = at
        while strangers:
            oldest, heard = next(iter(strangers.items()))
            if oldest not in known and after(heard, STRANGER_SPAN) > at and len(strangers) <= STRANGERS_MAX:
                return
            del strangers[oldest]
            if oldest not in known:
                self._forget_worker(oldest)

    def look(self, key: AttemptKey, at: Instant) -> None:
        """Make an attempt due: at once, or for independent tasks at their earliest timer."""
        watch = self.watches.tasks.get(key)
        due = at if watch is None else watch.next_at()
        if due is not None:
            self.attempts_due.put(key, due)

    def share_changed(self, share: TasksState, at: Instant) -> None:
        """Make the share's attempt due. For a share of no live attempt, `words_for_report` was the answer."""
        key = share.key.attempt
        self.lenders.reported(self.image, key, at, lends=bool(share.lends))
        watch = self.watches.tasks.get(key)
        if watch is not None and share.task in watch.seen:
            watch.look(share.task, at)
            self.look(key, at)
        elif watch is None and self.image.capacity.holding(*key) is not None:
            self.attempts_due.put(key, at)

    def _forget_worker(self, worker: WorkerName) -> None:
        for share in self.shares.at(worker):
            self.shares.drop(worker, share.key)
        self.orders.pop(worker, None)
        self.counted.pop(worker, None)
        self.health.forget(worker)
