"""Scenario files: what cannot be read says in which line and which field, and what is meant instead."""

from pathlib import Path

import msgspec
import pytest

from scenarios import scenario
from scenarios.expectations import FIGURES, Expectation, compared
from scenarios.fault import Fault
from scenarios.faults.crash import Crash
from scenarios.faults.message_loss import MessageLoss
from scenarios.fleet import FleetSpec, fleets
from scenarios.parts import parts_in
from scenarios.scenario import (
    CalmSpec,
    JobSpec,
    ScenarioError,
    all_checks,
    parse_scenario,
    scenario_written,
)
from scenarios.workload import Workload
from scenarios.workloads.bursts import Bursts
from scenarios.workloads.steady import Steady
from tests.scenarios.runs import TINY, run_quietly

GOOD = """\
name: an_hour
survives: Everything.
fleet: {regions: 2, nodes: 20}
workload:
  - steady: {workloads: 150, hours: 1}
  - bursts:
      workloads: 20
      hours: 1
faults:
  - message_loss: {share: 0.1}
  - crash:
      role: worker
      down_seconds: [1, 5]
  - crash_each
checks: [conservation, liveness]
calm: {minutes: 60}
expectations:
  - start_seconds_p99 <= 60
"""
FAULTS = ", ".join(sorted(parts_in("faults", Fault)))
FLEETS = ", ".join(fleets())
CHECKS = ", ".join(check.name for check in all_checks())
SORTS = ", ".join(sorted(parts_in("workloads", Workload)))


def error_of(text: str) -> str:
    """What is said of a file that cannot be read."""
    with pytest.raises(ScenarioError) as raised:
        parse_scenario(text, "mine.yaml")
    return str(raised.value)


def test_file_is_read() -> None:
    """Every part is found by its name, with its fields."""
    spec = parse_scenario(GOOD, "mine.yaml")
    assert FleetSpec(regions=2, nodes=20) == spec.fleet
    assert (Steady(workloads=150, hours=1), Bursts(workloads=20, hours=1)) == spec.workload
    assert (
        MessageLoss(share=0.1),
        Crash(role="worker", down_seconds=(1.0, 5.0)),
    ) == spec.faults[:2]
    assert ["message_loss", "crash", "crash_each"] == [fault.name for fault in spec.faults]
    assert ["conservation", "liveness"] == [check.name for check in spec.checks]
    assert CalmSpec(60) == spec.calm
    assert (Expectation("start_seconds_p99", "<=", 60.0),) == spec.expectations
    assert 3600 == spec.span


def test_what_is_left_out_is_as_by_default() -> None:
    """One load needs no list; all checks are asked; half a day is enough to calm down."""
    text = (
        "name: a\nsurvives: b\nfleet: {regions: 1, nodes: 1}\nworkload: {steady: {workloads: 1, hours: 1}}\n"
    )
    spec = parse_scenario(text, "mine.yaml")
    assert (Steady(workloads=1, hours=1),) == spec.workload
    assert all_checks() == spec.checks
    assert len(spec.checks) > 5
    assert (CalmSpec(720), (), (), ()) == (spec.calm, spec.faults, spec.expectations, spec.jobs)


