"""Scenario files: what cannot be read says in which line and which field, and what is meant instead."""

import json
import random
import zlib
from pathlib import Path

import msgspec
import pytest

from core.nouns.ids import RegionName
from mizzen.cli import main
from mizzen.terminal.output import FAILED
from runtime.planning import solving
from runtime.wiring import Unit, units_of
from scenarios import scenario
from scenarios.fault import Fault, nobody
from scenarios.faults.crash import Crash
from scenarios.faults.message_loss import MessageLoss
from scenarios.faults.pool_need_set import PoolNeedSet
from scenarios.faults.round_crash import RoundCrash
from scenarios.play.simulated import run_simulated
from scenarios.scenario import (
    CalmSpec,
    JobSpec,
    ScenarioError,
    all_checks,
    load_scenario,
    parse_scenario,
    scenario_written,
)
from scenarios.schema.expectations import FIGURES, Expectation, compared, read_expectation
from scenarios.schema.fleet import FleetSpec, fleets
from scenarios.schema.parts import parts_in
from scenarios.swarm.data import OF_COPIES
from scenarios.swarm.draw import draw_scenario
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
  - p99_start_seconds <= 60
"""
FAULTS = ", ".join(sorted(parts_in("faults", Fault)))
FLEETS = ", ".join(fleets())
CHECKS = ", ".join(check.name for check in all_checks())
OF_CRASH = ", ".join(sorted(Crash.__struct_fields__))
SORTS = ", ".join(sorted(parts_in("workloads", Workload)))
HISTORY = ", ".join(sorted(path.name for path in scenario.HISTORIES.iterdir()))
ALONE = """\
name: a
survives: b
fleet: {regions: 1, nodes: 1}
workload:
  - steady: {workloads: 0, hours: 1}
