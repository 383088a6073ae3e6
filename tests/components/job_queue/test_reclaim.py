"""With no submissions, no ends and no operators' acts every sequence of awards, preemptions and changes of standing ends.

The job queue itself ranks, awards and changes standings; the agents' search finds places and whom to push out. What is between
them is here: words that are late and out of turn, and a region that grants what still fits. Why it ends, and what the bound is,
is in docs/decisions/0028-reclaim-ends.md.
"""

import random
from collections import Counter
from math import prod
from typing import Any

import pytest
from msgspec import Struct

from components.job_queue.component import JobQueue
from core.component import Decision
from core.events.region import AttemptEnded, AttemptRanked, AwardDeclined, GangStarted, StopOrdered
from core.fact import Event, Fact
from core.images import RegionImage
from core.messages.base import Message
from core.messages.broker import ExecuteAward, RankAttempt, SolicitBid, WithdrawAward
from core.messages.queue import Abstention, Bid, SubmitWorkload
from core.messages.tenants import SetEntitlement, SetTenant
from core.nouns.ids import GLOBAL_LOG, AgentName, AttemptKey, TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after, seconds
from core.nouns.placement import Claim, View, gpu_milli_of
from core.nouns.reasons import Reason
from core.nouns.tenant import LEVEL_MAX, LEVEL_MIN, OVER_LEVEL, Entitlement, TenantSettings
from core.nouns.workload import EndCause
from core.placing.answers.bids import missing_over_all, score
from core.placing.pick.nodes import Choice
from core.placing.placer import Found
from core.placing.pool_set import Asker
from core.placing.preemption.victim_index import VictimIndex
from core.placing.preemption.victims import spared_for
from core.ranking.scan import QuotaClass
from tests.builders import EU, EU_LOG, a_claim, a_job, a_spec, granted, joined, promised
from tests.components.support.machine import Machine
from tests.core.placing.searching import placer_of

NODES, GPUS = 4, 8
TENANTS = tuple(TenantName(name) for name in ("ape", "bee", "cat"))
AGENT = AgentName("a0")
QUIET: Nanoseconds = seconds(900)
"""Without a fact of either log: longer than anybody is spared, and than anything is waited for."""
STEPS_MAX = 2_000


class Push(Struct, frozen=True):
    """One attempt was told to leave for another."""

    victim: WorkloadId
    by: WorkloadId
    level: int
    """Of whom it leaves for."""
    starts: int
    """Attempts that had found their place by then."""
    is_late: bool
    """Whether the queue had moved it up by then, and the region did not know."""