ERRORS = {
    # Names that are not known, with what may have been meant.
    ("message_loss", "mesage_loss"): (
        "10:5: faults[0].mesage_loss: there is no fault `mesage_loss` (did you mean `message_loss`?); "
        f"there are {FAULTS}"
    ),
    ("- crash_each", "- earthquake"): (
        f"14:5: faults[2].earthquake: there is no fault `earthquake`; there are {FAULTS}"
    ),
    ("steady:", "stedy:"): (
        f"5:5: workload[0].stedy: there is no workload `stedy` (did you mean `steady`?); there are {SORTS}"
    ),
    ("conservation", "conversation"): (
        "15:10: checks[0].conversation: there is no check `conversation` (did you mean `conservation`?); "
        f"there are {CHECKS}"
    ),
    ("{regions: 2, nodes: 20}", "two_region"): (
        f"3:1: fleet: there is no fleet `two_region` (did you mean `two_regions`?); there are {FLEETS}"
    ),
    ("start_seconds_p99", "start_second_p99"): (
        "18:5: expectations[0]: there is no figure `start_second_p99` (did you mean `start_seconds_p99`?); "
        f"there are {', '.join(sorted(FIGURES))}"
    ),
    ("survives:", "weather: fine\nsurvives:"): (
        "2:1: weather: there is no field `weather`; there are calm, checks, expectations, faults, fleet, history, "
        "jobs, name, survives, workload"
    ),
    ("role: worker", "rle: worker"): (
        "12:7: faults[1].crash.rle: there is no field `rle` (did you mean `role`?); "
        "there are after_seconds, down_seconds, member, region, role, times"
    ),
    ("nodes: 20", "nodes: 20, wings: 2"): (
        "3:32: fleet.wings: there is no field `wings`; "
        "there are agents, gpu_type, gpus_per_node, nodes, nodes_per_rack, regions, workers, zones"
    ),
    ("minutes: 60", "hours: 1"): "16:8: calm.hours: there is no field `hours`; there are minutes",
    ("role: worker", "role: worke"): (
        "11:5: faults[1].crash: there is no role `worke`; there are allocation_agent, auditor, job_queue, "
        "placement_store, reader, region_broker, worker"
    ),
    ("role: worker", "region: mars"): "11:5: faults[1].crash: there is no region `mars`; there are r0, r1",
    # Numbers that cannot be.
    ("share: 0.1", "share: -0.1"): "10:20: faults[0].message_loss.share: Expected `float` >= 0.0",
    ("share: 0.1", "share: 1.1"): "10:20: faults[0].message_loss.share: Expected `float` <= 1.0",
    ("share: 0.1", "share: 0.1, times: 0"): "10:32: faults[0].message_loss.times: Expected `int` >= 1",
    ("[1, 5]", "[5, 1]"): (
        "11:5: faults[1].crash: `down_seconds` is from 5 to 1: the smaller one comes first"
    ),
    ("[1, 5]", "-1"): "13:7: faults[1].crash.down_seconds: Expected `float` >= 0.0",
    ("[1, 5]", "[-1, 2]"): "13:22: faults[1].crash.down_seconds[0]: Expected `float` >= 0.0",
    ("[1, 5]", "[1, 2, 3]"): "13:7: faults[1].crash.down_seconds: Expected `array` of length <= 2",
    ("[1, 5]", "soon"): "13:7: faults[1].crash.down_seconds: Expected `float | array`, got `str`",
    ("workloads: 150", "workloads: 0"): "5:14: workload[0].steady.workloads: Expected `int` >= 1",
    ("workloads: 150", "workloads: many"): "5:14: workload[0].steady.workloads: Expected `int`, got `str`",
    ("hours: 1}", "hours: 0}"): "5:30: workload[0].steady.hours: Expected `float` > 0.0",
    ("minutes: 60", "minutes: 0"): "16:8: calm.minutes: Expected `float` > 0.0",
    # Fleets that are none, and loads that do not fit.
    ("nodes: 20", "nodes: 0"): "3:21: fleet.nodes: Expected `int` >= 1",
    ("nodes: 20", "nodes: 2.5"): "3:21: fleet.nodes: Expected `int | null`, got `float`",
    (", nodes: 20", ""): "3:1: fleet.nodes: a fleet needs `nodes`: how many each region has",
    ("regions: 2", "regions: two"): "3:9: fleet.regions: Expected `int | object`, got `str`",
    ("regions: 2, nodes: 20", "regions: {}"): "3:9: fleet.regions: Expected `object` of length >= 1",
    ("regions: 2, nodes: 20", "regions: {eu: {nodes: 0, gpu_type: H100}}"): (
        "3:19: fleet.regions.eu: it needs `nodes` and `gpu_type`, or `this_machine: true`"
    ),
    ("regions: 2, nodes: 20", "regions: {eu: {nodes: 2, wings: 1}}"): (
        "3:34: fleet.regions.eu.wings: there is no field `wings`; there are agents, cpu_slots, gpu_type, "
        "gpus_per_node, nodes, nodes_per_rack, this_machine, workers, zones"
    ),
    ("regions: 2, nodes: 20", "regions: {eu: {nodes: 2, gpu_type: H100}}, nodes: 3"): (
        "3:52: fleet.nodes: regions that are named say this themselves, each for itself"
    ),
    ("nodes: 20", "nodes: 20, zones: 5"): (
        "3:9: fleet.regions.r0: its 5 `zones` need a worker each, and a node for each worker"
    ),
    ("hours: 1}", "hours: 1, gpus_max: 321}"): (
        "5:40: workload[0].steady.gpus_max: a workload of 321 GPUs fits no region of this fleet: "
        "the largest has 160"
    ),
    ("hours: 1}", "hours: 1, gpu_type: A100}"): (
        "5:40: workload[0].steady.gpu_type: there is no GPU type `A100` (did you mean `H100`?); there are H100"
    ),
    # What is not there, or of another kind.
    ("name: an_hour\n", ""): "1:1: `name` is missing",
    ("survives: Everything.\n", ""): "1:1: `survives` is missing",
    ("fleet: {regions: 2, nodes: 20}\n", ""): "1:1: `fleet` is missing",
    ("workloads: 150, ", ""): "5:5: workload[0].steady: Object missing required field `workloads`",
    ("name: an_hour", "name: [1]"): "1:1: name: it must be a text",
    ("checks: [conservation, liveness]", "checks: conservation"): "15:1: checks: it must be a list",
    ("- message_loss: {share: 0.1}", "- 7"): (
        "10:5: faults[0]: it must be one name of faults with its fields, as in `name: {...}`"
    ),
    ("- message_loss: {share: 0.1}", "- {message_loss: {}, crash: {}}"): (
        "10:5: faults[0]: it must be one name of faults with its fields, as in `name: {...}`"
    ),
    ("{minutes: 60}", "60"): "16:1: calm: Expected `object`, got `int`",
    ("p99 <= 60", "p99"): (
        "18:5: expectations[0]: 'start_seconds_p99' is not of the form `FIGURE <= NUMBER` (or >=, <, >, ==)"
    ),
    ("start_seconds_p99 <= 60", "60"): (
        "18:5: expectations[0]: 60 is not of the form `FIGURE <= NUMBER` (or >=, <, >, ==)"
    ),
    # What is no such file at all.
    (GOOD, ""): "1:1: it is empty",
    (GOOD, "# Nothing.\n"): "2:1: it is empty",
    (GOOD, "- a list"): "1:1: it must be a mapping of fields, such as `name: my_day`",
    (GOOD, "just words"): "1:1: it must be a mapping of fields, such as `name: my_day`",
    ("name: an_hour", "name: ["): (
        "3:6: it is not YAML: expected ',' or ']', but got ':' while parsing a flow sequence"
    ),
    ("name: an_hour", "name: an_hour\nname: again"): "2:1: name: it is there twice; first on line 1",
}
"""What is replaced in the good file, and by what; and what is said of it."""