"""


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
    assert (Expectation("p99_start_seconds", "<=", 60.0),) == spec.expectations
    assert 3600 == spec.span


def test_missing_fields_are_as_by_default() -> None:
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
    ("p99_start_seconds", "start_second_p99"): (
        "18:5: expectations[0]: there is no figure `start_second_p99` (did you mean `p99_start_seconds`?); "
        f"there are {', '.join(sorted(FIGURES))}"
    ),
    ("survives:", "weather: fine\nsurvives:"): (
        "2:1: weather: there is no field `weather`; there are calm, checks, controllers, dispatch, expectations, faults, fleet, history, "
        "jobs, name, preemption, ranking, survives, tenants, variant, workload"
    ),
    ("role: worker", "rle: worker"): (
        f"12:7: faults[1].crash.rle: there is no field `rle` (did you mean `role`?); there are {OF_CRASH}"
    ),
    ("nodes: 20", "nodes: 20, wings: 2"): (
        "3:32: fleet.wings: there is no field `wings`; "
        "there are agent_settings, agents, data, functions, gpu_memory, gpu_type, gpus_per_node, harvest, island, nodes, nodes_per_rack, planner, pool, pools, power_domains, regions, shared, workers, zones"
    ),
    ("role: worker", "role: worke"): (
        "11:5: faults[1].crash: there is no role `worke`; there are allocation_agent, auditor, job_queue, "
        "placement_store, reader, region_broker, task_control, worker"
    ),
    ("role: worker", "region: mars"): "11:5: faults[1].crash: there is no region `mars`; there are r0, r1",
    ("role: worker", "role: job_queue\n      region: r0"): (
        "11:5: faults[1].crash: a `job_queue` is of no region"
    ),
    ("role: worker", "member: w7"): (
        "11:5: faults[1].crash: there is no process `w7`; there are a0, a1, global, region.r0, region.r1, w0, w1, w2"
    ),
    ("role: worker", "role: worker\n      while_writing: true"): (
        "13:7: faults[1].crash.while_writing: only keepers write, and worker.r0.w0 is none: "
        "say `role: job_queue` or `role: placement_store`"
    ),
    ("role: worker", "role: placement_store\n      while_writing: true\n      mid_award: true"): (
        "14:7: faults[1].crash.mid_award: the queue alone writes awards: say `role: job_queue` and `while_writing: true` too"
    ),
    ("role: worker", "role: job_queue\n      mid_award: true"): (
        "13:7: faults[1].crash.mid_award: the queue alone writes awards: say `role: job_queue` and `while_writing: true` too"
    ),
    # Numbers that cannot be.
    ("share: 0.1", "share: -0.1"): "10:20: faults[0].message_loss.share: it must be at least 0",
    ("share: 0.1", "share: 1.1"): "10:20: faults[0].message_loss.share: it must be at most 1",
    ("share: 0.1", "share: 0.1, times: 0"): "10:32: faults[0].message_loss.times: it must be at least 1",
    ("[1, 5]", "[5, 1]"): (
        "13:7: faults[1].crash.down_seconds: it is from 5 to 1: the smaller one comes first"
    ),
    ("[1, 5]", "-1"): "13:7: faults[1].crash.down_seconds: it must be at least 0",
    ("[1, 5]", "[-1, 2]"): "13:22: faults[1].crash.down_seconds[0]: it must be at least 0",
    ("[1, 5]", "[1, 2, 3]"): "13:7: faults[1].crash.down_seconds: it must be a number, or two of them",
    ("[1, 5]", "soon"): "13:7: faults[1].crash.down_seconds: it must be a number, or two of them, not a text",
    ("workloads: 150", "workloads: 0"): "5:14: workload[0].steady.workloads: it must be at least 1",
    (
        "workloads: 150",
        "workloads: many",
    ): "5:14: workload[0].steady.workloads: it must be a whole number, not a text",
    ("hours: 1}", "hours: 0}"): "5:30: workload[0].steady.hours: it must be more than 0",
    ("minutes: 60", "minutes: 0"): "16:8: calm.minutes: it must be more than 0",
    ("workloads: 150", "workloads: 1.0e+6"): (
        "5:14: workload[0].steady.workloads: it must be a whole number, not a number with a fraction"
    ),
    (
        "workloads: 150",
        "workloads: 1000001",
    ): "5:14: workload[0].steady.workloads: it must be at most 1,000,000",
    ("workloads: 150", f"workloads: 1{400 * '0'}"): (
        "5:14: workload[0].steady.workloads: it must be at most 1,000,000"
    ),
    ("hours: 1}", "hours: .inf}"): "5:30: workload[0].steady.hours: it must be a finite number",
    ("hours: 1}", "hours: .nan}"): "5:30: workload[0].steady.hours: it must be a finite number",
    ("hours: 1}", "hours: 1.0e+308}"): "5:30: workload[0].steady.hours: it must be at most 10,000",
    ("hours: 1}", f"hours: 1{400 * '0'}}}"): "5:30: workload[0].steady.hours: it is too large",
    ("hours: 1}", "hours: 1e3}"): (
        "5:30: workload[0].steady.hours: it must be a number, not a text: "
        "YAML wants a point and a sign in a number such as 1.0e+6"
    ),
    ("hours: 1}", "hours: 1, compression: 0}"): (
        "5:40: workload[0].steady.compression: it must be at least 0.001"
    ),
    ("hours: 1}", "hours: 1, compression: 1.0e+7}"): (
        "5:40: workload[0].steady.compression: it must be at most 1,000,000"
    ),
    ("hours: 1}", "hours: 10000, compression: 0.001}"): (
        "5:44: workload[0].steady.compression: by this `hours` comes to 3.6e+10 seconds, "
        "and at most 100,000,000 can be played"
    ),
    ("hours: 1}", "hours: 1, minutes_max: 1000001}"): (
        "5:40: workload[0].steady.minutes_max: it must be at most 1,000,000"
    ),
    ("[1, 5]", "[1, .nan]"): "13:25: faults[1].crash.down_seconds[1]: it must be a finite number",
    ("[1, 5]", "[1, 10000001]"): "13:25: faults[1].crash.down_seconds[1]: it must be at most 10,000,000",
    ("[1, 5]", "[]"): "13:7: faults[1].crash.down_seconds: it must be a number, or two of them",
    (
        "share: 0.1",
        "share: 0.1, times: 10001",
    ): "10:32: faults[0].message_loss.times: it must be at most 10,000",
    ("minutes: 60", "minutes: 1000001"): "16:8: calm.minutes: it must be at most 1,000,000",
    ("minutes: 60", "minutes: .inf"): "16:8: calm.minutes: it must be a finite number",
    (
        "- crash_each",
        "- clock_skew: {share: 0.5}",
    ): "14:18: faults[2].clock_skew.share: it must be less than 0.5",
    ("- crash_each", "- clock_skew: {share: [0.1, 0.6]}"): (
        "14:31: faults[2].clock_skew.share[1]: it must be less than 0.5"
    ),
    ("- crash_each", "- crash_each: {after_seconds: [3601, 4000]}"): (
        "14:18: faults[2].crash_each.after_seconds: the load is over after 3600 seconds, and faults with it"
    ),
    ("share: 0.1", "ones: []"): "10:20: faults[0].message_loss.ones: it must not be empty",
    ("p99_start_seconds <= 60", "kills <= 1e400"): "18:5: expectations[0]: 1e400 is too large",
    # Fleets that are none, and loads that do not fit.
    ("nodes: 20", "nodes: 0"): "3:21: fleet.nodes: it must be at least 1",
    ("nodes: 20", "nodes: 2.5"): "3:21: fleet.nodes: it must be a whole number, not a number with a fraction",
    (", nodes: 20", ""): "3:1: fleet.nodes: a fleet needs `nodes`: how many each region has",
    ("regions: 2", "regions: two"): "3:9: fleet.regions: it must be a whole number or a mapping, not a text",
    ("regions: 2, nodes: 20", "regions: {}"): "3:9: fleet.regions: it must not be empty",
    ("regions: 2, nodes: 20", "regions: {eu: {nodes: 0, gpu_type: H100}}"): (
        "3:19: fleet.regions.eu: it needs `nodes` and `gpu_type`, or `this_machine: true`"
    ),
    ("regions: 2, nodes: 20", "regions: {eu: {nodes: 2, wings: 1}}"): (
        "3:34: fleet.regions.eu.wings: there is no field `wings`; there are agents, cpu_nodes, cpu_slots, data, functions, gpu_memory, gpu_type, "
        "gpus_per_node, island, nodes, nodes_per_rack, pool, power_domains, this_machine, workers, zones"
    ),
    ("regions: 2, nodes: 20", "regions: {eu: {nodes: 2, gpu_type: H100}}, nodes: 3"): (
        "3:52: fleet.nodes: regions that are named say this themselves, each for itself"
    ),
    ("nodes: 20", "nodes: 20, zones: 5"): (
        "3:32: fleet.zones: its 5 `zones` need a worker each, and a node for each worker"
    ),
    ("nodes: 20", "nodes: 20, power_domains: 4"): (
        "3:32: fleet.power_domains: its 4 `power_domains` need a worker each in one zone, and a zone has 3 at most"
    ),
    ("nodes: 20", "nodes: 20, pool: 'a.b'"): (
        "3:32: fleet.pool: it has only letters, digits, `-` and `_`, and at most 128 of them"
    ),
    ("regions: 2, nodes: 20", "regions: {eu: {nodes: 2, gpu_type: H100, power_domains: 2}}"): (
        "3:50: fleet.regions.eu.power_domains: its 2 `power_domains` need a worker each in one zone, and a zone has 1 at most"
    ),
    ("hours: 1}", "hours: 1, gpus_max: 321}"): (
        "5:40: workload[0].steady.gpus_max: a workload of 321 GPUs fits no region of this fleet: "
        "the largest has 160"
    ),
    ("hours: 1}", "hours: 1, gpu_type: A100}"): (
        "5:40: workload[0].steady.gpu_type: there is no GPU type `A100` (did you mean `H100`?); there are H100"
    ),
    ("nodes: 20", "nodes: 200001"): "3:21: fleet.nodes: it must be at most 200,000",
    ("nodes: 20", "nodes: 20, workers: 1001"): "3:32: fleet.workers: it must be at most 1,000",
    ("nodes: 20", "nodes: 20, agents: 1001"): "3:32: fleet.agents: it must be at most 1,000",
    ("nodes: 20", 'nodes: 20, gpu_type: ""'): "3:32: fleet.gpu_type: it must not be empty",
    ("regions: 2", "regions: 101"): "3:9: fleet.regions: it must be at most 100",
    ("regions: 2", "regions: [r0]"): "3:9: fleet.regions: it must be a whole number or a mapping, not a list",
    ("regions: 2, nodes: 20", "regions: {e u: {nodes: 2, gpu_type: H100}}"): (
        "3:19: fleet.regions.e u: it has only letters, digits, `-` and `_`, and at most 128 of them"
    ),
    ("regions: 2, nodes: 20", "regions: {eu: {nodes: 200001, gpu_type: H100}}"): (
        "3:24: fleet.regions.eu.nodes: it must be at most 200,000"
    ),
    ("regions: 2, nodes: 20", "regions: {eu: {nodes: 2, gpu_type: H100, agents: 1001}}"): (
        "3:50: fleet.regions.eu.agents: it must be at most 1,000"
    ),
    # What is not there, or of another kind.
    ("name: an_hour", "name: ../an_hour"): (
        "1:1: name: it has only letters, digits, `-` and `_`, and at most 128 of them"
    ),
    ("name: an_hour", f"name: {129 * 'a'}"): "1:1: name: it must have at most 128 characters",
    ("name: an_hour", "name: 2026-11-21"): "1:1: name: it must be a text, not a date; in quotes it is a text",
    ("name: an_hour", "name: 7"): "1:1: name: it must be a text, not a whole number; in quotes it is a text",
    ("name: an_hour", "name: 2026-13-45"): "1:1: name: 2026-13-45 is no value: month must be in 1..12",
    ("name: an_hour", "name: an_hour\non: 3"): (
        "2:1: on: there is no field `on`; there are calm, checks, controllers, dispatch, expectations, faults, fleet, history, jobs, name, "
        "preemption, ranking, survives, tenants, variant, workload"
    ),
    ("role: worker", "no: worker"): (
        f"12:7: faults[1].crash.no: there is no field `no`; there are {OF_CRASH}"
    ),
    ("name: an_hour", "history: ../an_hour\nname: an_hour"): (
        f"1:1: history: there is no history `../an_hour`; there are {HISTORY}"
    ),
    ("fleet: {regions: 2, nodes: 20}", "fleet: 7"): "3:1: fleet: it must be a mapping, not a whole number",
    ("name: an_hour\n", ""): "1:1: `name` is missing",
    ("survives: Everything.\n", ""): "1:1: `survives` is missing",
    ("fleet: {regions: 2, nodes: 20}\n", ""): "1:1: `fleet` is missing",
    ("workloads: 150, ", ""): "5:5: workload[0].steady: `workloads` is missing",
    ("name: an_hour", "name: [1]"): "1:1: name: it must be a text, not a list",
    ("checks: [conservation, liveness]", "checks: conservation"): "15:1: checks: it must be a list",
    ("- message_loss: {share: 0.1}", "- 7"): (
        "10:5: faults[0]: it must be one name of faults with its fields, as in `name: {...}`"
    ),
    ("- message_loss: {share: 0.1}", "- {message_loss: {}, crash: {}}"): (
        "10:5: faults[0]: it must be one name of faults with its fields, as in `name: {...}`"
    ),
    ("{minutes: 60}", "60"): "16:1: calm: it must be a mapping, not a whole number",
    ("p99_start_seconds <= 60", "p99_start_seconds"): (
        "18:5: expectations[0]: 'p99_start_seconds' is not of the form `FIGURE <= NUMBER` (or >=, <, >, ==)"
    ),
    ("p99_start_seconds <= 60", "60"): (
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


def test_one_load_in_a_list_is_told_where_it_stands() -> None:
    """With its number; without a list it has none."""
    said = "it must be at least 1"
    assert f"mine.yaml:5:14: workload[0].steady.workloads: {said}" == error_of(ALONE)
    without = ALONE.replace("  - steady", "  steady")
    assert f"mine.yaml:5:12: workload.steady.workloads: {said}" == error_of(without)
    fits = ALONE.replace("workloads: 0", "workloads: 1, gpus_max: 9")
    said = "a workload of 9 GPUs fits no region of this fleet: the largest has 8"
    assert f"mine.yaml:5:28: workload[0].steady.gpus_max: {said}" == error_of(fits)


def test_something_must_be_submitted() -> None:
    """A list of loads that is empty has no end at which calm could begin."""
    text = ALONE.partition("workload:")[0] + "workload: []\n"
    assert "mine.yaml:4:1: workload: it must not be empty: something must be submitted" == error_of(text)


def test_region_without_such_a_process() -> None:
    """This machine's region has a worker like the others; a region that has none of a role says where there is one."""
    units = [Unit("worker", RegionName("eu"), "w0"), Unit("region_broker", RegionName("us"))]
    said = "region `us` has no `worker`; there is one in eu"
    assert said == nobody(units, "worker", "us", "")


