"""Whether quota work notices a busy shared pool beside it: `python -m bench two_worlds`.

One region of 40 nodes with H100, on the whole plane in the simulated world: half of the nodes is under the load and the quotas of
`bench/fairness.py`, in half its size and for a day; the other half is in the pool `shared`. Four plays have the same submissions and
cancellations of quota work, minute by minute, as the first recorded them:

    quiet    the shared half has no job
    busy     the shared half has three times as many jobs as it has room for, which take turns in rounds of six minutes
    again    quiet, with other delays of messages: by how much waits differ though nothing else does
    open     quiet, and no node is in the shared pool: what the border costs quota work while the shared half is idle

    quota_wait_ratio   mean time from submission to the first start of all quota work that started in both plays, busy over quiet
    noise_ratio        the same of again over quiet
    open_ratio         the same of open over quiet
    started_ratio      quota work that started, busy over quiet
    border_breaks      grants in the busy play of shared work on other nodes, or of other work on shared nodes; and charges of shared work
                       that a quota counts
    shared_switches    picks with which rounds began in the busy play
    shared_gpu_share   of the shared half's GPU-time, the part that jobs held in the busy play; how busy it was

`--days D` plays other than one day, and `--shared-type A100` has another GPU type in the shared half.
"""

import argparse
import time
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bench.fairness import GPU_TYPE, Size, Week
from bench.support.report import Findings, at_most
from bench.support.sharing.load import dice_of, poisson_load
from bench.support.sharing.plane_jobs import TENANT, Pauses, workload_of
from bench.support.sharing.plane_play import columns_of
from bench.support.sharing.tables import GAVEL_TYPES, gavel_table
from bench.support.sharing.turns import Turns
from core.events.queue import WorkloadAwarded, WorkloadSubmitted
from core.events.region import ClaimGranted, GangStarted
from core.fact import Fact
from core.nouns.ids import WorkloadId
from core.nouns.instant import SECOND
from core.nouns.pool import SHARED_POOL
from core.nouns.ranking import RankingSettings
from core.nouns.sharing import ROUND_SPAN
from core.nouns.workload import Kind, WorkloadSpec
from core.sharing.speeds import SpeedTable
from runtime.fleet_file import RegionSpec
from scenarios.schema.fleet import FleetSpec, mixed
from scenarios.schema.tenants import TenantSpec

FULL = Size(1.0, 20, (2, 2, 3, 3, 4, 4, 4, 6, 6, 6, 8, 8, 8, 10, 10, 12, 12, 14, 18, 20))
QUICK = Size(0.05, 4, (4, 8, 8, 12))
REGION = "r0"
CROWD = 3.0
"""GPUs that all shared jobs together want, by those of the shared half."""
LENGTH = 100.0
"""By which shared jobs are longer than those of the published load, so that none ends."""
LIMIT = (
    "quota work notices jobs of the same GPU type that take turns; with another type in the pool it does not"
)


class Deed(Struct, frozen=True):
    """What a tenant did at one look."""

    look: int
    key: str
    spec: WorkloadSpec | None = None
    """None: it cancelled."""


class HalfShared(Week):
    """The load of fairness on half of the nodes, beside a pool that is quiet or busy."""

    def __init__(
        self,
        size: Size,
        seed: int,
        recorded: list[Deed] | None = None,
        shared_jobs: int = 0,
        *,
        has_border: bool = True,
        shared_type: str = GPU_TYPE,
    ) -> None:
        """Ready to play.

        recorded     what tenants do; None: they decide by themselves, and it is recorded in `deeds`
        shared_jobs  that are submitted at the begin
        has_border   half of the nodes is in the shared pool; without, all are for quota work
        shared_type  the GPU type of that half
        """
        self._has_border, self._shared_type = has_border, shared_type
        super().__init__(size, seed, RankingSettings())
        self.deeds: list[Deed] = []
        self.looks = 0
        self.waits: dict[str, float] = {}
        """Seconds from submission to the first start, by the key of quota work."""
        self.border_breaks = 0
        self.turns = Turns(columns_of({REGION: self._half(SHARED_POOL)}), ROUND_SPAN)
        self._recorded = recorded
        self._shared_jobs = shared_jobs
        self._submitted_at: dict[WorkloadId, tuple[str, int]] = {}
        self.witness.watchers.append(self._take)

    @property
    def fleet(self) -> FleetSpec:
        """Nodes for quota first, then as many in the shared pool."""
        other = self._half(SHARED_POOL if self._has_border else "")
        return FleetSpec({REGION: mixed((self._half(), other))}, planner=True)

    @property
    def other_tenants(self) -> dict[str, TenantSpec]:
        """Whose the shared work is."""
        return {str(TENANT): TenantSpec()}

    async def look(self, at: float) -> None:
        """Let shared jobs be submitted at first, then tenants do what they want now, or what was recorded."""
        if not self.looks:
            for number, spec in enumerate(shared_work(self._shared_jobs, self._shared_type)):
                await self.run.users.submit(f"shared-{number}", spec)
        if self._recorded is None:
            await super().look(at)
        else:
            for deed in self._recorded:
                if deed.look == self.looks:
                    await self._do(deed)
        self.looks += 1

    async def submit(self, key: str, spec: WorkloadSpec) -> None:
        """Submit it, and record that."""
        self.deeds.append(Deed(self.looks, key, spec))
        await super().submit(key, spec)

    async def cancel(self, workload: WorkloadId) -> None:
        """Cancel it, and record that."""
        key, _ = self._submitted_at[workload]
        self.deeds.append(Deed(self.looks, key))
        await super().cancel(workload)

    async def _do(self, deed: Deed) -> None:
        if deed.spec is not None:
            await self.submit(deed.key, deed.spec)
        elif (
            deed.key not in self.waits
        ):  # In the recorded play it waited: here it may run already, and then runs on.
            await self.cancel(self.run.users.accepted[deed.key])

    def _half(self, pool: str = "") -> RegionSpec:
        region = RegionSpec(nodes=self.size.nodes, gpu_type=GPU_TYPE, workers=1, agents=2)
        return replace(region, pool=pool, gpu_type=self._shared_type) if pool else region

    def _take(self, fact: Fact) -> None:
        self.turns.take(fact)
        match fact.event:
            case WorkloadSubmitted(workload=workload, spec=spec, key=key) if spec.kind is not Kind.SHARED:
                self._submitted_at[workload] = key, fact.at
            case GangStarted(workload=workload) if workload in self._submitted_at:
                key, since = self._submitted_at[workload]
                self.waits.setdefault(key, (fact.at - since) / SECOND)
            case ClaimGranted(claim=claim):
                is_shared = claim.kind == Kind.SHARED
                nodes = [node for spread in claim.spreads for node in spread.nodes]
                self.border_breaks += any((node >= self.size.nodes) != is_shared for node in nodes)
            case WorkloadAwarded(workload=workload, charge=charge) if workload in self.turns.jobs:
                self.border_breaks += GPU_TYPE in charge


