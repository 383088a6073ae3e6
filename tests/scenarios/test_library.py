"""The scenarios that come with Mizzen: each can be read, and what each says must survive survives."""

import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from msgspec.structs import replace

from runtime.wiring import units_of
from scenarios.check import Check
from scenarios.fault import Fault
from scenarios.parts_page import PAGE, page
from scenarios.scenario import (
    FIELDS,
    LIBRARY,
    ScenarioError,
    library,
    load_scenario,
    parse_scenario,
    scenario_written,
)
from scenarios.schema.expectations import FIGURES
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.outcome import Outcome
from scenarios.schema.parts import parts_in
from scenarios.workload import Workload
from scenarios.workloads.steady import Steady
from tests.golden.seeds import recorded
from tests.scenarios.runs import digests_elsewhere, outcome_of_library, run_quietly

SLOW = ("quiet_day", "lossy_day")
"""They take a minute or more: `make soak` plays them, and their like in small is played here."""
SMALL = [name for name in library() if name not in SLOW and not load_scenario(name).runs_programs]
ELSEWHERE = ("tenant_floods_queue", "wide_gang_among_narrow")
"""Their first seeds are played by test_refusals_hold.py, which asks for the same and more."""
PLAYED = [
    pytest.param(name, seed, marks=[pytest.mark.slow] if seed > 1 or name in ELSEWHERE else [])
    for name in SMALL
    for seed in (1, 2, 3)
]
"""`make test` plays one seed of each, and `make soak` three."""
DECIDES_TWICE = frozenset(SMALL[::3])
"""Every third scenario, by name: there every decision is taken twice, the second time with empty memos, and the two must be equal."""
GROUPS = 12
"""Of the small scenarios, each group of which is tried under two hash seeds in one test."""
DOCUMENTED = {
    "first_light", "quiet_day", "lossy_day", "lossy_hour", "kill_each_component", "region_cut_off_and_healed", "nats_outage",
    "store_torn_tail", "disk_full", "clock_step", "black_hole_node", "zone_loss", "thundering_herd", "stale_views",
    "zombie_attempt_returns", "preemption_storm", "preemption_unheeded", "rolling_restart_under_load", "upgrade_old_log", "everything_at_once",
    "sixteen_agents_one_rack", "store_killed_mid_commit", "quota_shrinks", "tenant_floods_queue", "priority_inversion",
    "region_abandoned_then_back", "region_lost_mid_auction", "queue_killed_mid_award",
}  # fmt: skip
"""Names that are in the documentation and in people's fingers."""
PROCESSES = (
    "kill_each_component",
    "nats_outage",
    "paused_keepers",
    "rolling_restart_under_load",
    "quiet_minutes",
    "sixteen_agents_one_rack",
    "store_killed_mid_commit",
)
"""Made to be played as real processes too, where a second is a second."""
PROCESSES_SECONDS_MAX = 30.0

PROGRAMS = """
name: mine
survives: What runs on this machine.
fleet: {regions: {here: {this_machine: true}, eu: {nodes: 2, gpu_type: H100}}}
workload: {steady: {workloads: 1, hours: 1}}
"""


@pytest.mark.parametrize("name", library())
def test_scenario_can_be_read(name: str) -> None:
    """It is named as its file is, says in two sentences what survives, and is the same when it is written and read again."""
    spec = load_scenario(name)
    assert name == spec.name
    sentences = re.findall(r"[A-Z][^.]{20,}[.](?= |$)", spec.survives.strip().replace("0.1.0", "one"))
    assert 2 == len(sentences), spec.survives
    assert " ".join(sentences) == spec.survives.strip().replace("0.1.0", "one")
    assert spec == load_scenario(str(LIBRARY / f"{name}.yaml"))
    assert spec == parse_scenario(scenario_written(spec), "again.yaml")


def test_library_has_the_documented_scenarios() -> None:
    """No scenario is renamed that people know, and there are enough of them."""
    assert set() == DOCUMENTED - set(library())
    assert len(library()) >= 28


def test_every_fault_is_in_the_library() -> None:
    """A sort of misfortune that no scenario has would be tried by the swarm alone."""
    played = {fault.name for name in SMALL for fault in load_scenario(name).faults}
    assert set(parts_in("faults", Fault)) == played


def test_scenarios_expect_something() -> None:
    """A number that can be missed: one that does not say how much was to happen could pass without anything happening."""
    assert [] == [name for name in SMALL if not load_scenario(name).expectations]


