"""The model of ParSync's simulations: its partitions and strategies are those of agents, and its figures those of the published order."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from bench import parsync, parsync_live
from bench.support.parsync.live import StepFigures
from bench.support.parsync.model import Model, Setup, conflicts_drawn, conflicts_expected
from bench.support.parsync.phases import WAYS, phases_of, sustained, with_changes
from bench.support.parsync.shipped import shipped_phases
from core.nouns.agents import Placing, Rotation
from runtime.loop import run

TENTH = Setup().scaled(0.1)
HUNDREDTH = Setup().scaled(0.01)


@pytest.mark.parametrize("point", parsync.FORMULA[1:])
def test_formula_of_conflicts_equals_draws(point: tuple[int, int, int]) -> None:
    """S14, E-S1: within one part in a hundred."""
    assert abs(conflicts_drawn(*point, rounds=150, seed=2) / conflicts_expected(*point) - 1) < 0.01


def test_schedulers_with_partitions_of_their_own_never_conflict() -> None:
    """S2, S6, E-S6: latency-first on different partitions has no conflicts, and on the same ones many."""
    assert 0 == sustained(TENTH, 0.95, 6.0).conflict_share
    assert sustained(replace(TENTH, rotation=Rotation.SAME), 0.95, 6.0).conflict_share > 0.1


def test_conflicts_end_at_as_many_partitions_as_schedulers() -> None:
    """E-S5: half as many are too few, and more change nothing."""
    half, more = (sustained(replace(TENTH, partitions=count), 0.95, 6.0) for count in (10, 80))
    assert half.conflict_share > 0.03
    assert more.conflict_share < 0.002


def test_published_order_of_delays() -> None:
    """E-S2: in the phases with full schedulers, at a tenth of the size and of the time."""
    found = {name: phases_of(WAYS[name].scaled(0.1), 8.0) for name in parsync.ORDER}
    for phase in (1, 2):
        means = [found[name][phase].mean_s for name in parsync.ORDER]
        assert means[0] == min(means)
        assert means[3] == max(means)
    assert found["latency_first"][2].conflict_share == 0


def test_tier_is_met_without_conflicts_where_types_are_dealt() -> None:
    """S9, S15, E-S7: tasks with opposite preferences; in blocks their own partitions are gone in a moment."""
    setup = replace(TENTH, placing=Placing.TIER_FIRST, has_two_sorts=True)
    dealt, blocks = (sustained(replace(setup, in_blocks=one), 0.9, 6.0) for one in (False, True))
    assert dealt.scarce_quality > 0.94
    assert dealt.conflict_share < 0.01
    assert blocks.conflict_share > 0.05


def test_conflict_shares_hardly_depend_on_size() -> None:
    """S17: a hundredth beside a tenth."""
    for name in ("latency_first", "statesync_over_all"):
        small, large = (phases_of(WAYS[name].scaled(part), 5.0) for part in (0.02, 0.1))
        for one, other in zip(small, large, strict=True):
            assert abs(one.conflict_share - other.conflict_share) < 0.06


def test_schedulers_that_come_and_go_lose_no_task() -> None:
    """S11, E-S8: what waits at one that goes is given to others, and there are hardly conflicts."""
    found = with_changes(replace(TENTH, exponential=True), 0.8, 12.0)
    assert found.conflict_share < 0.01
    assert found.started > 0.75 * 12 * TENTH.attempts_per_s * TENTH.agents * 0.8


def test_slots_and_tasks_are_conserved() -> None:
    """A slot has one task, and every task waits, runs or has ended."""
    model = Model(HUNDREDTH)
    started = model.play(8.0, lambda _: 0.9 * HUNDREDTH.attempts_per_s)
    running = int((~model.is_free).sum())
    assert running == sum(at >= model.now - 5.0 - 1e-9 for at in _starts(started, model))
    assert started.attempts == started.conflicts + len(started.delay)


def _starts(started: object, model: Model) -> list[float]:
    """When each task that runs was started, by the ends of the slots."""
    return [float(end) - 5.0 for end, free in zip(model._ends_at, model.is_free, strict=True) if not free]


def test_figures_are_named(tmp_path: Path) -> None:
    """Every bar has a figure, in the form that tests play."""
    found = parsync.run(tmp_path, is_quick=True)
    assert {bar.name for bar in found.bars} <= found.figures.keys()
    assert 11 == len(found.bars)


@pytest.mark.processes
def test_real_agents_make_attempts_at_a_rate(tmp_path: Path) -> None:
    """E-S3: no more than K a second, under each way of placing, which is changed while the agents run."""

    async def measured() -> dict[str, float]:
        found = await parsync_live.run(tmp_path, is_quick=True)
        return found.figures

    figures = run(measured())
    assert {f"{name}_3_95_mean_s" for name in parsync_live.WAYS} <= figures.keys()
    for name in parsync_live.WAYS:
        assert 0 < figures[f"{name}_3_95_rate"]
        assert figures[f"{name}_3_95_rate"] <= 2 * parsync_live.QUICK_AGENTS * parsync_live.ATTEMPTS_PER_S


def test_order_of_delays_is_judged_at_the_largest_load() -> None:
    """E-S3: one way that is faster than a better one breaks the order."""

    def steps(peak: float) -> list[list[StepFigures]]:
        delays = (0.1, 0.1, peak, 0.1, 0.1)
        return [
            [
                StepFigures(load, 1.0, [delay], 4, 1)
                for load, delay in zip(parsync_live.LOADS, delays, strict=True)
            ]
        ]

    right = {name: steps(number + 1.0) for number, name in enumerate(parsync_live.WAYS)}
    found = parsync_live.findings_of(right)
    assert 1 == found.figures["order_holds"]
    assert 0.25 == found.figures["statesync_3_95_conflict_share"]
    assert 0 == parsync_live.findings_of(right | {"statesync": steps(1.5)}).figures["order_holds"]


def test_shipped_agents_do_as_the_model() -> None:
    """The same load and steps, all slots being equally good: no conflicts by freshness, and as many as in the model without."""
    for name, bound in (("latency_first", 0.005), ("statesync", 0.08)):
        setup = replace(WAYS[name].scaled(0.01), slots=2_000, is_level=True)
        pairs = list(zip(phases_of(setup, 2.0), shipped_phases(setup, 2.0), strict=True))
        for one, other in pairs:
            assert abs(one.conflict_share - other.conflict_share) <= bound, (name, pairs)
        assert all(other.started > 300 for _, other in pairs)
