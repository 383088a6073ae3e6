"""Workloads: each sort draws what it says, from its dice alone; and says so if it does not fit its fleet."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from msgspec.structs import replace

from core.nouns.instant import SECOND
from core.nouns.quantities import MILLI
from core.nouns.sharing import MICRO_STEPS, ShareSpec
from core.nouns.tenant import LEVEL_MAX, LEVEL_MIN
from core.nouns.workload import Kind
from runtime.fleet_file import EMULATED_NODE, RegionSpec
from scenarios.schema.fleet import FleetSpec, read_fleet, regions_of
from scenarios.schema.parts import parts_in
from scenarios.workload import CONTROLLED, Arrival, Workload
from scenarios.workloads.bounded import Bounded
from scenarios.workloads.bursts import Bursts
from scenarios.workloads.calibrated import Calibrated
from scenarios.workloads.diurnal import Diurnal
from scenarios.workloads.duty_cycle import DutyCycle
from scenarios.workloads.functions import Functions
from scenarios.workloads.mast import Mast
from scenarios.workloads.openb import Openb
from scenarios.workloads.philly import Philly
from scenarios.workloads.pipelines import Pipelines
from scenarios.workloads.services import Services
from scenarios.workloads.shared import Shared, gains_of
from scenarios.workloads.steady import Steady
from tests.scenarios.loads import FLEET, drawn, gpus_of_all, job_of, work_seconds

LARGE = FleetSpec(regions=1, nodes=500)


def percentile(values: list[float], share: float) -> float:
    """The nearest."""
    return sorted(values)[int(share * (len(values) - 1))]


def share_of(arrival: Arrival) -> ShareSpec:
    """What it tells a shared pool."""
    share = arrival.spec.share
    assert share is not None
    return share


# What all have in common.


def test_rare_properties_of_loads_are_drawn_on_request() -> None:
    """Kinds, limits, pins and second jobs: as many as are wanted; without a request, all are plain."""
    plain = drawn(Steady(workloads=400, hours=3, gpus_max=64))
    assert {(Kind.TRAINING, 0, (), 1)} == {
        (one.spec.kind, one.spec.max_duration, one.spec.regions, len(one.spec.jobs)) for one in plain
    }
    for share in (0.3, 1.0):
        load = Steady(workloads=400, hours=3, gpus_max=64, other_kinds_share=share, limited_share=share)
        specs = [one.spec for one in drawn(load)]
        assert share == pytest.approx(sum(spec.kind != Kind.TRAINING for spec in specs) / 400, abs=0.07)
        assert share == pytest.approx(sum(spec.max_duration > 0 for spec in specs) / 400, abs=0.07)
    regions = {"a": RegionSpec(nodes=4, gpu_type="A100"), "h": RegionSpec(nodes=4, gpu_type="H100")}
    for one in drawn(Steady(workloads=100, hours=3, pinned_share=1.0), FleetSpec(regions)):
        (name,) = one.spec.regions
        assert regions[name].gpu_type == one.spec.jobs[0].gpu_type


@pytest.mark.parametrize("per_node", [4, 8])
def test_two_jobs_have_the_gpus_of_one(per_node: int) -> None:
    """So that they fit where it would; each fits its nodes, they have two names, and the second works no longer."""
    fleet = FleetSpec(regions=1, nodes=7, gpus_per_node=per_node)
    count = 0
    for one in drawn(Steady(workloads=200, hours=3, gpus_max=7 * per_node, two_jobs_share=1.0), fleet):
        gpus = sum(job.tasks * job.need.gpu_milli for job in one.spec.jobs)
        assert gpus <= 7 * per_node * MILLI
        if len(one.spec.jobs) == 2:
            main, side = one.spec.jobs
            assert ("main", "side") == (main.name, side.name)
            assert max(main.need.gpu_milli, side.need.gpu_milli) <= per_node * MILLI
            assert main.emulation is not None
            assert side.emulation is not None
            assert side.emulation.work <= main.emulation.work
            count += 1
        else:
            assert MILLI == gpus
    assert count > 100


@pytest.mark.parametrize(
    "workload",
    [
        Steady(workloads=200, hours=3, gpus_max=64, compression=2),
        Bursts(workloads=200, hours=3, gpus_max=64, compression=2),
        Diurnal(workloads=200, hours=3, gpus_max=64, compression=2),
        Calibrated(workloads=200, hours=3, gpus_max=64, compression=2, minutes_max=600),
    ],
    ids=lambda workload: workload.name,
)
def test_as_many_as_are_wanted_within_the_hours(workload: Workload) -> None:
    """In their order, none larger or longer than allowed, each fit for a node, and the same again from the same dice."""
    arrivals = drawn(workload)
    assert 200 == len(arrivals)
    times = [arrival.at / SECOND for arrival in arrivals]
    assert sorted(times) == times
    assert 0 <= times[0] < times[-1] <= workload.span == 5400
    assert workload.lasts == 18_000
    for arrival in arrivals:
        job = job_of(arrival)
        assert gpus_of_all(arrival) <= 64
        assert 0 < work_seconds(arrival) <= workload.lasts
        assert job.tasks >= 1
        assert job.need.cpu_milli <= EMULATED_NODE.cpu_milli
        assert job.need.memory_bytes <= EMULATED_NODE.memory_bytes
        assert arrival.spec.priority in range(LEVEL_MIN, LEVEL_MAX + 1)
    assert len({arrival.spec.tenant for arrival in arrivals}) > 5
    assert arrivals == drawn(workload)
    assert arrivals != drawn(workload, seed=2)


def test_every_sort_is_tested() -> None:
    """A new sort is a new test; traces are tested in test_traces.py, pipelines in test_pipelines_load.py, functions in
    test_functions_load.py, services that lend in test_lending.py.
    """
    known = {Steady, Bounded, Bursts, Diurnal, Services, Calibrated, Mast, Openb, Philly, Pipelines, Shared}
    known |= {DutyCycle, Functions}
    assert known == set(parts_in("workloads", Workload).values())


def test_services_are_there_from_the_beginning_to_the_end() -> None:
    """All in the first tenth of the span, of tasks that stand alone, and none ends before the span does."""
    load = Services(workloads=10, hours=1, tasks=7, gpus=2, controller="control", unavailable_max=3)
    arrivals = drawn(load)
    assert 10 == len(arrivals)
    assert max(arrival.at for arrival in arrivals) < 360 * SECOND
    for arrival in arrivals:
        assert (Kind.SERVICE, CONTROLLED) == (arrival.spec.kind, arrival.spec.tenant)
        assert ("control", 3) == (arrival.spec.control.controller, arrival.spec.control.unavailable_max)
        assert (7, 2000) == (job_of(arrival).tasks, job_of(arrival).need.gpu_milli)
        assert work_seconds(arrival) >= 3600


def test_shared_jobs_run_on_any_type_of_the_pool_at_the_speeds_of_their_model() -> None:
    """What they are told to gain is what they gain, and their work is their steps; a liar's types are all as fast as the fastest."""
    regions = {
        "a": RegionSpec(nodes=4, gpu_type="A100", pool="shared"),
        "h": RegionSpec(nodes=4, gpu_type="H100", pool="shared"),
        "lab": RegionSpec(nodes=4, gpu_type="V100"),
    }
    fleet = FleetSpec(regions)
    arrivals = drawn(Shared(workloads=300, hours=3), fleet)
    models = set()
    for arrival in arrivals:
        spec, job, share = arrival.spec, job_of(arrival), share_of(arrival)
        models.add(share.model)
        assert (Kind.SHARED, {"A100", "H100"}) == (spec.kind, {job.gpu_type, *job.or_types})
        assert job.emulation is not None
        assert dict(job.emulation.speeds) == share.speeds
        fast, slow = sorted(share.speeds.values(), reverse=True)
        gains = gains_of(int(share.model.removeprefix("model-")), 2)
        assert gains[0] / gains[1] == pytest.approx(fast / slow, rel=1e-6)
        assert share.steps / (fast / MICRO_STEPS) == pytest.approx(job.emulation.work / SECOND, rel=0.01)
    assert len(models) > 3
    shares = Counter(gpus_of_all(one) for one in arrivals)
    assert shares[1] / 300 == pytest.approx(0.7, abs=0.08)
    liars = [share_of(one) for one in drawn(Shared(workloads=200, hours=3, lies_share=0.5), fleet)]
    assert sum(len(set(one.speeds.values())) == 1 for one in liars) / 200 == pytest.approx(0.5, abs=0.1)
    problem = Shared(workloads=3, hours=3).problem(FleetSpec({"lab": regions["lab"]}), ())
    assert problem is not None
    assert "no region of the fleet has nodes there" in problem.text


