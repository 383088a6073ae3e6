"""What is told of a whole plane: the figures by which published schedulers of training fleets are compared.

    allocation_mean, _min_hourly   GPU-hours that somebody held / GPU-hours that there were; of whole hours the least
    useful_rate                    GPU-hours of work that counts / GPU-hours that there were (core/figures/rates.py)
    within_quota_*_minutes         from the submission, or from the loss of an attempt, until work runs and is set up: of its wait the
                                   time in which its tenant had room for it, of waits that began so and are over (core/figures/waits.py)
    within_quota_*_queued_minutes  the same without set-up
    over_quota_*                   whole waits of those that began over quota; `_max_hours`: the longest of all that were ever over quota,
                                   began before the first hour that counts, or still wait
    slo_violations_N               of waits that began within quota, those that were over after more than N minutes within it, or are not
                                   yet; without a number: 10
    slo_high_violations_*          the same of high levels alone; `_worst_hour`: of those that began in one hour, 10 at least
    non_collocated_share           of the GPU-time of high-priority work that reads data, what ran elsewhere than its data's home

source    MAST (OSDI'24) §5.2, §5.5, §5.6. The paper does not say what its SLO is; ten minutes are a guess
"""

import math
from collections.abc import Callable, Sequence

from core.fact import Fact
from core.figures.rates import Rates, Use
from core.figures.spans import HOUR
from core.figures.waits import HIGH_LEVEL, Wait, Waits
from core.nouns.ids import GLOBAL_LOG, LogName
from core.nouns.instant import SECOND, Instant
from core.nouns.quantities import MILLI

MINUTE = 60 * SECOND
SLO_MINUTES = 10
SLO_ALSO = (5, 20)
"""Told beside it."""
CROWD_MIN = 10
"""Waits that begin in an hour of which it is told what share was late."""
GPU_BANDS = ((8, "up_to_8"), (32, "16_to_32"), (128, "64_to_128"), (math.inf, "over_128"))
"""Upper bounds, and what such waits are called."""
LENGTH_BANDS = ((10, "under_10m"), (60, "10m_to_1h"), (480, "1h_to_8h"), (math.inf, "over_8h"))
"""Of how long work runs, in minutes: the review of the published figures misses short jobs apart from long ones."""