def test_second_document_is_refused() -> None:
    """Where it begins, and what to do with it."""
    text = GOOD + "---\n" + GOOD
    assert "mine.yaml:19:1: a second document begins here; each needs a file of its own" == error_of(text)


MANY = """\
name: many mistakes
survives: Nothing.
fleet: {regions: 2, nodes: 0, wings: 3}
workload:
  - steady: {workloads: -1, hours: .inf}
  - stedy
faults:
  - message_loss: {share: 2, ones: []}
  - crash: {down_seconds: soon}
calm: {hours: 1}
expectations: [7, deaths < 1]
"""


def test_all_mistakes_are_told_at_once() -> None:
    """In the order of the file, each with its place; the text itself counts them."""
    with pytest.raises(ScenarioError) as raised:
        parse_scenario(MANY, "mine.yaml")
    assert "mine.yaml: 13 things in it are wrong" == str(raised.value)
    said = [line.removeprefix("mine.yaml:").partition(": ")[0] for line in raised.value.problems]
    places = [
        "1:1", "3:21", "3:31", "5:14", "5:29", "6:5", "8:20", "8:30", "9:13", "10:1", "10:8", "11:16", "11:19",
    ]  # fmt: skip
    assert places == [place for place in said if place]
    assert "mine.yaml:10:1: calm: `minutes` is missing" in raised.value.problems