def test_compression_shortens_every_span() -> None:
    """A day in minutes: arrivals, work, checkpoints, failures, and what users do later."""
    load = Steady(
        workloads=60, hours=1, fails_share=0.5, cancels_share=0.5, holds_share=0.5, requeues_share=0.5
    )
    for one, other in zip(drawn(load), drawn(replace(load, compression=60)), strict=True):
        first, second = job_of(one).emulation, job_of(other).emulation
        assert first is not None
        assert second is not None
        spans = [
            (one.at, other.at),
            (one.cancel_after, other.cancel_after),
            (one.hold_after, other.hold_after),
            (one.release_after, other.release_after),
            (one.requeue_after, other.requeue_after),
            (first.work, second.work),
            (first.checkpoint_every, second.checkpoint_every),
            (first.fails_after, second.fails_after),
            (first.stop_span, second.stop_span),
        ]
        for slow, fast in spans:
            assert (slow is None) == (fast is None)
            assert (slow or 0) == pytest.approx(60 * (fast or 0), abs=100)


def test_shares_are_shares() -> None:
    """Of those who fail, cancel, hold, requeue and never save, within what chance allows."""
    load = Steady(
        workloads=4000,
        hours=10,
        fails_share=0.3,
        cancels_share=0.4,
        holds_share=0.1,
        requeues_share=0.2,
        unsaved_share=0.6,
    )
    arrivals = drawn(load)
    emulations = [emulation for one in arrivals if (emulation := job_of(one).emulation) is not None]
    counts = [
        sum(emulation.fails_after > 0 for emulation in emulations),
        sum(one.cancel_after is not None for one in arrivals),
        sum(one.hold_after is not None for one in arrivals),
        sum(one.requeue_after is not None for one in arrivals),
        sum(emulation.checkpoint_every == 0 for emulation in emulations),
    ]
    assert [0.3, 0.4, 0.1, 0.2, 0.6] == pytest.approx([count / 4000 for count in counts], abs=0.03)
    held = [one for one in arrivals if one.hold_after is not None]
    assert all(one.release_after is not None and one.release_after > (one.hold_after or 0) for one in held)