class Scene:
    """One queue and one region."""

    def __init__(self, seed: int, *, levels: tuple[int, ...]) -> None:
        self.dice = random.Random(seed)
        self.levels = levels
        self.queue: Machine[Any] = Machine(JobQueue((EU,)))
        self.region = RegionImage.empty()
        self.untold: list[Event] = []
        self.inbox: dict[tuple[str, WorkloadId], Message] = {}
        self.pushes: list[Push] = []
        self.starts: list[tuple[WorkloadId, int]] = []
        """Who found a place, and at which level."""
        self.record(joined(nodes=NODES))
        for tenant in TENANTS:
            settings = TenantSettings(max(levels), Nanoseconds(self.dice.choice((0, 0, seconds(300)))))
            self.queue.hear(SetTenant(tenant, settings, 0))
            self.entitle(tenant)

    # The region.

    def record(self, *events: Event) -> None:
        """The region's log has these; the queue hears of them later."""
        for event in events:
            self.untold.append(event)
            self.region.fold(Fact(EU_LOG, self.told + len(self.untold), self.now, "", "", event, self.now))

    @property
    def told(self) -> int:
        """Facts of the region that the queue knows."""
        return self.queue.sequence(EU_LOG)

    @property
    def now(self) -> Instant:
        """The same for both."""
        return self.queue.now

    def found(self, asked: SolicitBid | ExecuteAward) -> Found | Reason:
        """Where it would go, and over whom."""
        asker = Asker(tenant=asked.tenant, priority=asked.priority, at=self.now)
        return placer_of(self.region.capacity).find(asked.jobs, asker, Choice(f"{self.dice.random()}"))

    def hear(self, message: Message) -> None:
        """What a region does on a word of the queue."""
        match message:
            case SolicitBid():
                self.bid(message)
            case ExecuteAward():
                self.place(message)
            case WithdrawAward(workload=workload, epoch=epoch, award_sequence=award):
                if self.region.attempts.row(workload, epoch) is None:
                    self.record(AwardDeclined(workload, epoch, Reason.WITHDRAWN, award))
            case RankAttempt(workload=workload, epoch=epoch, revision=revision, level=level):
                row = self.region.attempts.row(workload, epoch)
                if row is not None and row.phase.is_live and row.standing_revision < revision:
                    self.record(AttemptRanked(workload, epoch, revision, level))

    def bid(self, asked: SolicitBid) -> None:
        """As an agent does, from what there is now."""
        found, sequence = self.found(asked), self.told + len(self.untold)
        if isinstance(found, Reason):
            capacity, asker = self.region.capacity, Asker(priority=asked.priority, at=self.now)
            missing = missing_over_all(placer_of(capacity).pools, asked.jobs, asker, VictimIndex(capacity))
            again_in = spared_for(capacity, asked.priority, self.now)
            said = Abstention(
                EU, AGENT, asked.workload, asked.auction, found, sequence, missing, again_in=again_in
            )
            self.say(said)
            return
        worth = score(placer_of(self.region.capacity).pools, found, self.now)
        keys = tuple(found.victim_keys)
        self.say(Bid(EU, AGENT, asked.workload, asked.auction, worth, found.spreads, keys, View(sequence)))

    def place(self, award: ExecuteAward) -> None:
        """Where it still fits; nobody leaves for less than a higher level."""
        if self.region.attempts.row(award.workload, award.epoch) is not None:
            return
        found = self.found(award)
        key = award.workload, award.epoch
        if isinstance(found, Reason):
            self.record(AwardDeclined(*key, found, award.award_sequence))
            return
        claim = self.claim_of(award, found)
        self.starts.append((award.workload, award.priority))
        if not found.victims:
            self.record(granted(claim), GangStarted(*key))
            return
        self.record(promised(claim))
        for workload, epoch, held in found.victims:
            assert held.claim.priority < award.priority
            assert held.spared_until <= self.now
            row = self.queue.state.image.workloads.rows[workload]
            is_late = row.epoch == epoch and row.level > held.claim.priority
            self.pushes.append(Push(workload, award.workload, award.priority, len(self.starts), is_late))
            self.record(StopOrdered(workload, epoch, EndCause.PREEMPTED, award.workload))

    @staticmethod
    def claim_of(award: ExecuteAward, found: Found) -> Claim:
        """What holds its place."""
        claim = a_claim(
            award.workload,
            award.epoch,
            jobs=award.jobs,
            spreads=found.spreads,
            priority=award.priority,
            victims=tuple(found.victim_keys),
            award_sequence=award.award_sequence,
        )
        settled: dict[str, Any] = {  # Any: as a claim has them
            "tenant": award.tenant,
            "standing_revision": award.standing_revision,
            "run_min": award.run_min,
        }
        return Claim(**{**{name: getattr(claim, name) for name in claim.__struct_fields__}, **settled})

    def ending(self) -> list[AttemptKey]:
        """Who was told to leave and has not left."""
        return [(workload, epoch) for workload, epoch, held in self.region.capacity.live() if held.is_ending]

    def leave(self, key: AttemptKey) -> None:
        """It has saved, and who waited for it and nobody else begins."""
        held = self.region.capacity.holding(*key)
        assert held is not None, key
        self.record(AttemptEnded(*key, EndCause.PREEMPTED, 0, gpu_milli_of(held.claim.jobs)))
        capacity = self.region.capacity
        for workload, claims in list(capacity.promises.items()):
            for epoch, claim in list(claims.items()):
                if all(capacity.holding(*victim) is None for victim in claim.victims):
                    self.record(granted(claim), GangStarted(workload, epoch))

    # The queue.

    def say(self, message: Message) -> None:
        """The queue hears it at once, and what it says is on its way."""
        self.carry(self.queue.hear(message))
        self.carry(self.queue.wake())

    def carry(self, decision: Decision) -> None:
        """Words to the region; of one sort about one workload the newest is enough, for all are said again."""
        for message in decision.messages:
            if isinstance(message, SolicitBid | ExecuteAward | WithdrawAward | RankAttempt):
                self.inbox[type(message).__name__, message.workload] = message

    def submit(self) -> None:
        """Of one of the tenants', at one of the levels."""
        tasks, gpus = self.dice.choice(((1, 2), (1, 4), (1, 8), (2, 8), (3, 8)))
        level = self.dice.choice(self.levels)
        spec = a_spec(a_job(tasks, gpus), tenant=self.dice.choice(TENANTS), priority=level)
        self.say(SubmitWorkload(spec, "ada"))

    def entitle(self, tenant: TenantName) -> None:
        """To as much as an operator likes, whatever it holds."""
        row = self.queue.state.image.tenants.rows[tenant]
        wanted = Entitlement(self.dice.randrange(0, NODES * GPUS + 1, 4))
        self.say(SetEntitlement(tenant, "H100", wanted, row.revision, is_forced=True))

    # Time.

    def wait(self, span: Nanoseconds) -> None:
        """So long, or until the queue says something of itself."""
        end = after(self.now, span)
        while self.now < end:
            due = self.queue.component.due(self.queue.state)
            self.carry(self.queue.wake(end if due is None else min(end, max(due, self.now))))
            if self.inbox:
                break

    def step(self) -> None:
        """One of the things that can happen does."""
        ending = self.ending()
        choices = [
            *(["hear"] * 3 if self.inbox else []),
            *(["tell"] if self.untold else []),
            *(["leave"] if ending else []),
        ]
        if not choices or self.dice.random() < 0.1:
            spans = (0.1, 1.0) if choices else (30.0, 300.0)
            self.wait(seconds(self.dice.choice(spans)))
            return
        match self.dice.choice(choices):
            case "hear":
                self.hear(self.inbox.pop(self.dice.choice([*self.inbox])))
            case "tell":
                count = self.dice.randint(1, len(self.untold))
                for event in self.untold[:count]:
                    self.queue.fact(EU_LOG, event)
                del self.untold[:count]
                self.carry(self.queue.wake())
            case "leave":
                self.leave(self.dice.choice(ending))

    def run_out(self) -> None:
        """Until nothing is recorded any more. Raises AssertionError when it goes on for ever."""
        facts, since = 0, self.now
        for _ in range(STEPS_MAX):
            self.step()
            known = self.queue.sequence(GLOBAL_LOG) + self.told + len(self.untold)
            if known != facts:
                facts, since = known, self.now
            elif after(since, QUIET) <= self.now and not self.untold and not self.ending():
                return
        raise AssertionError(f"{len(self.starts)} started, and still more would")

    def bound(self) -> int:
        """Of starts, from wherever it stands: docs/decisions/0028-reclaim-ends.md."""
        rows = self.queue.state.image.workloads.rows.values()
        counts = Counter(row.spec.priority for row in rows)
        return (1 + len(rows)) * prod(1 + count for count in counts.values()) - 1


