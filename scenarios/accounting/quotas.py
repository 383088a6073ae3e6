"""The accounts of quotas: how long work within quota waited for room that work over quota held, and who had to leave for whom.

Kept from facts alone, as somebody outside the plane sees them. Work within quota waits for its room while it has none that is
free, and would have if work over quota left whole nodes that it could be told to leave: in one region that has its data, on open
nodes that nobody else has a task or a promise on, and whose attempts have run for their tenant's least time. It waits no more once
each attempt that must leave for it was told to. Who is within quota is worked out anew from the queue's image each time, by the
reference scan.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from components.job_queue.state.quota_ledger import QuotaLedger
from core.events.queue import AttemptClosed
from core.events.region import AttemptEnded, AttemptRanked, ClaimGranted, StopOrdered
from core.fact import Fact
from core.images import GlobalImage, Image, RegionImage
from core.images.queue import WorkloadRow
from core.images.region import AttemptPhase
from core.nouns.fleet import gpu_type_of
from core.nouns.ids import GLOBAL_LOG, AttemptKey, LogName, RegionName, TenantName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.placement import gpu_milli_of
from core.nouns.quantities import MILLI, Amount
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import EndCause, JobSpec, Kind, Phase
from core.ranking.scan import PendingWork, QuotaClass, scan
from core.rules.data.datasets import against_data
from core.rules.quota import level_asked, level_of, may_be_over, narrowed, needs_of, types_of

LOOK_SECONDS = 0.5
"""Between looks at who waits; a wait is known to within so much at either end, and a shorter one may be overlooked."""


class Wait(Struct, frozen=True):
    """Work within quota waited for what was held over quota. Seconds as the witness was told of them."""

    workload: WorkloadId
    since: float
    until: float


class Borrowed(Struct, frozen=True):
    """An attempt that is over quota."""

    tenant: TenantName
    gpus: float
    since: float


class Node(Struct, frozen=True):
    """One that could be had whole."""

    number: int
    node_type: str
    total: Amount
    is_free: bool
    """Whether nobody need leave for that."""


class Quotas:
    """Told of each fact, and of the images as they were before."""

    def __init__(self, look_seconds: float = LOOK_SECONDS) -> None:
        self._look_seconds = look_seconds
        self.waits: list[Wait] = []
        """Those that are over."""
        self.pushed_out_early = self.pushed_out_over = self.pushed_out_within = 0
        self.borrowed_seconds: dict[WorkloadId, float] = {}
        """GPU-seconds, of attempts that are over."""
        self._waiting: dict[WorkloadId, float] = {}
        self._borrowing: dict[AttemptKey, Borrowed] = {}
        self._looked_at = self._told_at = 0.0
        self._clock = Instant(0)
        """Of the newest fact, on its keeper's clock: since when somebody waits or may be pushed out is told by these."""

    def take(self, fact: Fact, at: float, images: Mapping[LogName, Image]) -> None:
        """A fact that became durable then."""
        if at >= self._looked_at + self._look_seconds:
            self.look(at, images)
        self._told_at, self._clock = at, max(self._clock, Instant(fact.at))
        match fact.event:
            case StopOrdered(workload=workload, epoch=epoch, cause=EndCause.PREEMPTED):
                self._count_pushed_out(images[fact.log], (workload, epoch), fact.at)
            case ClaimGranted(workload=workload, epoch=epoch, claim=claim):
                self._rank((workload, epoch), claim.priority, claim.tenant, gpu_milli_of(claim.jobs), at)
            case AttemptRanked(workload=workload, epoch=epoch, level=level):
                image = images[fact.log]
                assert isinstance(image, RegionImage), fact.log
                held = image.capacity.holding(workload, epoch)
                if held is not None:
                    self._rank((workload, epoch), level, held.claim.tenant, gpu_milli_of(held.claim.jobs), at)
            case AttemptEnded(workload=workload, epoch=epoch) | AttemptClosed(workload=workload, epoch=epoch):
                self._rank((workload, epoch), OVER_LEVEL + 1, TenantName(""), 0, at)

    def look(self, at: float, images: Mapping[LogName, Image]) -> None:
        """See who waits, from the images as they were until then: since the fact before."""
        self._looked_at = at
        queue = images[GLOBAL_LOG]
        assert isinstance(queue, GlobalImage), GLOBAL_LOG
        now = list(waiting_for_room(queue, images, self._clock))
        for workload in now:
            self._waiting.setdefault(workload, self._told_at)
        for workload in [one for one in self._waiting if one not in now]:
            self.waits.append(Wait(workload, self._waiting.pop(workload), self._told_at))

    def all_waits(self, at: float) -> list[Wait]:
        """Those that are over, and those that are not."""
        return [*self.waits, *(Wait(workload, since, at) for workload, since in self._waiting.items())]

    def figures(self, at: float, images: Mapping[LogName, Image]) -> dict[str, float]:
        """What it can say of a run that ends then (scenarios/schema/expectations.py)."""
        self.look(at, images)
        waits = self.all_waits(at)
        return {
            "reclaim_seconds_max": max((wait.until - wait.since for wait in waits), default=0.0),
            "pushed_out_early": float(self.pushed_out_early),
            "pushed_out_over": float(self.pushed_out_over),
            "pushed_out_within": float(self.pushed_out_within),
            "borrowed_gpu_seconds": self.borrowed(at, None),
        }

    def borrowed(self, at: float, only: set[WorkloadId] | None) -> float:
        """GPU-seconds that were held over quota until then, by all workloads or by some."""
        done = sum(
            amount for workload, amount in self.borrowed_seconds.items() if only is None or workload in only
        )
        return done + sum(
            one.gpus * (at - one.since)
            for (workload, _), one in self._borrowing.items()
            if only is None or workload in only
        )

    def _rank(self, key: AttemptKey, level: int, tenant: TenantName, gpu_milli: int, at: float) -> None:
        was = self._borrowing.pop(key, None)
        if was is not None:
            done = self.borrowed_seconds.get(key[0], 0.0)
            self.borrowed_seconds[key[0]] = done + was.gpus * (at - was.since)
        if level == OVER_LEVEL:
            self._borrowing[key] = Borrowed(tenant, gpu_milli / MILLI, at)

    def _count_pushed_out(self, image: Image, key: AttemptKey, at: int) -> None:
        assert isinstance(image, RegionImage), key
        held = image.capacity.holding(*key)
        if held is None or held.is_ending:
            return
        self.pushed_out_early += held.spared_until > at
        is_over = held.claim.priority == OVER_LEVEL
        self.pushed_out_over += is_over
        self.pushed_out_within += not is_over