def test_one_share_does_not_sway_the_others_draws() -> None:
    """A scenario with cancels has the workloads of the one without."""
    without = drawn(Steady(workloads=50, hours=1, cancels_share=0.0))
    cancelled = drawn(Steady(workloads=50, hours=1, cancels_share=1.0))
    assert [one.spec for one in without] == [one.spec for one in cancelled]


def test_gpu_type_is_that_of_a_region() -> None:
    """Larger regions more often; the one that is named, always."""
    mixed = read_fleet("mixed", ())
    types = Counter(job_of(one).gpu_type for one in drawn(Steady(workloads=1000, hours=1), mixed))
    gpus = {"H100": 0, "A100": 0}
    for region in regions_of(mixed).values():
        gpus[region.gpu_type] += region.nodes * region.gpus_per_node
    assert types["H100"] / 1000 == pytest.approx(gpus["H100"] / sum(gpus.values()), abs=0.05)
    load = Steady(workloads=50, hours=1, gpu_type="A100")
    assert {"A100"} == {job_of(one).gpu_type for one in drawn(load, mixed)}


def test_whole_nodes_are_not_more_than_allowed() -> None:
    """Twelve GPUs on nodes of eight would be two nodes of eight: who may have no more than twelve gets one."""
    sizes = {gpus_of_all(one) for one in drawn(Steady(workloads=300, hours=1, gpus_max=12))}
    assert {1, 2, 4, 8} == sizes