def test_mistakes_of_a_sound_fleet_and_of_one_that_is_not() -> None:
    """What strikes nobody is told beside what is of another kind, where the fleet says who is there."""
    text = GOOD.replace("role: worker", "role: nobody").replace("minutes: 60", "minutes: soon")
    with pytest.raises(ScenarioError) as raised:
        parse_scenario(text, "mine.yaml")
    assert 2 == len(raised.value.problems)
    with pytest.raises(ScenarioError) as raised:
        parse_scenario(text.replace("nodes: 20", "nodes: 0"), "mine.yaml")
    assert ["mine.yaml:3:21", "mine.yaml:16:8"] == [line.split(": ")[0] for line in raised.value.problems]


def test_command_shows_each_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a line of its own, before the sentence that counts them; JSON has them in a list."""
    path = tmp_path / "mine.yaml"
    path.write_text("name: a\nsurvives: b\nfleet: small\nworkload: []\nwhether: x\n", encoding="utf-8")
    assert FAILED == main(["scenario", "run", str(path)])
    first, second, last = capsys.readouterr().err.splitlines()
    assert f"{path}:4:1: workload: it must not be empty: something must be submitted" == first
    assert second.startswith(f"{path}:5:1: whether: there is no field `whether`")
    assert f"mizzen: {path}: 2 things in it are wrong" == last
    assert FAILED == main(["scenario", "run", str(path), "--json"])
    assert [first, second] == json.loads(capsys.readouterr().err)["problems"]


@pytest.mark.parametrize("name", ["mine.yml2", "mine", "{}/mine", "{}"])
def test_path_that_is_no_scenario_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that does not end in .yaml, there or not, and a directory are told as what they are."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text(GOOD, encoding="utf-8")
    (tmp_path / "mine.yml2").write_text(GOOD, encoding="utf-8")
    name = name.format(tmp_path)
    with pytest.raises(ScenarioError) as raised:
        load_scenario(name)
    is_directory = name == str(tmp_path)
    said = (
        "it is a directory, and a scenario file is wanted"
        if is_directory
        else "the name of a scenario file ends in .yaml"
    )
    assert f"{name}: {said}" == str(raised.value)


@pytest.mark.parametrize("name", ["../fleets/small", "", "quiet_dai"])
def test_name_is_no_way_out_of_the_library(name: str) -> None:
    """Whatever is none of its names is no scenario, though a file lies there."""
    with pytest.raises(ScenarioError, match=r"there is no scenario|ends in \.yaml"):
        load_scenario(name)


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
        faults=tuple(
            fault()
            for fault in parts_in("faults", Fault).values()
            if fault not in (RoundCrash, PoolNeedSet, *OF_COPIES)
        ),
        checks=all_checks()[:2],
        jobs=(JobSpec("job.yaml", 3.0, 8.0),),
    )
    assert spec == parse_scenario(scenario_written(spec), "mine.yaml")
    assert "checks:" not in scenario_written(msgspec.structs.replace(spec, checks=all_checks()))


def test_everything_drawn_can_be_written() -> None:
    """Whatever the swarm draws is handed on as a file, and is the same there."""
    for seed in range(1, 61):
        spec = draw_scenario(seed)
        assert spec == parse_scenario(scenario_written(spec), f"{seed}.yaml")


@pytest.mark.parametrize("seed", range(5))
def test_every_number_is_written_whole(seed: int) -> None:
    """Of any size, with all its digits: a shrunk scenario that expects a little less expects something else."""
    dice = random.Random(seed)
    good = parse_scenario(GOOD, "mine.yaml")
    for _ in range(40):
        numbers = [
            dice.choice(
                (
                    dice.uniform(0, 1),
                    dice.uniform(0, 1e6),
                    10.0 ** dice.randint(-9, 22),
                    dice.randrange(10**9),
                )
            )
            for _ in range(6)
        ]
        first, second = sorted(min(number, 3600.0) for number in numbers[:2])
        spec = msgspec.structs.replace(
            good,
            faults=(Crash(after_seconds=(first, second), down_seconds=dice.uniform(1e-9, 1e7)),),
            workload=(Steady(workloads=dice.randint(1, 10**6), hours=dice.uniform(1.0, 1e4)),),
            calm=CalmSpec(dice.uniform(1e-9, 1e6)),
            expectations=tuple(
                Expectation("facts", "<=", dice.choice((-1.0, 1.0)) * float(number)) for number in numbers
            ),
        )
        assert spec == parse_scenario(scenario_written(spec), "again.yaml"), scenario_written(spec)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (2e6, "2000000"),
        (0.1, "0.1"),
        (1e-7, "1e-07"),
        (1.5e300, "1.5e+300"),
        (-3.0, "-3"),
        (1e15, "1000000000000000.0"),
    ],
)
def test_expected_number_is_told_with_all_its_digits(number: float, text: str) -> None:
    """Whole where it is whole; and it is read as it was written."""
    expectation = Expectation("facts", "<", number)
    assert f"facts < {text}" == str(expectation)
    assert expectation == read_expectation(str(expectation), ())


def test_history_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of its file; another is answered with those that there are, and a file that is none with that."""
    kept = (scenario.HISTORIES / HISTORY).read_bytes()
    monkeypatch.setattr(scenario, "HISTORIES", tmp_path)
    text = GOOD + "history: release-1\n"
    assert "mine.yaml:19:1: history: there is no history `release-1`; there are none" == error_of(text)
    (tmp_path / "release-1").write_bytes(kept)
    assert "release-1" == parse_scenario(text, "mine.yaml").history
    said = "19:1: history: there is no history `release-2` (did you mean `release-1`?); there are release-1"
    assert f"mine.yaml:{said}" == error_of(GOOD + "history: release-2\n")
    for rotten in (b"", b"words", zlib.compress(b"words")):
        (tmp_path / "release-1").write_bytes(rotten)
        assert error_of(text).startswith("mine.yaml:19:1: history: release-1 is no history (")


