"""How long the order of everything that waits takes: worked out anew, and kept from event to event.

Workloads of 200 tenants, the largest with a hundred and fifty times as many as the smallest, wait for up to 30 hours, so that a
fifth have reached the cap of what waiting earns. Then things happen one by one: a submission, a start of the first that may, an
end, a change of a quota, and a second that passes and in which everybody's use fades. After each the first 64 are asked for: as many
auctions as are open at once.

source    MAST §5.4: its scan pass took 34 s for 6,000 to 10,000 pending workloads, in Python (spec/mast-twine.md §4, E4)
"""

import random
import time
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bench.support.report import Findings, Yardstick, at_most
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, after, seconds
from core.nouns.limits import AUCTIONS_MAX
from core.nouns.quantities import MILLI
from core.nouns.ranking import CreditSettings
from core.ranking.credit import FadingUse, charged, faded
from core.ranking.incremental import RankedQueue
from core.ranking.scan import PendingWork, QuotaClass, Ranked, TenantState, scan

SIZES, QUICK_SIZES = (6_000, 10_000, 50_000, 100_000), (300, 600)
EVENTS, QUICK_EVENTS = 3_000, 100
COMPARED_EVERY, QUICK_COMPARED_EVERY = 150, 10
"""Events between comparisons of the whole order with a full scan."""
TENANTS = 200
TYPES, TYPE_WEIGHTS = ("H100", "A100", "V100"), (5, 3, 2)
GPUS, GPU_WEIGHTS = (1, 2, 4, 8, 16, 64), (40, 15, 15, 20, 8, 2)
LEVELS, LEVEL_WEIGHTS = range(6, -1, -1), (300, 2_000, 1_600, 5_400, 20, 50, 2)
"""Seven levels in the paper's shares, in ten-thousandths (spec/mast-twine.md §1.3)."""
WAIT_SPAN = 30 * 3_600 * SECOND
PATIENCE = seconds(600)
"""Far below the default, so that there is always somebody who keeps some quota."""
START = Instant(1_800_000_000 * SECOND)


class Timed(Struct, frozen=True):
    """One size."""

    full_seconds: float
    """The median of five full scans."""
    event_seconds: list[float]
    compared: int
    differed: int


