"""The scenarios that come with Mizzen: each can be read, what cannot be read says which field is wrong, and what each
says must survive survives.
"""

import random
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from msgspec.structs import replace

from scenarios.load import draw_load
from scenarios.scenario import (
    LIBRARY,
    FleetSpec,
    KillSpec,
    LoadSpec,
    MisfortuneSpec,
    ScenarioError,
    library,
    load_scenario,
    parse_scenario,
)
from tests.scenarios.runs import TINY, digest_of_library, run_quietly

GOOD = """
name: an_hour
survives: Everything.
fleet: {regions: 2, nodes: 20}
load: {workloads: 150, hours: 1}
misfortune: {drop: 0.1}
"""


@pytest.mark.parametrize("name", library())
def test_scenario_can_be_read(name: str) -> None:
    """It is named as its file is, says what survives, and is found by its name and by its path."""
    spec = load_scenario(name)
    assert name == spec.name
    assert len(spec.survives) > 40
    assert spec == load_scenario(str(LIBRARY / f"{name}.yaml"))


def test_library_has_what_is_documented() -> None:
    """These names are in the documentation and in people's fingers."""
    assert {"first_light", "lossy_day", "lossy_hour", "quiet_day"} <= set(library())


@pytest.mark.parametrize(
    ("good", "bad", "error"),
    [
        ("drop: 0.1", "drop: 0.1, wind: 3", "Object contains unknown field `wind` - at `$.misfortune`"),
        ("survives:", "weather: fine\nsurvives:", "Object contains unknown field `weather`"),
        ("regions: 2", "regions: two", "Expected `int | object`, got `str` - at `$.fleet.regions`"),
        ("hours: 1", "hours: [1]", "Expected `float`, got `array` - at `$.load.hours`"),
        ("nodes: 20", "nodes: 2.5", "Expected `int | null`, got `float` - at `$.fleet.nodes`"),
        ("drop: 0.1", "drop: -0.1", "Expected `float` >= 0.0 - at `$.misfortune.drop`"),
        ("drop: 0.1", "drop: 1.1", "Expected `float` <= 1.0 - at `$.misfortune.drop`"),
        ("drop: 0.1", "crashes_each: -1", "Expected `int` >= 0 - at `$.misfortune.crashes_each`"),
        ("nodes: 20", "nodes: 0", "Expected `int` >= 1 - at `$.fleet.nodes`"),
        (", nodes: 20", "", "Object missing required field `nodes` - at `$.fleet`"),
        ("hours: 1", "hours: 0", "Expected `float` > 0.0 - at `$.load.hours`"),
        ("name: an_hour\n", "", "Object missing required field `name`"),
        (GOOD, "- a list", "Expected `object`, got `array`"),
        (GOOD, "", "Expected `object`, got `null`"),
    ],
)
def test_bad_file_names_its_field(good: str, bad: str, error: str) -> None:
    """The file, the field, what it should be and what it is: enough to mend it."""
    text = GOOD.replace(good, bad)
    assert text != GOOD
    with pytest.raises(ScenarioError) as raised:
        parse_scenario(text, "mine.yaml")
    assert f"mine.yaml: {error}" == str(raised.value)


def test_file_that_is_no_yaml_says_where() -> None:
    """The line is named, as YAML's reader names it."""
    with pytest.raises(ScenarioError, match=r"mine\.yaml: while parsing .*") as raised:
        parse_scenario("name: [", "mine.yaml")
    assert "line 1, column 8" in str(raised.value)


def test_scenario_of_real_programs_is_not_simulated() -> None:
    """It says how it is played."""
    with pytest.raises(ScenarioError, match="runs programs on this machine; play it with `mizzen up FILE`"):
        run_quietly(load_scenario("first_light"), 1)


