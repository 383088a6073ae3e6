"""The screen of `mizzen plane`: a table of units, their troubles, and broken invariants."""

import pytest
from msgspec.structs import replace

from core.messages.auditor import FoundViolation
from core.messages.units import AsideMessage, UnitStatus
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import MILLISECOND, SECOND
from mizzen.views.fleet.plane_health import PlaneHealth, UnitHealth
from mizzen.views.fleet.unit_table import VIOLATIONS_LISTED_MAX, WORKERS_LISTED_MAX, lines_of
from tests.builders import a_status

QUEUE = UnitHealth("job_queue", a_status("job_queue"), 0, 0)


def a_worker(number: int) -> UnitHealth:
    """One that is well."""
    name = f"worker.eu.w{number}"
    return UnitHealth(name, a_status(name), 0, 0)


def health(*units: UnitHealth, violations: int = 0, has_auditor: bool = True) -> PlaneHealth:
    """A plane of these units, with so many violations."""
    found = tuple(FoundViolation(1, GLOBAL_LOG, number, "held twice") for number in range(violations))
    return PlaneHealth(units, found, violations, has_auditor)


def lines(plane: PlaneHealth, *, shows_all: bool = False) -> list[str]:
    """The screen, as wide as it needs to be."""
    return lines_of(plane, None, shows_all=shows_all)


def test_plane_that_is_well_is_a_table_alone() -> None:
    """With the age of each unit and nothing to look at."""
    plane = health(QUEUE, a_worker(0))
    assert plane.is_well
    assert [
        "UNIT          STATE  HOST    BUILD   UP  RESTARTS  BEHIND  WAITING  LATE  LOST",
        "job_queue     UP     node-1  0.1.0  10s         0       0        0     -     0",
        "worker.eu.w0  UP     node-1  0.1.0  10s         0       0        0     -     0",
    ] == lines(plane)


def with_status(unit: UnitHealth, **changes: object) -> UnitHealth:
    """The same unit, telling something else."""
    assert unit.status is not None
    status: UnitStatus = replace(unit.status, **changes)
    return replace(unit, status=status)


def test_troubles_stand_below_the_table() -> None:
    """Each with its unit's name; counts and the last life's end are told, and are no trouble."""
    aside = AsideMessage("find-bid", "workload w-7", "OverflowError: too large", 4)
    waiting = with_status(QUEUE, waits_for="its clock is wrong", aside=(aside,))
    counted = with_status(
        a_worker(1), counts={"lost": 2, "gaps": 3}, last_end="killed by SIGKILL", late=1_500 * MILLISECOND
    )
    silent = replace(a_worker(2), silent_for=95 * SECOND, fault="does not answer")
    missing = UnitHealth("worker.eu.w3", None, 40 * SECOND, 0, "never heard")
    plane = health(waiting, counted, silent, missing)
    assert not plane.is_well
    assert not health(silent).is_well
    assert not health(missing).is_well
    assert health(counted).is_well
    shown = lines(plane)
    states = {line.split()[0]: line.split()[1] for line in shown[1:5]}
    assert {
        "job_queue": "WAITS",
        "worker.eu.w1": "UP",
        "worker.eu.w2": "SILENT",
        "worker.eu.w3": "MISSING",
    } == states
    assert shown[2].endswith("1.5s     5")
    assert [
        "",
        "job_queue: its clock is wrong",
        "job_queue: find-bid of workload w-7 is put aside (4 so far): OverflowError: too large",
        "worker.eu.w1: its life before this one ended: killed by SIGKILL",
        "worker.eu.w1: gaps 3, lost 2",
        "worker.eu.w2: does not answer, silent for 1m35s",
        "worker.eu.w3: never heard",
    ] == shown[5:]


@pytest.mark.parametrize("name", ["log_full", "not_archived", "not_said", "unanswered"])
def test_count_that_no_log_heals_is_a_trouble_while_it_grows(name: str) -> None:
    """One that grew earlier is told, and so is one that the logs heal."""
    grows = with_status(QUEUE, counts={name: 4, "gaps": 2}, grown=("gaps", name))
    assert not health(grows).is_well
    assert [
        "",
        f"job_queue: {name} has grown to 4 within the last 20s",
        f"job_queue: {', '.join(sorted(('gaps 2', f'{name} 4')))}",
    ] == lines(health(grows))[2:]
    assert health(with_status(QUEUE, counts={name: 4, "gaps": 2}, grown=("gaps",))).is_well


def test_many_workers_that_are_well_are_one_line() -> None:
    """Those that are not have lines of their own; `--all` lists every one."""
    ill = replace(a_worker(99), fault="does not answer")
    restarted = replace(a_worker(98), restarts=1)
    plane = health(QUEUE, *map(a_worker, range(WORKERS_LISTED_MAX + 1)), restarted, ill)
    shown = lines(plane)
    assert ["job_queue", "worker.eu.w98", "worker.eu.w99"] == [line.split()[0] for line in shown[1:4]]
    assert f"and {WORKERS_LISTED_MAX + 1} workers that are well; --all lists them" == shown[4]
    listed = [line for line in lines(plane, shows_all=True) if line.startswith("worker.") and ":" not in line]
    assert WORKERS_LISTED_MAX + 3 == len(listed)


def test_violations_stand_last() -> None:
    """The oldest of many, and how many more there are."""
    shown = lines(health(QUEUE, violations=VIOLATIONS_LISTED_MAX + 5))
    assert "15 invariants are broken:" in shown
    assert "  rule 1: global 0: held twice" in shown
    assert "  and 5 more" in shown
    assert "1 invariant is broken:" in lines(health(QUEUE, violations=1))
    assert not health(QUEUE, violations=1).is_well


def test_auditor_that_does_not_answer_is_told() -> None:
    """For then nothing is known of what is missing."""
    plane = health(QUEUE, has_auditor=False)
    assert not plane.is_well
    assert "auditor: does not answer, so missing units and violations are not known" in lines(plane)
