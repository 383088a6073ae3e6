"""Pods that lend their devices, in small: cycles are read and drawn, devices come back within the grace, and shares are of what could be had."""

import gzip
from itertools import pairwise
from pathlib import Path

import pytest

from bench.gpu_harvest import WAYS, findings_of, run
from bench.support.harvest.finders import AnyIdle, AtRandom
from bench.support.harvest.lending import Lending, Lent, clairvoyant_seconds, seconds_idle
from bench.support.harvest.machines import GRACE
from core.nouns.ids import FunctionId
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.quantities import MILLI, NOTHING, Amount
from core.routing.policy import Candidate, Load, RoutingPolicy
from scenarios.duty_cycles import SAMPLE_SECONDS, Cycle, IdleRun, drawn_cycles, read_cycles

ONE = Cycle(tuple((SAMPLE_SECONDS * number, is_idle == "i") for number, is_idle in enumerate("iibiiiibi")))


def test_rule_waits_one_sample() -> None:
    """H5: an idle run is lent from its second sample on; one of a single sample is not."""
    runs = [tuple(round(at / SAMPLE_SECONDS, 3) for at in run) for run in ONE.idle_runs(10_000.0)]
    assert [(0, 1, 2), (3, 4, 7), (8, 9, 9)] == runs
    assert [(0, 1, 3)] == [
        tuple(round(at / SAMPLE_SECONDS, 3) for at in run)
        for run in ONE.idle_between(3 * SAMPLE_SECONDS, 6 * SAMPLE_SECONDS)
    ]


def test_pod_without_samples_counts_as_busy() -> None:
    """From the sample on that is missing, if the next one comes late."""
    cycle = Cycle(((0.0, True), (57.0, True), (1_000.0, True), (1_057.0, False)))
    assert [IdleRun(0.0, 57.0, 114.0), IdleRun(1_000.0, 1_057.0, 1_057.0)] == list(cycle.idle_runs(2_000.0))


def test_cycles_of_a_file_are_read(tmp_path: Path) -> None:
    """Below 1 % is idle; seconds count from the first sample of all pods."""
    path = tmp_path / "cycles.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("value,timestamp_anon,container_ip\n0.5,1057,a\n12.0,1000,a\n0.0,1057,b\n")
    assert [Cycle(((0.0, False), (57.0, True))), Cycle(((57.0, True),))] == read_cycles(path)
    with gzip.open(path, "wt") as file:
        file.write("value,at\n0.5,1057\n")
    with pytest.raises(ValueError, match="timestamp_anon"):
        read_cycles(path)


def test_drawn_cycles_have_the_idle_time_of_the_trace() -> None:
    """H5: 143 pods, about seven samples in ten idle, and most idle time in runs of ten minutes and more."""
    cycles = drawn_cycles(1)
    assert 143 == len(cycles)
    assert all(later > earlier for (earlier, _), (later, _) in pairwise(cycles[0].samples))
    samples = [is_idle for cycle in cycles for _, is_idle in cycle.samples]
    assert 0.7 == pytest.approx(sum(samples) / len(samples), abs=0.05)
    spans = [run.end - run.begin for cycle in cycles for run in cycle.idle_runs(80_000.0)]
    assert 0.69 == pytest.approx(sum(one for one in spans if one >= 600) / sum(spans), abs=0.06)


@pytest.mark.parametrize("policy", WAYS)
def test_devices_come_back_within_the_grace(policy: str) -> None:
    """H-1, H-10: whatever the router does; and no executor is on a device that its pod has."""
    lent = Lending(WAYS[policy], drawn_cycles(1)[:6], 3_600.0, 5_400.0, 1, lambda _: None).play()
    assert len(lent.reclaims) > 3
    assert max(lent.reclaims) <= GRACE / SECOND
    assert 0 == lent.delay_ms
    assert 0 < lent.useful <= lent.by_rule < lent.best
    assert lent.in_grace <= len(lent.reclaims) * GRACE / SECOND


def test_who_knows_each_idle_run_gets_more() -> None:
    """The rule that waits one sample gets less of each."""
    best, by_rule = clairvoyant_seconds([ONE], 0.0, 8 * SAMPLE_SECONDS)
    loads = 22.7
    assert 6 * SAMPLE_SECONDS - 2 * loads == pytest.approx(best)
    assert 4 * SAMPLE_SECONDS - 2 * loads == pytest.approx(by_rule)


def test_work_counts_as_far_as_the_pod_is_idle() -> None:
    """H5: what a call does within the grace is its pod's time."""
    runs = [IdleRun(0.0, 57.0, 114.0), IdleRun(171.0, 228.0, 500.0)]
    spans = [(60.0, 100.0), (100.0, 130.0), (114.0, 140.0), (100.0, 200.0), (480.0, 520.0)]
    assert [40.0, 14.0, 0.0, 43.0, 20.0] == [seconds_idle(runs, begin, end) for begin, end in spans]


def test_first_device_that_is_free_and_any_server_are_found() -> None:
    """In the order of the ring; at random for each call of an instant anew."""
    size = Amount(MILLI, MILLI, 1 << 30)
    load = Load(1.0, seconds(1.0), size)

    def choose(policy: RoutingPolicy, free: str, used: int = 0) -> str:
        ring = [
            Candidate(name, place, size, Amount(0, used, 0), NOTHING, 0, name in free, name in "abcdef")
            for place, name in enumerate("abcdefgh")
        ]
        return policy.choose(FunctionId("t/f/1"), load, ring, None, Instant(1)).server

    assert ["c", ""] == [choose(AnyIdle(), "ce"), choose(AnyIdle(), "")]
    assert set("abcdef") == {choose(AtRandom(), "", used) for used in range(100)}


def test_bars_are_of_all_policies() -> None:
    """The share is that of `mws`; a device must come back in time with any."""
    fine = Lent(useful=80.0, best=100.0, reclaims=[1.0] * 10)
    late = Lent(useful=10.0, best=100.0, reclaims=[31.0] * 10, delay_ms=1.0)
    told = findings_of({"mws": fine, "jsq": late}, is_drawn=False, seeds=1, seconds=1.0)
    assert {
        "share_of_clairvoyant": True,
        "reclaim_p99_over_grace": False,
        "primary_delay_outside_reclaim_ms": False,
    } == {bar.name: bar.met for bar in told.bars}


@pytest.mark.slow
@pytest.mark.processes
def test_all_of_it_in_small(tmp_path: Path) -> None:
    """Its figures mean little, and devices come back in time."""
    bars = {bar.name: bar for bar in run(tmp_path, is_quick=True).bars}
    assert bars["reclaim_p99_over_grace"].met
    assert bars["primary_delay_outside_reclaim_ms"].met