class PlaneFigures:
    """Told of each fact of all logs: each log's in order, the logs in any."""

    def __init__(self, since: Instant) -> None:
        """`since`: what was before counts for nothing."""
        self.since = since
        self.queue = Waits()
        self.regions: dict[LogName, Rates] = {}

    def take(self, fact: Fact) -> None:
        """A fact of any log."""
        if fact.log == GLOBAL_LOG:
            self.queue.take(fact)
        else:
            if fact.log not in self.regions:
                self.regions[fact.log] = Rates(self.since)
            self.regions[fact.log].take(fact)

    def figures(self, until: Instant) -> dict[str, float]:
        """All of them, as of then."""
        found = self._of_rates(until) | self._of_waits(until)
        queue = self.queue
        found |= {f"ended_{phase.lower()}": float(count) for phase, count in sorted(queue.phases.items())}
        found["submitted"] = float(queue.submitted)
        found["preemptions"] = float(queue.preempted)
        found["non_collocated_share"] = queue.reading_away / queue.reading if queue.reading else 0.0
        return found

    def hours(self, until: Instant) -> list[float]:
        """Of each whole hour, what share was allocated."""
        whole = (until - self.since) // HOUR
        shares = []
        for hour in range(max(0, whole)):
            rows = [rates.spans.hours[hour] for rates in self._until(until) if hour < len(rates.spans.hours)]
            available = sum(row[0] for row in rows)
            shares.append(sum(row[1] for row in rows) / available if available else 0.0)
        return shares

    def _until(self, until: Instant) -> list[Rates]:
        for rates in self.regions.values():
            rates.spans.until(until)
        return [*self.regions.values()]

    def _of_rates(self, until: Instant) -> dict[str, float]:
        regions = self._until(until)
        available = sum(rates.spans.total(0) for rates in regions)
        if not available:
            return {}
        use = Use()
        for rates in regions:
            rates.add_use(use, until, self.queue.wasted)
        hours = self.hours(until)
        return {
            "allocation_mean": sum(rates.spans.total(1) for rates in regions) / available,
            "allocation_min_hourly": min(hours, default=0.0),
            "useful_rate": use.useful / available,
            "starting_share": use.starting / available,
            "set_up_share": use.set_up / available,
            "lost_share": use.lost / available,
            "stopping_share": use.stopping / available,
            "gpu_hours_available": available / HOUR / MILLI,
        }

    def _of_waits(self, until: Instant) -> dict[str, float]:
        self.queue.until(until)
        waits = [one for one in self.queue.waits if one.began_at >= self.since]
        within = [one for one in waits if one.is_within and one.has_started and one.gpu_milli]
        over = [one for one in waits if not one.is_within and one.gpu_milli]
        begun = [one for one in over if one.has_started]
        found = spread_of("within_quota", [one.within / MINUTE for one in within])
        found |= spread_of("within_quota_queued", [(one.within - one.set_up) / MINUTE for one in within])
        found |= spread_of("over_quota", [one.whole / MINUTE for one in begun])
        seen = [one for one in self.queue.waits if not one.ended_at or one.ended_at >= self.since]
        longest = [(one.gpu_milli / MILLI, one.whole / HOUR) for one in seen if one.over and one.gpu_milli]
        found["over_quota_max_hours"] = max((hours for _, hours in longest), default=0.0)
        for low, (high, band) in zip((0, *(one for one, _ in GPU_BANDS)), GPU_BANDS, strict=False):
            mine = [hours for gpus, hours in longest if low < gpus <= high]
            if mine:
                found[f"over_max_hours_gpus_{band}"] = max(mine)
        for name, bands, value in BANDS:
            for low, (high, band) in zip((-math.inf, *(one for one, _ in bands)), bands, strict=False):
                for sort, some in (("within", within), ("over", begun)):
                    minutes = [
                        (one.within if sort == "within" else one.whole) / MINUTE
                        for one in some
                        if low < value(one) <= high
                    ]
                    if minutes:
                        found[f"{sort}_p95_minutes_{name}_{band}"] = percentile(sorted(minutes), 0.95)
        return found | self._of_slo(waits)

    def _of_slo(self, waits: Sequence[Wait]) -> dict[str, float]:
        """A wait that is not over counts once it is too long."""
        found = {}
        every = [one for one in waits if one.is_within and one.gpu_milli]
        high = [one for one in every if one.level >= HIGH_LEVEL]
        for name, some in (("slo", every), ("slo_high", high)):
            for minutes in (SLO_MINUTES, *SLO_ALSO):
                suffix = "" if minutes == SLO_MINUTES else f"_{minutes}"
                found[f"{name}_violations{suffix}"] = violations(some, minutes)
            hours: dict[int, list[Wait]] = {}
            for one in some:
                hours.setdefault((one.began_at - self.since) // HOUR, []).append(one)
            crowded = [hour for hour in hours.values() if len(hour) >= CROWD_MIN]
            worst = max((violations(hour, SLO_MINUTES) for hour in crowded), default=0.0)
            found[f"{name}_violations_worst_hour"] = worst
            found[f"{name}_waits"] = float(len(some))
        return found


def violations(waits: Sequence[Wait], minutes: float) -> float:
    """Of those that have started or were too long within quota, the share that was."""
    late = sum(one.within > minutes * MINUTE for one in waits)
    known = sum(one.has_started or one.within > minutes * MINUTE for one in waits)
    return late / known if known else 0.0


def spread_of(name: str, minutes: list[float]) -> dict[str, float]:
    """Mean and percentiles of some waits."""
    if not minutes:
        return {}
    ordered = sorted(minutes)
    found = {f"{name}_mean_minutes": sum(ordered) / len(ordered)}
    found |= {f"{name}_p{share}_minutes": percentile(ordered, share / 100) for share in (50, 95, 99)}
    return found | {f"{name}_waits": float(len(ordered))}


def percentile(ordered: list[float], share: float) -> float:
    """The smallest of which at least this share is not larger; 0 of nothing."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else 0.0


Value = Callable[[Wait], float]
BANDS: tuple[tuple[str, Sequence[tuple[float, str]], Value], ...] = (
    ("gpus", GPU_BANDS, lambda wait: wait.gpu_milli / MILLI),
    ("runs", LENGTH_BANDS, lambda wait: wait.works / MINUTE),
)