def waiting_for_room(
    queue: GlobalImage, images: Mapping[LogName, Image], now: Instant
) -> Iterator[WorkloadId]:
    """Work within quota that waits for what others hold over quota, the first in the queue first."""
    rows, tenants = queue.workloads.rows, queue.tenants
    book = QuotaLedger()
    book.set_quota(tenants)
    if not book.quota:
        return
    for workload, row in rows.items():
        if row.is_active:
            book.put(workload, row, level_of(row, tenants), row.charge)
    if all(one.level != OVER_LEVEL for one in book.awards.values()):
        return
    regions = {
        RegionName(log.removeprefix("region.")): image
        for log, image in images.items()
        if isinstance(image, RegionImage)
    }
    fleet = sorted({gpu_type_of(kind)[0] for image in regions.values() for kind in image.hardware.rows})
    nodes = {name: _nodes(queue, image, now) for name, image in regions.items()}
    # 1. What was awarded and has neither its room nor everybody's word to leave.
    for workload, row in rows.items():
        if row.is_active and row.level != OVER_LEVEL and row.region in regions:
            image = regions[row.region]
            attempt = image.attempts.row(workload, row.epoch)
            if attempt is None:
                jobs = narrowed(row.spec.jobs, row.types)
                if _takes_over(jobs, nodes[row.region], fleet):
                    yield workload
            elif attempt.phase is AttemptPhase.PROMISED and _waits_for_word(image, workload, row.epoch):
                yield workload
    # 2. What is within quota and has no award.
    if all(node.is_free for mine in nodes.values() for node in mine):
        return
    pending = [
        _work(workload, row, queue, book.quota, fleet)
        for workload, row in rows.items()
        if _wants(row) and _may_begin(queue, workload, now)
    ]
    names = {one.tenant for one in pending}
    states = {name: book.state(name, tenants, queue.usage, now, 0, 0) for name in sorted(names)}
    ranking = tenants.ranking
    order = scan(
        pending,
        states,
        ranking.credit,
        now,
        walks_by_level=ranking.walks_by_level,
        patience=ranking.quota_patience,
    )
    for one in order:
        if one.quota_class is not QuotaClass.NOMINAL:
            continue
        spec = rows[one.work.workload].spec
        level = level_asked(spec, tenants)
        for name in sorted(regions):
            may_run = (
                name in (spec.regions or (name,)) and against_data(queue.datasets, spec, name, level) is None
            )
            if may_run and _takes_over(spec.jobs, nodes[name], fleet):
                yield one.work.workload
                break