def test_page_explains_a_scenario_that_is_there() -> None:
    """The example on it is in the library, letter by letter, and it names every check."""
    page = (LIBRARY.parent / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    name = parse_scenario(example, "README.md").name
    assert (LIBRARY / f"{name}.yaml").read_text(encoding="utf-8") == example
    assert [] == [check for check in parts_in("checks", Check) if f"`{check}`" not in page]
    assert [] == [field for field in FIELDS if f"`{field}`" not in page]


def test_page_has_every_field_of_every_part() -> None:
    """It is what `python -m scenarios.parts_page` writes from the source as it is now."""
    assert page() == PAGE.read_text(encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    for folder, kind in (("faults", Fault), ("workloads", Workload)):
        for name, part in parts_in(folder, kind).items():
            assert f"### {name}\n" in text
            assert [] == [field for field in part.__struct_fields__ if f"| `{field}` |" not in text]
    assert [] == [name for name in FIGURES if f"| `{name}` |" not in text]


@pytest.mark.parametrize("name", PROCESSES)
def test_scenario_for_real_processes_is_short(name: str) -> None:
    """Its load lasts less than half a minute, and each of its workloads a few seconds."""
    spec = load_scenario(name)
    assert spec.span <= PROCESSES_SECONDS_MAX
    assert max(workload.lasts for workload in spec.workload) <= 6.0


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("name", "seed"), PLAYED)
def test_scenario_survives(name: str, seed: int) -> None:
    """N12: nothing was wrong, every expectation was met, and whatever the file says struck; one that lies in wait for a
    keeper's next batch may wait until misfortune is over, but not each time.

    Where a digest is recorded (tests/golden/seeds.py), it comes to that, under the hash seed that this process happens to have.
    """
    spec = load_scenario(name)
    outcome = run_quietly(spec, seed, decides_twice=name in DECIDES_TWICE)
    assert_good(outcome)
    assert outcome.digest == recorded().get(name, {}).get(seed, outcome.digest)
    assert {} == outcome.skipped
    wanted = {fault.name: 0 for fault in spec.faults}
    for fault in spec.faults:
        wanted[fault.name] += fault.times
    assert wanted == outcome.wanted
    for name_of_fault, times in wanted.items():
        lies_in_wait = name_of_fault in ("failed_sync", "lost_tail", "torn_write")
        assert outcome.strikes[name_of_fault] >= ((times + 1) // 2 if lies_in_wait else times)


@pytest.mark.parametrize("name", ["kill_each_component", "rolling_restart_under_load"])
def test_scenario_that_kills_each_process_counts_them(name: str) -> None:
    """Exactly as many kills are expected as the plane has processes: one that was left out would be noticed."""
    spec = load_scenario(name)
    (kills,) = [str(one) for one in spec.expectations if one.figure == "kills"]
    assert f"kills == {len(units_of(spec.plan))}" == kills


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("names", [pytest.param(SMALL[n::GROUPS], id=str(n)) for n in range(GROUPS)])
def test_hash_seed_does_not_matter_to_the_library(names: Sequence[str]) -> None:
    """Each of the small scenarios comes to the same digest in processes with different hash seeds."""
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda hash_seed: digests_elsewhere(names, 1, hash_seed), ("0", "4242"))
    assert [*names] == list(first)
    assert first == second


def test_scenario_of_real_programs_is_not_simulated() -> None:
    """It says how it is played."""
    with pytest.raises(ScenarioError, match="runs programs on this machine; play it with `mizzen up FILE`"):
        run_quietly(parse_scenario(PROGRAMS, "mine.yaml"), 1)


def test_scenario_that_is_not_there(tmp_path: Path) -> None:
    """A name that the library does not have is answered with those it has; a path, with the path."""
    with pytest.raises(ScenarioError) as raised:
        load_scenario("quite_day")
    text = f"there is no scenario `quite_day` (did you mean `quiet_day`?); there are {', '.join(library())}"
    assert text == str(raised.value)
    missing = tmp_path / "mine.yaml"
    with pytest.raises(ScenarioError) as raised:
        load_scenario(str(missing))
    assert f"{missing}: there is no such file" == str(raised.value)
    missing.write_text((LIBRARY / "quiet_day.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    assert "quiet_day" == load_scenario(str(missing)).name
    missing.write_bytes(b"name: \xff")
    with pytest.raises(ScenarioError, match=r"mine\.yaml: it cannot be read \("):
        load_scenario(str(missing))


def test_lossy_day_in_small_survives_and_repeats() -> None:
    """The lossy day with few workloads on few nodes, twice."""
    small = replace(
        load_scenario("lossy_day"),
        fleet=FleetSpec(regions=2, nodes=6, workers=2),
        workload=(Steady(workloads=20, hours=0.4, minutes_median=3, minutes_max=10, gpus_max=32),),
        expectations=(),
    )
    first, second = run_quietly(small, 1), run_quietly(small, 1)
    assert_good(first)
    assert first.digest == second.digest


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_lossy_day_survives_twenty_times_and_repeats() -> None:
    """Twenty seeds, each twice, two at a time: 0 violations, no problems, the same digest each time."""
    seeds = [seed for seed in range(1, 21) for _ in range(2)]
    # Processes that begin afresh: what a fork takes along would be the same in both.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(outcome_of_library, ["lossy_day"] * len(seeds), seeds))
    processes = len(units_of(load_scenario("lossy_day").plan))
    digests: dict[int, set[str]] = {}
    for outcome in found:
        print(f"{outcome.scenario} seed {outcome.seed}: {outcome.digest} {outcome.first_problem()}")
        digests.setdefault(outcome.seed, set()).add(outcome.digest)
    assert [] == [(outcome.seed, outcome.first_problem()) for outcome in found if not outcome.is_good]
    assert [] == [outcome.seed for outcome in found if outcome.kills < processes]
    assert [1] * 20 == [len(digests[seed]) for seed in sorted(digests)]
    assert 20 == len(set.union(*digests.values()))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_quiet_day_survives() -> None:
    """Nothing strikes, and each workload that has room starts at once."""
    assert_good(run_quietly(load_scenario("quiet_day"), 1))


def assert_good(outcome: Outcome) -> None:
    """Nothing was wrong; what was, is shown."""
    assert [] == outcome.violations
    assert [] == outcome.problems
    assert [] == [met for met in outcome.expectations if not met.is_met]
    assert outcome.is_good