# What a file says is what happens.


def test_expectations_are_compared() -> None:
    """With each sign, and with the figure beside the answer."""
    figures = {"kills": 3.0}
    signs = ("<=", ">=", "==", "<", ">")
    met = [compared(Expectation("kills", sign, 3.0), figures).is_met for sign in signs]
    assert [True, True, True, False, False] == met
    assert 3.0 == compared(Expectation("kills", "<", 3.0), figures).value


def test_expectation_that_is_not_met_fails_the_run() -> None:
    """N12: it is told as the first thing that was wrong."""
    text = scenario_written(msgspec.structs.replace(TINY, faults=()))
    spec = parse_scenario(text + "expectations: [kills == 0, completed >= 1000]\n", "mine.yaml")
    outcome = run_quietly(spec, 1)
    assert ([], []) == (outcome.violations, outcome.problems)
    assert [True, False] == [met.is_met for met in outcome.expectations]
    assert not outcome.is_good
    said = f"expected completed >= 1000, and it is {outcome.figures['completed']:g}"
    assert said == outcome.first_problem()


def test_scenario_kills_the_named_process() -> None:
    """One process, once, at its time."""
    crash = Crash(role="placement_store", region="r1", after_seconds=30)
    outcome = run_quietly(msgspec.structs.replace(TINY, faults=(crash,)), 1)
    assert ([], [], 1) == (outcome.violations, outcome.problems, outcome.kills)
    assert {"crash": 1} == outcome.strikes


