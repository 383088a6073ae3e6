"""A section of the queue's image: which datasets are read together, with how many GPUs, and what of that waits.

A row counts the GPU-seconds that workloads with the same datasets, GPU types and level band held, halved after each `USE_HALF_LIFE`,
and those that they wanted, held or not, halved after each `WANT_HALF_LIFE`. The demand of a row is the larger of both means: what was
held in the last weeks, or wanted in the last hours. So a plan hears within minutes of work that comes or cannot start.
"""

from msgspec import Struct, field

from core.events.data import DataWaited, WaitingReads
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    PrioritySet,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadChanged,
    WorkloadSubmitted,
)
from core.events.tenants import TenantSet
from core.fact import Fact
from core.images.base import Section
from core.nouns.data import band_of
from core.nouns.ids import DatasetName, TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.limits import READINGS_MAX, USE_HALF_LIFE, WANT_HALF_LIFE
from core.nouns.placement import gpu_milli_of
from core.nouns.tenant import TenantSettings
from core.nouns.workload import JobSpec, WorkloadSpec
from core.ranking.credit import FadingUse, charged, faded
from core.ranking.decay import LN2, ONE, left_after

UNNAMED_LEVEL = TenantSettings().level
"""Of work that names no level, of a tenant that no operator created."""


class ReadingRow(Struct):
    """Work that reads the same datasets on the same GPU types at the same level band."""

    data: tuple[DatasetName, ...]
    """By name."""
    types: tuple[str, ...]
    """Node types of which each will do."""
    band: int
    held: FadingUse = FadingUse()
    """By attempts whose tasks all run."""
    wanted: FadingUse = FadingUse()
    """By workloads that have not ended."""
    live: int = 0
    """Those workloads: while there are some, the row stays."""


class LiveReading(Struct):
    """A workload that has not ended and reads data."""

    row: str
    """Its key."""
    gpu_milli: int
    tenant: TenantName
    priority: int | None
    is_up: bool = False