def played(seed: int, levels: tuple[int, ...]) -> list[list[Push]]:
    """A load that is there, then more of it, then other quotas: each runs out within the bound. What was pushed out each time."""
    scene = Scene(seed, levels=levels)
    told = []
    for phase in range(3):
        for _ in range(scene.dice.randint(4, 9) if phase < 2 else 0):
            scene.submit()
        if phase == 2:
            scene.entitle(scene.dice.choice(TENANTS))
        scene.pushes, scene.starts = [], []
        scene.run_out()
        assert len(scene.starts) <= scene.bound()
        told.append(scene.pushes)
        look_at_what_waits(scene)
    return told


def look_at_what_waits(scene: Scene) -> None:
    """Nobody within quota waits who has a place, free or over a lower level."""
    state = scene.queue.state
    for work in state.order.works():
        one = state.order.one(work.workload)
        jobs = state.image.workloads.rows[work.workload].spec.jobs
        if one.quota_class is QuotaClass.NOMINAL:
            asker = Asker(tenant=work.tenant, priority=one.level, at=scene.now)
            found = placer_of(scene.region.capacity).find(jobs, asker, Choice("last"))
            assert isinstance(found, Reason), (work, one)


def in_turn(pushes: list[Push]) -> list[tuple[Push, Push]]:
    """Those of which the second gave back what the first took."""
    return [
        (one, other)
        for number, one in enumerate(pushes)
        for other in pushes[number + 1 :]
        if (one.victim, one.by) == (other.by, other.victim)
    ]


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] if seed > 3 else []) for seed in range(40)]
)
def test_reclaim_ends_where_all_levels_are_alike(seed: int) -> None:
    """No two push each other out in turn, whatever is late and whoever comes first."""
    for pushes in played(seed, (3,)):
        assert [] == in_turn(pushes)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] if seed > 3 else []) for seed in range(40)]
)
def test_reclaim_ends_with_all_levels(seed: int) -> None:
    """Two push each other out in turn only if somebody of a higher level than the first found a place in between, or the first was
    pushed out at a level that it had no more.
    """
    for pushes in played(seed, tuple(range(LEVEL_MIN, LEVEL_MAX + 1))):
        for one, other in in_turn(pushes):
            between = [push.level for push in pushes if one.starts < push.starts < other.starts]
            assert one.is_late or max(between, default=OVER_LEVEL) > one.level
