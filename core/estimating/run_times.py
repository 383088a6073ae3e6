"""How long work ran, remembered in little: the newest runs of each family, and the spread of all of a tenant or a size.

Who is forgotten: of a family all runs but the newest; of a tenant's families the one of which nothing has ended for longest; of
tenants the one of whom nothing has ended for longest. Spreads fade: every count is halved once there are many.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from core.nouns.ids import DatasetName, TenantName
from core.nouns.instant import MILLISECOND, Nanoseconds
from core.nouns.limits import (
    FAMILIES_OF_TENANT_MAX,
    FAMILY_DATASETS_MAX,
    FAMILY_RUNS_MAX,
    HISTORY_TENANTS_MAX,
    RUN_TIMES_COUNTED_MAX,
)
from core.nouns.quantities import MILLI


class PastRun(Struct, frozen=True, array_like=True):
    """One workload that has ended."""

    ran: Nanoseconds
    """In all attempts whose work counted."""
    gpu_milli: int
    gpu_type: str
    """As it was asked for."""
    is_whole: bool
    """Whether it completed, or ran as long as it was allowed to: how long it runs is known. If not, it failed or was cancelled."""
    size: int = 0
    """Of its input, in the unit of its user; 0: nobody said."""


class RunTimes(Struct):
    """A spread of run times, in steps of a quarter of an octave: no quantile is farther off than a tenth."""

    counts: dict[int, int] = field(default_factory=dict)
    """By step, how many."""
    total: int = 0

    def add(self, step: int) -> None:
        """One more, that ran so long: `step_of` that."""
        self.counts[step] = self.counts.get(step, 0) + 1
        self.total += 1
        if self.total > RUN_TIMES_COUNTED_MAX:
            self.counts = {step: count // 2 for step, count in self.counts.items() if count > 1}
            self.total = sum(self.counts.values())

    def median_beyond(self, ran: Nanoseconds) -> Nanoseconds | None:
        """How long half of those ran that ran longer than this; None when too few did to say."""
        first = step_of(ran)
        beyond = sorted((step, count) for step, count in self.counts.items() if step > first)
        left = sum(count for _, count in beyond)
        if left < FEW:
            return None
        passed = 0
        for step, count in beyond:
            passed += count
            if 2 * passed >= left:
                return span_of(step)
        raise AssertionError(beyond)

    def median(self) -> Nanoseconds | None:
        """How long half of them ran; None when there are too few."""
        return self.median_beyond(Nanoseconds(0))

    def quantile(self, part: float) -> Nanoseconds | None:
        """Return the span that at least this part of them did not exceed, short ones included; None when there are too few."""
        if self.total < FEW:
            return None
        passed = 0
        for step, count in sorted(self.counts.items()):
            passed += count
            if passed >= part * self.total:
                return span_of(step)
        raise AssertionError(self.counts)


FEW = 3
"""Of fewer runs a median says nothing."""


def step_of(ran: Nanoseconds) -> int:
    """The step of a span, from whole numbers alone: four steps for each doubling from a millisecond on, and 0 below."""
    units = ran * 4 // MILLISECOND
    if units < 4:
        return 0
    octave = units.bit_length() - 3
    return 4 * octave + (units >> octave) - 3


def span_of(step: int) -> Nanoseconds:
    """A span in the middle of a step."""
    if step == 0:
        return Nanoseconds(MILLISECOND // 2)
    octave, quarter = divmod(step - 1, 4)
    return Nanoseconds((2 * (4 + quarter) + 1 << octave) * MILLISECOND // 8)


class Family(Struct):
    """Workloads of one tenant that are the same again."""

    runs: list[PastRun] = field(default_factory=list)
    """The newest last."""
    ended: int = 0
    """How many ever."""
    read: dict[DatasetName, int] = field(default_factory=dict)
    """By dataset, which of the newest runs read it: a bit for each, the lowest for the newest."""

    def add(self, run: PastRun, data: Iterable[DatasetName] = ()) -> None:
        """One more, and the datasets that it read."""
        self.ended += 1
        self.runs.append(run)
        del self.runs[:-FAMILY_RUNS_MAX]
        now = dict.fromkeys(data)
        kept = (1 << FAMILY_RUNS_MAX) - 1
        for name in (*self.read, *(one for one in now if one not in self.read)):
            bits = (self.read.get(name, 0) << 1 | (name in now)) & kept
            if bits:
                self.read[name] = bits
            else:
                del self.read[name]
        for name in sorted(self.read, key=lambda one: self.read[one].bit_count())[:-FAMILY_DATASETS_MAX]:
            del self.read[name]

    def usual_data(self) -> tuple[DatasetName, ...]:
        """What half of the newest runs read, or more of them; by name."""
        return tuple(
            sorted(name for name, bits in self.read.items() if 2 * bits.bit_count() >= len(self.runs))
        )

    def typical(self) -> Nanoseconds | None:
        """The median of those that came to their end; of all, where none did; None when there are none."""
        whole = [run.ran for run in self.runs if run.is_whole]
        return median_of(whole or [run.ran for run in self.runs])


class TenantRuns(Struct):
    """Of one tenant."""

    families: dict[str, Family] = field(default_factory=dict)
    """By name, the one of which nothing has ended for longest first."""
    times: RunTimes = field(default_factory=RunTimes)

    def typical(self) -> Nanoseconds | None:
        """The median of its families' medians: one that runs often counts no more than others."""
        spans = [span for family in self.families.values() if (span := family.typical()) is not None]
        return median_of(spans)


class KnownRuns(Struct):
    """All that is remembered of what ran."""

    tenants: dict[TenantName, TenantRuns] = field(default_factory=dict)
    """The one of whom nothing has ended for longest first."""
    sizes: dict[int, RunTimes] = field(default_factory=dict)
    """By how many GPUs (`size_of`)."""
    everything: RunTimes = field(default_factory=RunTimes)

    def add(self, tenant: TenantName, family: str, run: PastRun, data: Iterable[DatasetName] = ()) -> None:
        """Something has ended that read these."""
        mine = self.tenants.pop(tenant, None) or TenantRuns()
        self.tenants[tenant] = mine
        alike = mine.families.pop(family, None) or Family()
        mine.families[family] = alike
        alike.add(run, data)
        step = step_of(run.ran)
        mine.times.add(step)
        self.sizes.setdefault(size_of(run.gpu_milli), RunTimes()).add(step)
        self.everything.add(step)
        if len(mine.families) > FAMILIES_OF_TENANT_MAX:
            del mine.families[next(iter(mine.families))]
        if len(self.tenants) > HISTORY_TENANTS_MAX:
            del self.tenants[next(iter(self.tenants))]

    def family(self, tenant: TenantName, family: str) -> Family | None:
        """One of them, if it is remembered."""
        mine = self.tenants.get(tenant)
        return mine.families.get(family) if mine is not None else None


def size_of(gpu_milli: int) -> int:
    """Alike for workloads of like GPU counts: 0 for none, then 1, 2, 3 to 4, 5 to 8 GPUs and so on."""
    whole = -(-gpu_milli // MILLI)
    return 1 + (whole - 1).bit_length() if whole else 0


def median_of(spans: Iterable[Nanoseconds]) -> Nanoseconds | None:
    """The lower one of two in the middle; None of nothing."""
    ordered: Sequence[Nanoseconds] = sorted(spans)
    return ordered[(len(ordered) - 1) // 2] if ordered else None
