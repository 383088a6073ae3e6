"""What the queue remembers as refused is not asked for again before that could change, and nothing is lost by that.

In crowded runs, again and again: every refusal that the queue holds is asked of an agent of that region as if nothing were
remembered, on all that the region's log has by then. It is said again, or the queue has not yet what makes the difference.
"""

from collections import Counter
from collections.abc import Mapping

import pytest
import structlog
from msgspec.structs import replace

from components.allocation_agent.component import AllocationAgent
from components.allocation_agent.state import AgentState
from components.job_queue.ordering import asked_now
from components.job_queue.reservations import StartPromising
from components.job_queue.state.asked_shape import AskedShape
from components.job_queue.state.auctions import Auction, solicited
from components.job_queue.state.queue_state import QueueState
from components.job_queue.state.refusal_dominance import HOLD_FOR_LARGER
from core.images.queue import WorkloadRow
from core.messages.agents import FindBid
from core.messages.base import Envelope
from core.messages.queue import Abstention
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.limits import OPEN_BID_SPAN
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import Phase
from runtime.virtual_loop import VirtualLoop
from scenarios.play.run import Run
from scenarios.play.simulated import simulated_run
from scenarios.scenario import load_scenario
from scenarios.worlds.simulated.world import START, SimulatedWorld

QUIET_SECONDS = 0.5
"""In which everybody has heard what a region's log has."""
BY_THEMSELVES = (Reason.OPEN_BIDS,)
"""These pass within moments, whatever the log says."""


class Looking:
    """Looks at the refusals of a run while it is played."""

    def __init__(self, run: Run, every: float) -> None:
        assert isinstance(run.world, SimulatedWorld)
        self.world = run.world
        self.every = every
        """Seconds between two looks."""
        self.asked: Counter[str] = Counter()
        """Refusals that were asked for again, by reason."""
        self.larger = 0
        """For how many larger ones was asked."""
        self.wrong: list[str] = []
        self._sequences: dict[RegionName, int] = {}
        """Of each region's log, at the look before."""

    async def go_on(self) -> None:
        """As long as the run does."""
        while True:
            await self.world.sleep(self.every)
            self._quiet()
            await self.world.sleep(QUIET_SECONDS)
            queue = self.world.unit("job_queue").state
            if queue is not None:
                self._look(queue, self._quiet())

    def _quiet(self) -> dict[RegionName, AgentState]:
        """An agent of each region of whose log everybody knows all."""
        found = {}
        for region in self.world.plan.region_names():
            store = self.world.unit("placement_store", region).state
            agent = self.world.unit("allocation_agent", region).state
            sequence = store.sequence if store is not None else -1
            if agent is not None and agent.sequence == sequence == self._sequences.get(region):
                found[region] = agent
            self._sequences[region] = sequence
        return found

    def _look(self, queue: QueueState, agents: Mapping[RegionName, AgentState]) -> None:
        waiting: dict[AskedShape, WorkloadId] = {}
        now = Instant(self.world.loop.now_ns())
        for workload, row in queue.image.workloads.rows.items():
            if row.phase is Phase.PENDING and workload in queue.order:
                waiting.setdefault(asked_now(queue, workload, now)[1], workload)
        for shape, regions in queue.auctions.refusals.items():
            example = waiting.get(shape)
            if example is None:
                continue
            for region, said in regions.items():
                passes = said.reason in BY_THEMSELVES or (shape, region) in queue.auctions.refusals_due
                if region in agents and not passes:
                    self._ask(queue, agents[region], example, said, now)

    def _ask(
        self, queue: QueueState, agent: AgentState, workload: WorkloadId, said: Abstention, now: Instant
    ) -> None:
        """As the queue would, if it remembered nothing: for the same, and for more of it at the same level and at a lower one."""
        _, asked = asked_now(queue, workload, now)
        auction = Auction("again", asked, (said.region,))
        row = queue.image.workloads.rows[workload]
        self._ask_for(queue, agent, workload, row, auction, said, now)
        if asked.family is None or said.reason not in HOLD_FOR_LARGER:
            return
        (job,) = row.spec.jobs
        for more, level in ((1, asked.level), (asked.tasks, max(OVER_LEVEL, asked.level - 1))):
            spec = replace(row.spec, jobs=(replace(job, tasks=job.tasks + more),))
            lower = replace(auction, shape=replace(asked, level=level))
            self.larger += 1
            self._ask_for(queue, agent, workload, replace(row, kept=spec), lower, said, now)

    def _ask_for(
        self,
        queue: QueueState,
        agent: AgentState,
        workload: WorkloadId,
        row: WorkloadRow,
        auction: Auction,
        said: Abstention,
        now: Instant,
    ) -> None:
        how = StartPromising().how_asked(queue, workload, now)
        request = solicited(said.region, workload, auction, row, how, OPEN_BID_SPAN)
        component = AllocationAgent(said.region, said.agent)
        envelope = Envelope(FindBid(said.region, said.agent, request), "test", "again", now)
        (answer,) = component.decide(agent, envelope).messages
        self.asked[said.reason] += 1
        if not isinstance(answer, Abstention):
            tasks = sum(job.tasks for job in row.spec.jobs)
            self.wrong.append(
                f"at {now}: {workload} was refused for {said.reason}, and {tasks} tasks at {auction.shape.level} now {answer}"
            )


@pytest.mark.parametrize(
    ("name", "seed", "every"),
    [
        ("tenant_floods_queue", 1, 0.8),
        ("wide_gang_among_narrow", 1, 240.0),
        pytest.param("preemption_storm", 2, 1.0, marks=pytest.mark.slow),
    ],
)
def test_refused_shape_would_be_refused_again(name: str, seed: int, every: float) -> None:
    """M20: of the same shape at the same level, and more of the same there and below."""
    loop = VirtualLoop(START)
    try:
        run = simulated_run(load_scenario(name), seed, loop)
        looking = Looking(run, every)
        task = loop.create_task(looking.go_on(), name="looking")
        with structlog.testing.capture_logs():
            outcome = loop.run_until_complete(run.play())
        if task.done():
            task.result()  # It looks for as long as the run goes on.
        task.cancel()
    finally:
        loop.cancel_all()
        loop.close()
    assert outcome.is_good, outcome.problems
    assert [] == looking.wrong
    assert looking.asked.total() >= 50, looking.asked
    assert looking.larger >= 50
