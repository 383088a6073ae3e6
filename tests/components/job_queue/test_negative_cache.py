"""What regions refused is remembered, and nobody is awarded anything else, or later, for that."""

import random
from typing import Any

import pytest

from core.component import Decision
from core.events.region import AttemptEnded, GangStarted
from core.messages.agents import BidSettled
from core.messages.broker import ExecuteAward, SolicitBid
from core.messages.queue import Abstention, Bid
from core.nouns.ids import AgentName, RegionName, WorkloadId, region_log
from core.nouns.instant import Nanoseconds, after
from core.nouns.limits import OPEN_BIDS_RETRY
from core.nouns.placement import Spread, View
from core.nouns.quantities import MILLI
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, JobSpec
from tests.builders import EU, US, a_claim, a_job, a_spec, attempt, granted, joined
from tests.components.support.job_queue import Start, a_job_queue, submit
from tests.components.support.machine import Machine
from tests.matching import said

STEPS = 120
ROUNDS_MAX = 200
SHAPES = [(tasks, gpus) for tasks in (1, 2, 3, 4) for gpus in (1, 2, 4, 8)]


class Planet:
    """A queue, and two regions of four nodes that answer at once, each by one agent that knows all that it has offered."""

    def __init__(self, start: Start, seed: int, *, is_remembering: bool = True) -> None:
        self.dice, self.is_remembering = random.Random(seed), is_remembering
        self.queue: Machine[Any] = a_job_queue(start)
        self.free = {region: [8] * 4 for region in (EU, US)}
        self.offered: dict[tuple[RegionName, WorkloadId], tuple[Spread, int]] = {}
        self.running: dict[WorkloadId, tuple[RegionName, Spread, int]] = {}
        self.asked = self.steps = 0

    def step(self) -> list[tuple[WorkloadId, RegionName]]:
        """Somebody comes, or somebody ends; and all that follows. Who is awarded what, in order."""
        self.steps += 1
        for region in () if self.is_remembering else self.free:
            # Nodes of another type come, and nothing that was refused before counts.
            of_no_use = joined(f"w-{self.steps}", 100 + self.steps, 1, gpu_type="V100")
            self.queue.fact(region_log(region), of_no_use)
            assert all(region not in said for said in self.queue.state.auctions.refusals.values())
        if self.running and self.dice.random() < 0.45:
            self.end(self.dice.choice(list(self.running)))
        else:
            tasks, gpus = self.dice.choice(SHAPES)
            submit(self.queue, a_spec(a_job(tasks, gpus), priority=self.dice.randint(0, 6)))
        return self.all_that_follows()

    def end(self, workload: WorkloadId) -> None:
        """A running workload completes."""
        region, spread, gpus = self.running.pop(workload)
        self._change(region, spread, gpus, 1)
        end = AttemptEnded(*attempt(workload, 1), EndCause.COMPLETED, 0, sum(spread.tasks) * gpus * MILLI)
        self.queue.fact(region_log(region), end)

    def all_that_follows(self, span: Nanoseconds = OPEN_BIDS_RETRY) -> list[tuple[WorkloadId, RegionName]]:
        """Wake the queue and answer until nothing is due within a span. Return the awards in order.

        Within the default span, a refusal because all was offered passes.
        """
        awards: list[tuple[WorkloadId, RegionName]] = []
        until = after(self.queue.now, span)
        for _ in range(ROUNDS_MAX):
            decision = self.woken()
            for settled in said(decision, BidSettled):
                spread, gpus = self.offered.pop((settled.region, settled.workload))
                if not settled.has_won:
                    self._change(settled.region, spread, gpus, 1)
                else:
                    self.running[settled.workload] = settled.region, spread, gpus
            for award in said(decision, ExecuteAward):
                if (award.workload, award.region) not in awards:
                    awards.append((award.workload, award.region))
                    self._grant(award)
            answers = [self._answer(ask) for ask in said(decision, SolicitBid)]
            self.asked += len(answers)
            if answers or said(decision, ExecuteAward):
                continue
            due = self.queue.component.due(self.queue.state)
            if due is None or due > until:
                return awards
            self.queue.now = max(self.queue.now, due)
        raise AssertionError("there is no end of it")

    def woken(self) -> Decision:
        """Wake the queue: all that is due is decided."""
        return self.queue.wake()

    def _answer(self, ask: SolicitBid) -> bool:
        (job,) = ask.jobs
        spread = self._place(job, self.free[ask.region])
        agent = AgentName(f"a-{ask.region}")
        gpus = job.need.gpu_milli // MILLI
        if spread is not None:
            self.offered[ask.region, ask.workload] = spread, gpus
            self._change(ask.region, spread, gpus, -1)
            score = (0, 0, 0, 1, 1, sum(self.free[ask.region]))
            self.queue.hear(Bid(ask.region, agent, ask.workload, ask.auction, score, (spread,), (), View(1)))
            return True
        whole = list(self.free[ask.region])
        for (region, _), (offer, each) in self.offered.items():
            for node, tasks in zip(offer.nodes, offer.tasks, strict=True) if region == ask.region else ():
                whole[node] += tasks * each
        is_offered = self._place(job, whole) is not None
        missing = max(1, job.tasks * gpus - sum(whole)) * MILLI
        view = self.queue.sequence(region_log(ask.region))
        reason = Reason.OPEN_BIDS if is_offered else Reason.NO_CAPACITY
        self.queue.hear(
            Abstention(
                ask.region, agent, ask.workload, ask.auction, reason, view, 0 if is_offered else missing
            )
        )
        return False

    def _place(self, job: JobSpec, free: list[int]) -> Spread | None:
        left, found = job.tasks, {}
        for node, gpus in enumerate(free):
            here = min(left, gpus // (job.need.gpu_milli // MILLI))
            if here:
                found[node] = here
                left -= here
        return None if left else Spread(tuple(found), tuple(found.values()))

    def _change(self, region: RegionName, spread: Spread, gpus: int, sign: int) -> None:
        for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
            self.free[region][node] += sign * tasks * gpus

    def _grant(self, award: ExecuteAward) -> None:
        claim = a_claim(award.workload, jobs=award.jobs, spreads=award.spreads, priority=award.priority)
        log = region_log(award.region)
        self.queue.fact(log, granted(claim), GangStarted(*attempt(award.workload, 1)))


@pytest.mark.parametrize("seed", range(3))
def test_awards_are_the_same_if_all_refusals_are_forgotten_each_time(start: Start, seed: int) -> None:
    """M20: after whatever comes and ends, the same are awarded room in the same regions; and it takes a fraction of the asking."""
    planet = Planet(start, seed)
    remembered = [planet.step() for _ in range(STEPS)]
    forgetful = Planet(start, seed, is_remembering=False)
    for number, expected in enumerate(remembered):
        assert expected == forgetful.step(), number
    assert sum(map(len, remembered)) > STEPS / 4
    assert planet.asked < forgetful.asked / 2