def run(directory: Path, *, is_quick: bool) -> Findings:
    """All sizes, one after the other."""
    del directory
    sizes = QUICK_SIZES if is_quick else SIZES
    figures: dict[str, float] = {}
    found: dict[int, Timed] = {}
    for size in sizes:
        timed = found[size] = Crowd(size).timed(
            *((QUICK_EVENTS, QUICK_COMPARED_EVERY) if is_quick else (EVENTS, COMPARED_EVERY))
        )
        label = f"{size // 1_000}k" if size >= 1_000 else str(size)
        spans = sorted(timed.event_seconds)
        figures[f"full_{label}_seconds"] = timed.full_seconds
        figures[f"incremental_{label}_p50_ms"] = 1e3 * spans[len(spans) // 2]
        figures[f"incremental_{label}_p99_ms"] = 1e3 * spans[len(spans) * 99 // 100]
        figures[f"incremental_{label}_max_ms"] = 1e3 * spans[-1]
    figures["orders_compared"] = sum(timed.compared for timed in found.values())
    full = "full_600_seconds" if is_quick else "full_10k_seconds"
    event = "incremental_600_p99_ms" if is_quick else "incremental_100k_p99_ms"
    differs = float(sum(timed.differed for timed in found.values()))
    bars = [
        at_most("full_10k_seconds", figures.pop(full), 1, "a full scan is plain Python"),
        at_most("incremental_100k_p99_ms", figures.pop(event), 5, "a walk through blocks is plain Python"),
        at_most("order_differs", differs, 0, "the order that is kept is wrong"),
    ]
    return Findings({**figures, **{bar.name: bar.value for bar in bars}}, bars, [_published()])


def _published() -> Yardstick:
    return Yardstick(
        "full_6k_to_10k_seconds",
        34,
        "MAST §5.4, a scan pass of 6,000 to 10,000 pending workloads in Python; it reads and writes a database, this one does not",
    )


class Crowd:
    """So many that wait, in both forms, and what can happen to them."""

    def __init__(self, size: int, seed: int = 1) -> None:
        self.dice = random.Random(seed)
        self.now = START
        self.settings = CreditSettings()
        self.names = [TenantName(f"tenant-{number}") for number in range(TENANTS)]
        self.weights = [1 / (1 + number) ** 0.95 for number in range(TENANTS)]
        self.pending: dict[WorkloadId, PendingWork] = {}
        self.running: list[PendingWork] = []
        self.number = 0
        self.queue = RankedQueue(self.settings, self.now, patience=PATIENCE)
        self.uses: dict[TenantName, FadingUse] = {}
        self.tenants: dict[TenantName, TenantState] = {}
        for name, weight in zip(self.names, self.weights, strict=True):
            self._open(name, weight)
        waits = sorted((self.dice.randrange(WAIT_SPAN) for _ in range(size)), reverse=True)
        for wait in waits:
            self.submission(wait)

    def _open(self, name: TenantName, weight: float) -> None:
        """Full but for a few GPUs of each type: the state in which a queue is long."""
        gpus = 8 + round(2_000 * weight)
        entitled = dict.fromkeys(TYPES, gpus * MILLI)
        held = {gpu_type: (gpus - self.dice.randrange(0, 40)) * MILLI for gpu_type in TYPES}
        held = {gpu_type: max(0, count) for gpu_type, count in held.items()}
        self.uses[name] = FadingUse(
            gpus * MILLI * self.dice.randrange(10_000, 90_000), sum(held.values()), self.now
        )
        level = self.dice.choices(LEVELS, LEVEL_WEIGHTS)[0]
        limit = None if self.dice.random() < 0.5 else dict.fromkeys(TYPES, gpus * MILLI // 2)
        use, entitled_in_all = self.uses[name].gpu_milli_seconds, sum(entitled.values())
        state = TenantState(level, entitled, limit, held, {level: held}, use, entitled_in_all)
        self.tenants[name] = state
        self.queue.set_tenant(name, state)

    def timed(self, events: int, compared_every: int) -> Timed:
        """Full scans, then events, each until the first are known; now and then the whole order is compared."""
        fulls = []
        for _ in range(5):
            begun = time.perf_counter()
            self._scanned()
            fulls.append(time.perf_counter() - begun)
        self.queue.first(AUCTIONS_MAX)
        spans, compared, differed = [], 0, 0
        kinds = (self.submission, self.start, self.end, self.quota, self.second)
        for number in range(events):
            begun = time.perf_counter()
            kinds[number % len(kinds)]()
            self.queue.first(AUCTIONS_MAX)
            spans.append(time.perf_counter() - begun)
            if number % compared_every == compared_every - 1:
                compared += 1
                expected = self._scanned()
                differed += expected != list(self.queue.ranked())
        return Timed(sorted(fulls)[2], spans, compared, differed)

    def _scanned(self) -> list[Ranked]:
        return scan(self.pending.values(), self.tenants, self.settings, self.now, patience=PATIENCE)

    def submission(self, wait: int = 0) -> None:
        """One more, by a tenant after its weight."""
        self.number += 1
        name = WorkloadId(f"w-{self.number}")
        tenant = self.dice.choices(self.names, self.weights)[0]
        gpu_type = self.dice.choices(TYPES, TYPE_WEIGHTS)[0]
        need = {gpu_type: self.dice.choices(GPUS, GPU_WEIGHTS)[0] * MILLI}
        work = PendingWork(name, tenant, self.number, Instant(self.now - wait), (need,), shape=f"{need}")
        self.pending[name] = work
        self.queue.add(work)

    def start(self) -> None:
        """The first that may."""
        for one in self.queue.first(AUCTIONS_MAX):
            if one.quota_class is not QuotaClass.BLOCKED:
                del self.pending[one.work.workload]
                self.queue.drop(one.work.workload)
                self.running.append(one.work)
                self._hold(one.work, 1)
                return

    def end(self) -> None:
        """One of those that started here; its room is free for what its tenant has waiting."""
        if self.running:
            self._hold(self.running.pop(self.dice.randrange(len(self.running))), -1)

    def quota(self) -> None:
        """A tenant's entitlement of one type, by up to a tenth."""
        name = self.dice.choices(self.names, self.weights)[0]
        gpu_type = self.dice.choice(TYPES)
        state = self.tenants[name]
        count = state.entitled[gpu_type] * self.dice.randrange(90, 111) // 100
        self._set(name, replace(state, entitled={**state.entitled, gpu_type: count}))

    def second(self) -> None:
        """A second passes, and everybody's use with it."""
        self.now = after(self.now, seconds(1))
        self.queue.advance(self.now)
        for name in self.names:
            use = faded(self.uses[name], self.now, self.settings.half_life)
            self._set(name, replace(self.tenants[name], use=use))

    def _hold(self, work: PendingWork, sign: int) -> None:
        state, held = self.tenants[work.tenant], dict(self.tenants[work.tenant].held)
        for gpu_type, count in work.needs[0].items():
            held[gpu_type] += sign * count
        use = self.uses[work.tenant] = charged(
            self.uses[work.tenant], sum(held.values()), self.now, self.settings.half_life
        )
        self._set(
            work.tenant, replace(state, held=held, within={state.level: held}, use=use.gpu_milli_seconds)
        )

    def _set(self, name: TenantName, state: TenantState) -> None:
        self.tenants[name] = state
        self.queue.set_tenant(name, state)