# Each sort.


def test_steady_is_steady() -> None:
    """About as many in each tenth of the time."""
    arrivals = drawn(Steady(workloads=5000, hours=1))
    tenths = Counter(int(one.at / SECOND / 360) for one in arrivals)
    assert [500] * 10 == pytest.approx([tenths[n] for n in range(10)], rel=0.2)


def test_bursts_are_bursts() -> None:
    """Nine in ten arrive within seconds of each other, as often as was said; the others at any time."""
    load = Bursts(workloads=1000, hours=1, bursts=3, burst_seconds=5, burst_share=0.9)
    times = [arrival.at / SECOND for arrival in drawn(load)]
    groups: list[list[float]] = [[times[0]]]
    for time in times[1:]:
        if time - groups[-1][0] <= load.burst_seconds:
            groups[-1].append(time)
        else:
            groups.append([time])
    large = [len(group) for group in groups if len(group) > 100]
    assert 3 == len(large)
    assert sum(large) == pytest.approx(900, abs=40)


def test_day_has_its_peak_and_its_trough() -> None:
    """In the hour of the peak come as many as that, and twelve hours later the share that was said."""
    load = Diurnal(workloads=40_000, hours=48, peak_hour=9, trough_share=0.25)
    hours = Counter(int(share * 48) % 24 for share in load.times(random.Random(1)))
    around = {hour: (hours[(hour - 1) % 24] + hours[hour]) / 2 for hour in range(24)}
    assert 9 == max(around, key=lambda hour: around[hour]) or around[9] > 0.97 * max(around.values())
    assert around[21] / around[9] == pytest.approx(0.25, abs=0.03)
    assert (1.0, 0.25) == pytest.approx((load.rate(33.0), load.rate(21.0)))


def test_calibrated_load_is_that_of_the_fleet() -> None:
    """GPUs 16/64/128; durations 20 min, 6.7 h, 66 h; seven levels of priority; three in ten want no GPUs."""
    load = Calibrated(workloads=20_000, hours=24, recurring_share=0.0)
    arrivals = drawn(load, LARGE)
    with_gpus = [arrival for arrival in arrivals if job_of(arrival).need.gpu_milli]
    assert len(with_gpus) / 20_000 == pytest.approx(0.7, abs=0.02)
    sizes = [gpus_of_all(arrival) for arrival in with_gpus]
    assert [16, 64, 128] == [percentile(sizes, share) for share in (0.5, 0.9, 0.99)]
    minutes = [work_seconds(arrival) / 60 for arrival in with_gpus]
    found = [percentile(minutes, share) for share in (0.5, 0.9, 0.99)]
    assert [20, 6.7 * 60, 66 * 60] == pytest.approx(found, rel=0.15)
    assert max(minutes) <= 14 * 24 * 60
    others = [work_seconds(arrival) / 60 for arrival in arrivals if not job_of(arrival).need.gpu_milli]
    found = [percentile(others, share) for share in (0.5, 0.9, 0.99)]
    assert [38, 7.9 * 60, 38 * 60] == pytest.approx(found, rel=0.15)
    levels = Counter(arrival.spec.priority for arrival in arrivals)
    wanted = [3.0, 20.0, 16.0, 54.0, 0.2, 0.5, 6.0]
    assert wanted == pytest.approx([levels[level] / 200 for level in (6, 5, 4, 3, 2, 1, 0)], abs=1.0)
    assert 7 == len(levels)


