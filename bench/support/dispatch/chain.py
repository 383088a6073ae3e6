"""A chain of four hosts, each with urgent messages that come along the chain and bulk of its own.

The hosts are real, and their components do nothing but say the next message of the chain: a submission at the queue becomes an award at
the broker, which becomes a request at the agent, which becomes a claim at the store. Work is of one task, so the chain is `interactive`.
"""

import random
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from bench.support.store.commit_plane import job_of
from core.component import NOTHING, Decision, Follow, Images
from core.dispatch.context import Context, Urgency
from core.fact import Fact
from core.messages.agents import AgentPresent, ClaimAnswered, PlaceAward
from core.messages.base import Envelope, Message
from core.messages.broker import ExecuteAward
from core.messages.control import PlaceTasks
from core.messages.queue import ListWorkloads, SubmitWorkload
from core.messages.store import RecordCheckpoint, SubmitClaim
from core.nouns.dispatch import DEFAULT_QUANTUM, TARGETS, DispatchSettings, Target, UrgencyClass
from core.nouns.ids import AgentName, ClaimId, LogName, RegionName, WorkloadId
from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds, seconds
from core.nouns.placement import Claim, Spread, View
from core.nouns.workload import Kind, WorkloadSpec

FLEET = "chain"
REGION = RegionName("eu")
AGENT, DRIVER = AgentName("a0"), AgentName("driver")
TENANTS = 4
URGENT_RATE = 100.0
"""Urgent messages a second, of all tenants."""
URGENT_SECONDS, BULK_SECONDS = 0.001, 0.010
"""Mean times of decisions, exponentially distributed."""
WITHIN = seconds(0.1)
"""The target of urgent chains, from end to end."""
JOB = job_of(1, 1)
BULK_LEFT = TARGETS[UrgencyClass.BULK].within
BULK = Context(Urgency(UrgencyClass.BULK, BULK_LEFT))
AWARD = ExecuteAward(REGION, WorkloadId(""), 1, 1, 6, Kind.TRAINING, (JOB,), AGENT, (Spread((1,), (1,)),))


class Hop(Struct, frozen=True):
    """One host of the chain."""

    name: str
    noun: str
    scope: tuple[str, ...]
    urgent: type[Message]
    bulk: Message


HOPS = (
    Hop("queue", "queue", (), SubmitWorkload, ListWorkloads()),
    Hop("broker.eu", "broker", (REGION,), ExecuteAward, AgentPresent(REGION, AGENT)),
    Hop(
        "agent.eu.a0",
        "agent",
        (REGION, AGENT),
        PlaceAward,
        PlaceTasks(REGION, AGENT, WorkloadId("bulk"), 1, 1, ()),
    ),
    Hop("store.eu", "store", (REGION,), SubmitClaim, RecordCheckpoint(REGION, WorkloadId("bulk"), 1, 1)),
)


def settings_of(policy: str, quantum: Nanoseconds = DEFAULT_QUANTUM, rate: int = 40) -> DispatchSettings:
    """Return settings with the target of the chains."""
    return DispatchSettings(policy, {UrgencyClass.INTERACTIVE: Target(WITHIN, seconds(2))}, quantum, rate)


def submission(name: str) -> SubmitWorkload:
    """The first message of a chain; its number is the workload's name."""
    return SubmitWorkload(WorkloadSpec(name, (JOB,)), "bench")


class HopState(Struct):
    """What a host of the chain remembers."""

    bulk_done: int = 0


class ChainHop:
    """The component of one host."""

    keeps: LogName | None = None
    follows: tuple[Follow, ...] = ()

    def __init__(self, hop: Hop, spend: Callable[[Message], None] | None = None) -> None:
        """`spend` lets a decision take its time; None: a simulated world does."""
        self.name, self.noun, self.scope = hop.name, hop.noun, hop.scope
        self.hears: tuple[type[Message], ...] = (hop.urgent, type(hop.bulk))
        self._urgent = hop.urgent
        self._spend = spend

    def initial(self, images: Images) -> HopState:
        """Return the state at the start."""
        return HopState()

    def due(self, state: HopState) -> Instant | None:
        """Nothing is ever due."""
        return None

    def evolve(self, state: HopState, fact: Fact) -> HopState:
        """Nothing is ever folded."""
        return state

    def decide(self, state: HopState, envelope: Envelope) -> Decision:
        """Say the next message of the chain."""
        message = envelope.message
        if not isinstance(message, self.hears):
            return NOTHING
        if self._spend is not None:
            self._spend(message)
        match message:
            case SubmitWorkload(spec):
                return Decision(messages=(replace(AWARD, workload=WorkloadId(spec.name)),))
            case ExecuteAward():
                return Decision(messages=(PlaceAward(REGION, AGENT, message),))
            case PlaceAward(award=award):
                return Decision(messages=(SubmitClaim(REGION, _claim_of(award)),))
            case SubmitClaim(claim=claim):
                answer = ClaimAnswered(REGION, DRIVER, claim.workload, 1, claim.claim, "granted")
                return Decision(messages=(answer,))
        return NOTHING


def _claim_of(award: ExecuteAward) -> Claim:
    return Claim(
        ClaimId(award.workload),
        REGION,
        AGENT,
        award.workload,
        1,
        1,
        6,
        award.kind,
        award.jobs,
        award.spreads,
        View(0),
    )


URGENT = tuple(hop.urgent for hop in HOPS)


def service_times(dice: random.Random) -> Callable[[Message], Nanoseconds]:
    """Return how long decisions take, drawn one after the other."""

    def drawn(message: Message) -> Nanoseconds:
        mean = URGENT_SECONDS if isinstance(message, URGENT) else BULK_SECONDS
        return Nanoseconds(round(dice.expovariate(1 / mean) * SECOND))

    return drawn


def bulk_rate(load: float) -> float:
    """Return bulk messages a second at each host with which its load is this."""
    return (load - URGENT_RATE * URGENT_SECONDS) / BULK_SECONDS


class ChainRun(Struct):
    """What came of one run."""

    latencies: list[float] = []
    """Of urgent chains from end to end, in seconds."""
    bulk_waits: list[float] = []
    """Of bulk at each host, in seconds."""
    bulk_done: int = 0
    asked: int = 0

    def quantile(self, share: float) -> float:
        """Return a quantile of the latencies in milliseconds; 0 if there are none."""
        return quantile(self.latencies, share) * SECOND / MILLISECOND

    @property
    def late_share(self) -> float:
        """Of urgent chains, those that took longer than their target, or never came to an end."""
        in_time = sum(latency <= WITHIN / SECOND for latency in self.latencies)
        return 1 - in_time / max(1, self.asked)


def quantile(values: list[float], share: float) -> float:
    """Return a quantile; 0 of nothing."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))] if ranked else 0.0