def options(parser: argparse.ArgumentParser) -> None:
    """Add how long is played."""
    parser.add_argument("--days", type=float, default=FULL.days)
    parser.add_argument("--shared-type", default=GPU_TYPE, help="the GPU type of the shared half")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play quiet, busy, quiet again, and without the border."""
    begun = time.perf_counter()
    size = QUICK if is_quick else FULL
    if chosen is not None and not is_quick:
        size = replace(size, days=chosen.days)
    other = GPU_TYPE if chosen is None else chosen.shared_type
    quiet = HalfShared(size, 1, shared_type=other)
    quiet.play()
    busy = HalfShared(size, 1, quiet.deeds, jobs_for(size), shared_type=other)
    busy.play()
    again = HalfShared(size, 2, quiet.deeds, shared_type=other)
    again.play()
    without = HalfShared(size, 1, quiet.deeds, has_border=False)
    without.play()
    turned = busy.turns.figures()
    gpu_ns = 8 * size.nodes * size.days * 24 * 3_600 * SECOND
    figures = {
        "quota_wait_ratio": wait_ratio(busy.waits, quiet.waits),
        "noise_ratio": wait_ratio(again.waits, quiet.waits),
        "open_ratio": wait_ratio(without.waits, quiet.waits),
        "started_ratio": len(busy.waits) / max(1, len(quiet.waits)),
        "border_breaks": float(busy.border_breaks),
        "quiet_wait_seconds": mean(quiet.waits.values()),
        "busy_wait_seconds": mean(busy.waits.values()),
        "quota_started": float(len(quiet.waits)),
        "shared_jobs": float(len(busy.turns.jobs)),
        "shared_switches": turned["switches"],
        "shared_switch_p95_seconds": turned["switch_p95_seconds"],
        "shared_rounds": turned["rounds"],
        "shared_gpu_share": busy.turns.held_gpu_ns() / gpu_ns,
        "wall_seconds": time.perf_counter() - begun,
    }
    return Findings(
        figures,
        [
            at_most("quota_wait_ratio", figures["quota_wait_ratio"], 1.05, LIMIT),
            at_most("border_breaks", figures["border_breaks"], 0, "the border is crossed"),
        ],
    )


def wait_ratio(waits: dict[str, float], of: dict[str, float]) -> float:
    """Return the mean wait of the work that started in both plays, by that in the second."""
    both = [key for key in of if key in waits]
    assert both, "no work started in both"
    return mean(waits[key] for key in both) / mean(of[key] for key in both)


def mean(values: Iterable[float]) -> float:
    """Return the mean; 0 of none."""
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def jobs_for(size: Size) -> int:
    """Return how many jobs of the published widths crowd the shared half."""
    wanted, count = CROWD * 8 * size.nodes, 0
    for spec in shared_work(round(wanted)):
        if wanted <= 0:
            break
        wanted -= spec.jobs[0].tasks
        count += 1
    return count


def shared_work(count: int, gpu_type: str = GPU_TYPE) -> list[WorkloadSpec]:
    """Return so many jobs for the shared half: of the published widths, and as fast as on a V100."""
    if not count:
        return []
    known = gavel_table()
    table = SpeedTable(
        {
            shape: {gpu_type: speeds[GAVEL_TYPES[0]]}
            for shape, speeds in known.alone.items()
            if speeds.get(GAVEL_TYPES[0])
        },
        {},
    )
    jobs = poisson_load(count, 1.0, known, **dice_of(1), has_widths=True, has_weights=True)
    return [workload_of(replace(job, steps=LENGTH * job.steps), table, (gpu_type,), Pauses()) for job in jobs]