@pytest.mark.parametrize(
    ("fleet", "error"),
    [
        (
            "{regions: {eu: {nodes: 2}}}",
            "it needs `nodes` and `gpu_type`, or `this_machine: true` - at `$.fleet.regions.eu`",
        ),
        ("{regions: {}}", "Expected `object` of length >= 1 - at `$.fleet.regions`"),
        ("{regions: {eu: {wings: 2}}}", "Object contains unknown field `wings` - at `$.fleet.regions[...]`"),
    ],
)
def test_bad_region_is_named(fleet: str, error: str) -> None:
    """Regions by name are read as strictly as a fleet file."""
    with pytest.raises(ScenarioError) as raised:
        parse_scenario(GOOD.replace("{regions: 2, nodes: 20}", fleet), "mine.yaml")
    assert f"mine.yaml: {error}" == str(raised.value)


def test_compression_shortens_every_span() -> None:
    """A day in minutes: arrivals, work, checkpoints, cancels."""
    spec = parse_scenario(GOOD, "mine.yaml")
    slow = draw_load(spec.load, spec.fleet, random.Random(1))
    fast = draw_load(replace(spec.load, compression=60), spec.fleet, random.Random(1))
    for one, other in zip(slow, fast, strict=True):
        works = [
            arrival.spec.jobs[0].emulation.work for arrival in (one, other) if arrival.spec.jobs[0].emulation
        ]
        assert works[0] == pytest.approx(60 * works[1], abs=100)
        assert one.at == pytest.approx(60 * other.at, abs=100)


def test_scenario_kills_whom_it_names() -> None:
    """And says whom it cannot find."""
    day = replace(TINY, misfortune=MisfortuneSpec(kills=(KillSpec("placement_store", 30, "r1"),)))
    outcome = run_quietly(day, 1)
    assert ([], [], 1) == (outcome.violations, outcome.problems, outcome.kills)
    nobody = replace(TINY, misfortune=MisfortuneSpec(kills=(KillSpec("placement_store", 30, "mars"),)))
    with pytest.raises(ScenarioError, match=r"there is no placement_store in region mars"):
        run_quietly(nobody, 1)


def test_scenario_that_is_not_there(tmp_path: Path) -> None:
    """A name that the library does not have is answered with those it has; a path, with the path."""
    with pytest.raises(
        ScenarioError, match=r"^sunny_day: the library has first_light, lossy_day, lossy_hour, quiet_day"
    ):
        load_scenario("sunny_day")
    missing = tmp_path / "mine.yaml"
    with pytest.raises(ScenarioError) as raised:
        load_scenario(str(missing))
    assert f"{missing}: there is no such file" == str(raised.value)
    missing.write_text(GOOD, encoding="utf-8")
    assert 20 == load_scenario(str(missing)).fleet.nodes


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_lossy_hour_survives(seed: int) -> None:
    """No workload is lost, none runs twice, nothing is held at the end, and every log replays to what its keeper has."""
    outcome = run_quietly(load_scenario("lossy_hour"), seed)
    assert [] == outcome.violations
    assert [] == outcome.problems
    assert 150 == outcome.submitted == sum(outcome.ended.values())


def test_lossy_day_in_small_survives_and_repeats() -> None:
    """The lossy day with few workloads on few nodes, twice."""
    day = load_scenario("lossy_day")
    small = replace(
        day,
        fleet=FleetSpec(regions=2, nodes=6, workers=2),
        load=LoadSpec(workloads=20, hours=0.4, minutes_median=3, minutes_max=10, gpus_max=32),
    )
    first, second = run_quietly(small, 1), run_quietly(small, 1)
    assert [] == first.violations
    assert [] == first.problems
    assert first.digest == second.digest


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_lossy_day_survives_twenty_times_and_repeats() -> None:
    """Twenty seeds, each twice, two at a time: 0 violations, no problems, the same digest each time."""
    seeds = [seed for seed in range(1, 21) for _ in range(2)]
    # Processes that begin afresh: what a fork takes along would be the same in both.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(digest_of_library, ["lossy_day"] * len(seeds), seeds))
    digests: dict[int, set[str]] = {}
    for name, seed, digest, violations, problems in found:
        print(f"{name} seed {seed}: {digest}, {violations} violations, {len(problems)} problems")
        digests.setdefault(seed, set()).add(digest)
    assert [] == [
        (seed, violations, problems) for _, seed, _, violations, problems in found if violations or problems
    ]
    assert [1] * 20 == [len(digests[seed]) for seed in sorted(digests)]
    assert 20 == len(set.union(*digests.values()))