def _wants(row: WorkloadRow) -> bool:
    return row.phase is Phase.PENDING and not row.is_held and not row.is_cancel_requested


def _may_begin(queue: GlobalImage, workload: WorkloadId, now: Instant) -> bool:
    """Return whether it waits neither for other stages of its pipeline nor for a window."""
    stage = queue.pipelines.stage(workload)
    is_open = stage is None or stage.begins is None or stage.begins.begins_from(now) == now
    return is_open and queue.pipelines.is_ready(workload)


def _work(
    workload: WorkloadId, row: WorkloadRow, queue: GlobalImage, quota: frozenset[str], fleet: list[str]
) -> PendingWork:
    spec = row.spec
    return PendingWork(
        workload,
        spec.tenant,
        row.number,
        Instant(row.submitted_at),
        needs_of(spec, quota, fleet),
        level_asked(spec, queue.tenants),
        may_be_over(spec.kind),
        gpu_milli_of(spec.jobs) > 0,
    )


def _waits_for_word(image: RegionImage, workload: WorkloadId, epoch: int) -> bool:
    """Whether somebody who must leave for it was not told to yet."""
    claim = image.capacity.promise(workload, epoch)
    victims = [image.capacity.holding(*key) for key in claim.victims] if claim is not None else []
    return any(held is not None and not held.is_ending for held in victims)


def _nodes(queue: GlobalImage, image: RegionImage, now: Instant) -> list[Node]:
    """Those that could be had whole, the free ones first."""
    capacity = image.capacity
    going: dict[int, int] = {}
    promised = {
        key for claims in capacity.promises.values() for one in claims.values() for key in one.victims
    }
    for workload, epoch, held in capacity.live():
        row = queue.workloads.rows.get(workload)
        is_over = row is not None and row.is_active and row.epoch == epoch and row.level == OVER_LEVEL
        may_go = held.claim.kind != Kind.INTERACTIVE and held.spared_until <= now
        if not is_over or not may_go or held.is_ending or (workload, epoch) in promised:
            continue
        for job, spread in zip(held.claim.jobs, held.claim.spreads, strict=True):
            for node, count in zip(spread.nodes, spread.tasks, strict=True):
                going[node] = going.get(node, 0) + job.need.gpu_milli * count
    found = []
    gpu, cpu, memory = capacity.gpu, capacity.cpu, capacity.memory
    for node, node_type in enumerate(capacity.node_type):
        rest = gpu.ending[node] + gpu.reserved[node] + gpu.held[node] - going.get(node, 0)
        if node_type and capacity.is_open(node) and not rest:
            total = Amount(gpu.total[node], cpu.total[node], memory.total[node])
            found.append(Node(node, gpu_type_of(node_type)[0], total, node not in going))
    found.sort(key=lambda node: (not node.is_free, node.number))
    return found


def _takes_over(jobs: tuple[JobSpec, ...], nodes: list[Node], fleet: list[str]) -> bool:
    """Whether it fits, and only if somebody leaves. What it would take is nobody else's then."""
    left, taken = [*nodes], []
    for job in jobs:
        for kind in types_of(job, fleet):
            mine, tasks = [], job.tasks
            for node in left:
                fits = _tasks_on(node, job) if node.node_type == kind or not job.need.gpu_milli else 0
                if tasks > 0 and fits > 0:
                    mine.append(node)
                    tasks -= fits
            if tasks <= 0:
                taken += mine
                left = [node for node in left if node not in mine]
                break
        else:
            return False
    nodes[:] = left
    return any(not node.is_free for node in taken)


def _tasks_on(node: Node, job: JobSpec) -> int:
    need, total = job.need, node.total
    pairs = (
        (need.gpu_milli, total.gpu_milli),
        (need.cpu_milli, total.cpu_milli),
        (need.memory_bytes, total.memory_bytes),
    )
    return min((has // wants for wants, has in pairs if wants), default=job.tasks)
