"""The queue alone, with a shared pool full of jobs: round after round is chosen as in life, and each choice is timed.

The state is folded from facts. Shares come of the real solver. After each choice the facts follow that the plane would record: who leaves
has ended, who joins was awarded and runs.
"""

import gc
import time
from collections.abc import Iterator, Mapping, Sequence

from components.job_queue.component import JobQueue
from components.job_queue.rounds import begin_round, columns_of
from components.job_queue.state.queue_state import QueueState, RegionSilent
from core.component import Images
from core.events.queue import AttemptClosed, RegionAdded, WorkloadAwarded, WorkloadBound, WorkloadSubmitted
from core.events.region import NodesJoined
from core.events.sharing import RoundBegun, SharesSet
from core.fact import NO_LOG, Event, Fact, Note
from core.images import GlobalImage, Image, empty_image
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, WorkloadId, region_log
from core.nouns.instant import Instant
from core.nouns.sharing import ROUND_SPAN
from core.nouns.workload import EndCause, Phase, WorkloadSpec
from core.rules.shared_pools import asked_of
from runtime.fleet_file import RegionSpec
from runtime.solvers.sharing import solve_shares
from scenarios.schema.fleet import FleetSpec, plan_of

BEGIN = Instant(5_000_000 * ROUND_SPAN)


class QueueRounds:
    """A queue over regions of which all nodes are in the shared pool, with these jobs."""

    def __init__(self, regions: Mapping[str, RegionSpec], specs: Sequence[WorkloadSpec]) -> None:
        self.queue = JobQueue(tuple(RegionName(name) for name in regions))
        self.now = BEGIN
        self._sequence = 0
        self._epochs: dict[WorkloadId, int] = {}
        own = GlobalImage.empty()
        for region in regions:
            own.fold(self._fact(RegionAdded(RegionName(region))))
        for number, spec in enumerate(specs, 1):
            own.fold(
                self._fact(WorkloadSubmitted(WorkloadId(f"w-{number}"), number, spec, "ada", f"{number}"))
            )
        self.state: QueueState = self.queue.initial(Images(self.now, own, dict(self._followed(regions))))
        for region in regions:
            self._evolve(RegionSilent(RegionName(region), is_silent=False))
        self._solve()

    def rounds(self, count: int) -> Iterator[tuple[float, float, RoundBegun]]:
        """Play so many rounds; give of each the seconds that its choice took, by the core and by the wall, and its fact."""
        for _ in range(count):
            self.now = Instant((self.now // ROUND_SPAN + 1) * ROUND_SPAN)
            rounds: list[RoundBegun] = []
            while not rounds:  # Checkpoints that were copied to another region are noted first.
                gc.collect()
                core, wall = time.process_time(), time.perf_counter()
                decision = begin_round(self.state, self.now)
                core, wall = time.process_time() - core, time.perf_counter() - wall
                for event in decision.events:
                    self._evolve(event)
                rounds = [event for event in decision.events if isinstance(event, RoundBegun)]
            (begun,) = rounds
            self._follow(begun)
            yield core, wall, begun

    def _follow(self, begun: RoundBegun) -> None:
        for workload in begun.leaves:
            if self._epochs.get(workload):
                row = self.state.image.workloads.rows[workload]
                cause, phase = EndCause.ROUND_OVER, Phase.PENDING
                self._evolve(
                    AttemptClosed(workload, row.epoch, cause, phase, row.region, 0, row.epoch, row.epoch)
                )
        for workload, column in begun.joins.items():
            epoch = self._epochs[workload] = self._epochs.get(workload, 0) + 1
            region = begun.columns[column].region
            self._evolve(WorkloadAwarded(workload, epoch, region, 0, ()))
            self._evolve(WorkloadBound(workload, epoch, region, 0))

    def _solve(self) -> None:
        sharing = self.state.image.sharing
        asked = asked_of(sharing, columns_of(self.state), self.now, self.state.image.tenants)
        assert asked is not None, "there are jobs"
        shares = asked.answer(solve_shares(asked.policy, asked.problem))
        self._evolve(SharesSet(shares, policy=asked.policy))

    def _evolve(self, event: Event | Note) -> None:
        self.state = self.queue.evolve(self.state, self._fact(event))

    def _fact(self, event: Event | Note, log: LogName = GLOBAL_LOG) -> Fact:
        if isinstance(event, Note):
            return Fact(NO_LOG, 0, self.now, "", "bench", event, self.now)
        self._sequence += 1
        return Fact(log, self._sequence, self.now, "", "bench", event, self.now)

    def _followed(self, regions: Mapping[str, RegionSpec]) -> Iterator[tuple[LogName, tuple[Image, int]]]:
        for region in plan_of(FleetSpec(dict(regions)), "bench").regions:
            log = region_log(region.region)
            image = empty_image(log)
            for sequence, one in enumerate(region.inventories, 1):
                image.fold(Fact(log, sequence, self.now, "", "bench", NodesJoined(one.worker, one)))
            yield log, (image, len(region.inventories))