def test_scenario_with_a_planner_wants_its_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one it is not played, for it would come to something else than where there is one."""
    monkeypatch.setattr(solving, "SOLVER", "no_such_solver")
    with pytest.raises(ScenarioError, match=r"install mizzen\[planner\]"):
        run_simulated(load_scenario("prices_follow_demand"), 1)


@pytest.mark.parametrize(
    "fleet",
    [
        "{regions: 2, nodes: 20, planner: PLANNER}",
        "{regions: {eu: {nodes: 20, gpu_type: H100}}, planner: PLANNER}",
    ],
)
def test_scenario_may_have_a_planner(fleet: str) -> None:
    """Beside regions that are alike, and beside regions that are named; what is neither yes nor no is refused."""
    text = "name: some\nsurvives: Much.\nfleet: FLEET\nworkload: {steady: {workloads: 1, hours: 1}}\n"
    for planner in ("true", "false"):
        spec = parse_scenario(text.replace("FLEET", fleet.replace("PLANNER", planner)), "some.yaml")
        assert (planner == "true") == (Unit("planner") in units_of(spec.plan))
        assert spec == parse_scenario(scenario_written(spec), "again.yaml")
    with pytest.raises(ScenarioError, match=r"some.yaml:3:\d+: fleet.planner"):
        parse_scenario(text.replace("FLEET", fleet.replace("PLANNER", "3")), "some.yaml")