class Readings(Section):
    """Rows by key, the one that changed longest ago first."""

    FOLDS = {
        WorkloadSubmitted: "_submitted",
        WorkloadChanged: "_changed",
        PrioritySet: "_priority_set",
        WorkloadAwarded: "_awarded",
        WorkloadBound: "_bound",
        AwardReturned: "_down",
        AttemptClosed: "_closed",
        WorkloadCancelled: "_cancelled",
        TenantSet: "_tenant_set",
        DataWaited: "_data_waited",
    }

    rows: dict[str, ReadingRow] = field(default_factory=dict)
    live: dict[WorkloadId, LiveReading] = field(default_factory=dict)
    levels: dict[TenantName, int] = field(default_factory=dict)
    """Of each tenant with one of its own."""
    since: int = 0
    """When the first workload that reads data was submitted; 0: none was."""
    waiting: tuple[WaitingReads, ...] = ()
    """As last recorded."""
    waiting_at: int = 0
    """When that was."""

    def gpus_of(self, row: ReadingRow, now: Instant) -> int:
        """Return the demand of a row in GPU milli: held on average in the last weeks, or wanted in the last hours."""
        age = now - self.since
        return max(_mean(row.held, now, USE_HALF_LIFE, age), _mean(row.wanted, now, WANT_HALF_LIFE, age))

    def _submitted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadSubmitted)
        spec = event.spec
        if not spec.data:
            return
        self.since = self.since or fact.at
        level = self._level(spec.tenant, spec.priority)
        row = self._row(spec, band_of(level))
        self.live[event.workload] = LiveReading(row, gpu_milli_of(spec.jobs), spec.tenant, spec.priority)
        self._count(event.workload, 1, fact.at)

    def _changed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadChanged)
        live = self.live.get(event.workload)
        if live is not None:
            self._count(event.workload, -1, fact.at)
            live.gpu_milli = gpu_milli_of(event.jobs)
            self._count(event.workload, 1, fact.at)

    def _priority_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PrioritySet)
        live = self.live.get(event.workload)
        if live is not None:
            live.priority = event.priority
            self._place(event.workload, self._level(live.tenant, event.priority), fact.at)

    def _awarded(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadAwarded)
        if event.workload in self.live and event.level is not None:
            self._place(event.workload, event.level, fact.at)

    def _bound(self, fact: Fact) -> None:
        self._set_up(fact, is_up=True)

    def _down(self, fact: Fact) -> None:
        self._set_up(fact, is_up=False)

    def _closed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptClosed)
        if event.phase.is_terminal:
            self._end(event.workload, fact.at)
        else:
            self._set_up(fact, is_up=False)

    def _cancelled(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadCancelled)
        self._end(event.workload, fact.at)

    def _tenant_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, TenantSet)
        self.levels[event.tenant] = event.settings.level

    def _data_waited(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DataWaited)
        self.waiting, self.waiting_at = event.rows, fact.at

    def _level(self, tenant: TenantName, priority: int | None) -> int:
        level = self.levels.get(tenant)
        if level is None:
            return UNNAMED_LEVEL if priority is None else priority
        return level if priority is None else min(priority, level)

    def _row(self, spec: WorkloadSpec, band: int) -> str:
        """Return the key of a workload's row, which is made if it is new; the row without work that changed longest ago makes room."""
        return self._made(tuple(sorted(spec.data)), types_of(spec.jobs), band)

    def _made(self, data: tuple[DatasetName, ...], types: tuple[str, ...], band: int) -> str:
        key = reading_key(data, types, band)
        if key not in self.rows:
            self.rows[key] = ReadingRow(data, types, band)
            if len(self.rows) > READINGS_MAX:
                idle = (one for one, row in self.rows.items() if one != key and not row.live)
                oldest = next(idle, None)
                if oldest is not None:
                    del self.rows[oldest]
        return key

    def _place(self, workload: WorkloadId, level: int, at: int) -> None:
        """Count a workload in the row of another level band."""
        live = self.live[workload]
        row = self.rows[live.row]
        if row.band != band_of(level):
            self._count(workload, -1, at)
            live.row = self._made(row.data, row.types, band_of(level))
            self._count(workload, 1, at)

    def _set_up(self, fact: Fact, *, is_up: bool) -> None:
        workload: WorkloadId = getattr(fact.event, "workload")  # noqa: B009  # of several events
        live = self.live.get(workload)
        if live is not None and live.is_up is not is_up:
            self._count(workload, -1, fact.at)
            live.is_up = is_up
            self._count(workload, 1, fact.at)

    def _end(self, workload: WorkloadId, at: int) -> None:
        if workload in self.live:
            self._count(workload, -1, at)
            del self.live[workload]

    def _count(self, workload: WorkloadId, sign: int, at: int) -> None:
        """Add a workload's GPUs to its row, or take them away."""
        live, now = self.live[workload], Instant(at)
        row = self.rows[live.row] = self.rows.pop(live.row)
        row.live += sign
        more = sign * live.gpu_milli
        row.wanted = charged(row.wanted, row.wanted.gpu_milli + more, now, WANT_HALF_LIFE)
        if live.is_up:
            row.held = charged(row.held, row.held.gpu_milli + more, now, USE_HALF_LIFE)


def reading_key(data: tuple[DatasetName, ...], types: tuple[str, ...], band: int) -> str:
    """Return the key of a row."""
    return f"{band}|{'|'.join(types)}|{','.join(data)}"


def types_of(jobs: tuple[JobSpec, ...]) -> tuple[str, ...]:
    """Return the node types of the first job with GPUs, or of the first job."""
    job = next((job for job in jobs if job.need.gpu_milli), jobs[0])
    return tuple(sorted(job.node_types))


def _mean(use: FadingUse, now: Instant, half_life: Nanoseconds, age: int) -> int:
    """Return the mean of an amount held over the window of its decay, or over `age` nanoseconds if it was counted for less.

    An amount that was held all the time has decayed sum half-life / ln 2 * (1 - 2 ** (-age / half-life)).
    """
    if age <= 0:
        return use.gpu_milli
    total = faded(use, max(now, use.at), half_life)
    window = half_life * (ONE - left_after(age, half_life)) // LN2  # nanoseconds
    return total * SECOND // max(window, SECOND)
