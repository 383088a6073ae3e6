"""What is read, and what waits: rows of GPU-seconds that fade, from facts alone."""

import pytest

from core.events.data import DataWaited, WaitingReads
from core.events.queue import AttemptClosed, WorkloadAwarded, WorkloadBound, WorkloadCancelled
from core.events.tenants import TenantSet
from core.fact import Event
from core.images.readings import Readings, reading_key
from core.nouns.ids import DatasetName, TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.limits import USE_HALF_LIFE
from core.nouns.tenant import TenantSettings
from core.nouns.workload import EndCause, Phase
from tests.builders import EU, START, a_fact, a_job, a_spec, submitted

CLICKS, USERS = DatasetName("clicks"), DatasetName("users")
W1 = WorkloadId("w-1")
HOUR = seconds(3600)
KEY = reading_key((CLICKS, USERS), ("H100",), 1)


class Told:
    """A section that is told facts, at times after its beginning."""

    def __init__(self) -> None:
        self.section = Readings()
        self.count = 0

    def say(self, event: Event, at: int = 0) -> None:
        """A fact of so many nanoseconds after the beginning."""
        self.count += 1
        fold = self.section.FOLDS[type(event)]
        getattr(self.section, fold)(a_fact(event, self.count, at=Instant(START + at)))

    def gpus(self, at: int, key: str = KEY) -> int:
        """The demand of a row, in GPU milli."""
        return self.section.gpus_of(self.section.rows[key], Instant(START + at))


def reading(number: int = 1, gpus: int = 8, priority: int = 3, tenant: str = "default") -> Event:
    """A workload of so many GPUs that reads two datasets."""
    return submitted(number, a_spec(a_job(1, gpus), data=[USERS, CLICKS], priority=priority, tenant=tenant))


def awarded(level: int | None = 3) -> Event:
    """It is awarded."""
    return WorkloadAwarded(W1, 1, EU, 0, (), tenant=TenantName("default"), level=level)


def closed(phase: Phase = Phase.COMPLETED) -> Event:
    """Its attempt is over."""
    return AttemptClosed(W1, 1, EndCause.COMPLETED, phase, EU, 9)


def test_work_that_waits_and_work_that_runs_are_demand() -> None:
    """Eight GPUs that wait, and then run, are eight GPUs of demand all the time."""
    told = Told()
    told.say(reading())
    assert 8_000 == told.gpus(0)
    assert 8_000 == told.gpus(HOUR)
    told.say(awarded(), HOUR)
    told.say(WorkloadBound(W1, 1, EU, 5), HOUR)
    assert 8_000 == told.gpus(HOUR)
    row = told.section.rows[KEY]
    assert (8_000, 8_000) == (row.held.gpu_milli, row.wanted.gpu_milli)
    assert [8_000] * 3 == [round(told.gpus(hours * HOUR), -1) for hours in (2, 10, 100)]


def test_new_demand_is_heard_of_within_minutes() -> None:
    """Five times as much for ten minutes is two fifths more."""
    told = Told()
    told.say(reading())
    for number in range(2, 6):
        told.say(reading(number), 100 * HOUR)
    assert 1.3 < told.gpus(100 * HOUR + HOUR // 6) / 8_000 < 1.6


def test_demand_fades_after_the_end() -> None:
    """By half in a month, and what was cancelled before it ran fades in hours."""
    told = Told()
    told.say(reading())
    told.say(awarded())
    told.say(WorkloadBound(W1, 1, EU, 5))
    end = 20 * USE_HALF_LIFE
    told.say(closed(), end)
    assert 8_000 == round(told.gpus(end), -1)
    assert 4_000 == round(told.gpus(end + USE_HALF_LIFE), -1)
    assert {} == told.section.live
    other = Told()
    other.say(reading())
    other.say(WorkloadCancelled(W1), HOUR)
    assert other.gpus(12 * HOUR) < 100


def test_young_plane_counts_what_it_has_seen() -> None:
    """A mean over the time since the first workload, and not over a day that was not yet."""
    told = Told()
    told.say(reading())
    told.say(awarded())
    told.say(WorkloadBound(W1, 1, EU, 5), SECOND)
    assert 7_500 < told.gpus(HOUR) <= 8_100


def test_attempt_that_ends_waits_again() -> None:
    """Preempted work is pending, and is counted so."""
    told = Told()
    told.say(reading())
    told.say(awarded())
    told.say(WorkloadBound(W1, 1, EU, 5))
    told.say(closed(Phase.PENDING), HOUR)
    row = told.section.rows[KEY]
    assert (0, 8_000) == (row.held.gpu_milli, row.wanted.gpu_milli)


def test_level_band_is_that_of_the_award() -> None:
    """Before, that of the workload and its tenant: no higher than either."""
    told = Told()
    told.say(TenantSet(TenantName("ml"), 1, TenantSettings(level=2)))
    told.say(reading(priority=6, tenant="ml"))
    assert [0] == [row.band for row in told.section.rows.values() if row.wanted.gpu_milli]
    told.say(awarded(level=5))
    assert [2] == [row.band for row in told.section.rows.values() if row.wanted.gpu_milli]
    told.say(awarded(level=-1))
    assert [0] == [row.band for row in told.section.rows.values() if row.wanted.gpu_milli]


def test_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that changed longest ago makes room, unless work of it is there."""
    monkeypatch.setattr("core.images.readings.READINGS_MAX", 2)
    told = Told()
    told.say(reading(1))
    for number in (2, 3, 4):
        told.say(submitted(number, a_spec(data=[f"table-{number}"])))
        told.say(WorkloadCancelled(WorkloadId(f"w-{number}")))
    assert ["table-4"] == [
        name for row in told.section.rows.values() for name in row.data if name not in (CLICKS, USERS)
    ]
    assert KEY in told.section.rows


def test_row_of_work_without_gpus_stays_while_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """It wants no GPUs, and its end is counted in its row all the same."""
    monkeypatch.setattr("core.images.readings.READINGS_MAX", 2)
    told = Told()
    told.say(submitted(1, a_spec(a_job(1, 0, cpus=4), data=[CLICKS])))
    for number in (2, 3, 4):
        told.say(submitted(number, a_spec(data=[f"table-{number}"])))
    told.say(WorkloadCancelled(W1))
    assert {} == {name: row for name, row in told.section.live.items() if name == W1}


def test_work_without_data_is_not_counted() -> None:
    """Nor is what waits of it."""
    told = Told()
    told.say(submitted())
    told.say(awarded())
    assert ({}, {}, 0) == (told.section.rows, told.section.live, told.section.since)


def test_what_waits_is_as_last_told() -> None:
    """Each fact replaces the one before."""
    told = Told()
    rows = (WaitingReads((CLICKS,), ("H100",), 1, "no_data", 2, 8_000),)
    told.say(DataWaited(rows), HOUR)
    assert (rows, START + HOUR) == (told.section.waiting, told.section.waiting_at)
    told.say(DataWaited(()), 2 * HOUR)
    assert () == told.section.waiting