def test_three_in_ten_recur() -> None:
    """Under one name, of one tenant and one size, a period after another, each about as long as the last."""
    arrivals = drawn(Calibrated(workloads=2000, hours=24))
    series: dict[str, list[Arrival]] = {}
    for arrival in arrivals:
        if "series" in arrival.spec.name:
            series.setdefault(arrival.spec.name, []).append(arrival)
    assert 600 == sum(len(runs) for runs in series.values())
    assert len(series) > 50
    for runs in series.values():
        assert 1 == len({(one.spec.tenant, one.spec.priority, gpus_of_all(one)) for one in runs})
        spans = [work_seconds(one) for one in runs]
        assert max(spans) <= 1.12 * min(spans)
        gaps = [(late.at - early.at) / SECOND for early, late in pairwise(runs)]
        assert gaps == pytest.approx([max(gaps, default=0)] * len(gaps))


def test_mast_load_sets_up_as_published() -> None:
    """150 s, 278 s and 449 s at p50, p90 and p99, all else as calibrated; work without GPUs has machines of its own."""
    arrivals = drawn(Mast(workloads=20_000, hours=24, recurring_share=0.0), LARGE)
    emulations = [emulation for one in arrivals if (emulation := job_of(one).emulation) is not None]
    spans = [one.set_up / SECOND for one in emulations]
    assert [150, 278, 449] == pytest.approx(
        [percentile(spans, share) for share in (0.5, 0.9, 0.99)], rel=0.05
    )
    sizes = [gpus_of_all(arrival) for arrival in arrivals if gpus_of_all(arrival)]
    assert [16, 64, 128] == [percentile(sizes, share) for share in (0.5, 0.9, 0.99)]
    fleet = FleetSpec({"r": RegionSpec(nodes=50, gpu_type="H100", cpu_nodes=50)})
    types = {
        (job_of(one).gpu_type, gpus_of_all(one) > 0) for one in drawn(Mast(workloads=100, hours=1), fleet)
    }
    assert {("H100", True), ("cpu", False)} == types


def test_mast_load_finds_a_full_fleet() -> None:
    """What stands at the start asks for as much as was said, and was drawn by its length: most of its GPUs run for hours yet."""
    load = Mast(workloads=1, hours=24, standing=2.0, recurring_share=0.0)
    arrivals = [one for one in drawn(load, LARGE) if "standing" in one.spec.name]
    assert max(one.at for one in arrivals) <= 600 * SECOND
    gpus = sum(gpus_of_all(one) for one in arrivals)
    assert 8_000 <= gpus <= 8_400
    assert 0.5 < sum(gpus_of_all(one) for one in arrivals if work_seconds(one) > 6 * 3600) / gpus


# Loads that do not fit.


@pytest.mark.parametrize(
    ("load", "field", "said"),
    [
        (
            Steady(workloads=1, hours=1, gpus_max=321),
            "gpus_max",
            "a workload of 321 GPUs fits no region of this fleet: the largest has 320",
        ),
        (
            Steady(workloads=1, hours=1, gpu_type="h100"),
            "gpu_type",
            "there is no GPU type `h100` (did you mean `H100`?); there are H100",
        ),
        (
            Bursts(workloads=1, hours=0.1, burst_seconds=400),
            "burst_seconds",
            "a burst of 400 s does not fit in 0.1 hours",
        ),
    ],
)
def test_load_that_does_not_fit(load: Workload, field: str, said: str) -> None:
    """The field is named, and what there is."""
    wrong = load.problem(FLEET, ("workload", load.name))
    assert wrong is not None
    assert (("workload", load.name, field), said) == (wrong.path, wrong.text)


def test_load_of_one_type_does_not_fit() -> None:
    """What counts is the largest region of the type, not of all."""
    wrong = Steady(workloads=1, hours=1, gpu_type="A100", gpus_max=300).problem(read_fleet("mixed", ()), ())
    assert wrong is not None
    assert "a workload of 300 A100 GPUs fits no region of this fleet: the largest has 240" == wrong.text


def test_load_needs_emulated_nodes() -> None:
    """This machine alone runs programs, which no load draws."""
    here = FleetSpec(regions={"here": RegionSpec(this_machine=True)})
    wrong = Steady(workloads=1, hours=1).problem(here, ())
    assert wrong is not None
    assert "a load is drawn for emulated nodes, and this fleet has none" == wrong.text