@pytest.mark.parametrize(("good", "bad", "said"), [(*change, said) for change, said in ERRORS.items()])
def test_bad_file_names_line_and_field(good: str, bad: str, said: str) -> None:
    """The file, the line, the column, the field, what it should be and what was meant: enough to mend it."""
    assert good in GOOD
    assert f"mine.yaml:{said}" == error_of(GOOD.replace(good, bad, 1))


def test_text_that_is_no_value() -> None:
    """A date in month 13 is well-formed, and yet YAML has no value for it."""
    assert "mine.yaml: month must be in 1..12" == error_of(GOOD.replace("an_hour", "2026-13-01"))


# Writing.


@pytest.mark.parametrize("text", [GOOD, scenario_written(TINY)], ids=["good", "tiny"])
def test_written_scenario_is_read_as_it_was(text: str) -> None:
    """Also when it is written once more: a shrunk scenario is handed on as a file."""
    spec = parse_scenario(text, "mine.yaml")
    written = scenario_written(spec)
    assert spec == parse_scenario(written, "again.yaml")
    assert written == scenario_written(parse_scenario(written, "again.yaml"))


def test_everything_can_be_written() -> None:
    """Every sort of fault by its default; some checks; regions by name; jobs."""
    spec = msgspec.structs.replace(
        parse_scenario(GOOD.replace("{regions: 2, nodes: 20}", "mixed"), "mine.yaml"),
        faults=tuple(fault() for fault in parts_in("faults", Fault).values()),
        checks=all_checks()[:2],
        jobs=(JobSpec("job.yaml", 3.0, 8.0),),
    )
    assert spec == parse_scenario(scenario_written(spec), "mine.yaml")
    assert "checks:" not in scenario_written(msgspec.structs.replace(spec, checks=all_checks()))


def test_history_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of its file; another is answered with those that there are."""
    monkeypatch.setattr(scenario, "HISTORIES", tmp_path)
    text = GOOD + "history: release-1\n"
    assert "mine.yaml:19:1: history: there is no history `release-1`; there are none" == error_of(text)
    (tmp_path / "release-1").write_bytes(b"")
    assert "release-1" == parse_scenario(text, "mine.yaml").history
    said = "19:1: history: there is no history `release-2` (did you mean `release-1`?); there are release-1"
    assert f"mine.yaml:{said}" == error_of(GOOD + "history: release-2\n")


# What a file says is what happens.


def test_expectations_are_compared() -> None:
    """With each sign, and with the figure beside the answer."""
    figures = {"kills": 3.0}
    signs = ("<=", ">=", "==", "<", ">")
    met = [compared(Expectation("kills", sign, 3.0), figures).is_met for sign in signs]
    assert [True, True, True, False, False] == met
    assert 3.0 == compared(Expectation("kills", "<", 3.0), figures).value


def test_expectation_that_is_not_met_fails_the_run() -> None:
    """It is told as the first thing that was wrong."""
    text = scenario_written(msgspec.structs.replace(TINY, faults=()))
    spec = parse_scenario(text + "expectations: [kills == 0, completed >= 1000]\n", "mine.yaml")
    outcome = run_quietly(spec, 1)
    assert ([], []) == (outcome.violations, outcome.problems)
    assert [True, False] == [met.is_met for met in outcome.expectations]
    assert not outcome.is_good
    said = f"expected completed >= 1000, and it is {outcome.figures['completed']:g}"
    assert said == outcome.first_problem()


def test_scenario_kills_whom_it_names() -> None:
    """One process, once, at its time."""
    crash = Crash(role="placement_store", region="r1", after_seconds=30)
    outcome = run_quietly(msgspec.structs.replace(TINY, faults=(crash,)), 1)
    assert ([], [], 1) == (outcome.violations, outcome.problems, outcome.kills)
    assert {"crash": 1} == outcome.strikes
