"""ParSync's simulations with the partitions, rotations and strategies that agents use: delay, conflicts and quality by phase.

A model in arrays (bench/support/parsync/model.py): 200,000 slots, 20 schedulers, 40,000 tasks a second at full load, five seconds a
task. Full size for the three phases, a tenth of it for the other experiments; `--scale` makes both smaller.

    formula_error                     E-S1: expected conflicts by the formula beside draws, the largest relative difference
    order_holds                       1 if the mean delay grows from latency-first over adaptive and quality-first to statesync, in phases 2 and 3
    latency_first_phase3_p99_s        E-S2
    adaptive_phase3_mean_s            E-S2, E-S8
    scale_error                       S17: the largest difference of conflict shares between full size and a tenth
    knee_at_n                         E-S5: 1 if conflicts end where there are as many partitions as schedulers
    same_rotation_conflict_share      E-S6: all schedulers own the same partitions
    scarce_quality, tier_first_*      E-S7, at full size: a tenth of the tasks wants a tenth of the slots
    shipped_*                         the phases with shipped agents and a shipped store, in virtual time, at a hundredth of the size
    model_error                       the largest difference of their conflict shares and the model's
    model_error_level                 the same where all slots are equally good
    adaptive_flaps                    changes of strategy of each scheduler a minute, in phase 3

source    ParSync (ATC'21); spec/protean-parsync.md §2.6, §5.2
"""

# rows: E-S1, E-S2, E-S4, E-S5, E-S6, E-S7, E-S8, S13, S14, S17

import argparse
from collections import defaultdict
from pathlib import Path

from msgspec.structs import replace

from bench.support.parsync.model import Setup, conflicts_drawn, conflicts_expected
from bench.support.parsync.phases import PHASES, WAYS, PhaseFigures, phases_of, sustained, with_changes
from bench.support.parsync.shipped import shipped_phases
from bench.support.report import Bar, Findings, Yardstick, at_least, at_most
from core.nouns.agents import Placing, Rotation
from mizzen.views.plots import Curve, Mark, draw_curves, figure_option

FORMULA = (
    (100_000, 20, 2_000),
    (20_000, 5, 2_000),
    (50_000, 10, 1_000),
    (20_000, 20, 200),
    (10_000, 4, 1_000),
)
"""Slots, schedulers, and picks of each."""
FORMULA_ROUNDS = 200
TENTH, HUNDREDTH = 0.1, 0.01
SHIPPED_PART = 1 / 6
"""Of the time of the model, for the agents and the store that are shipped."""
QUICK_SCALE, QUICK_SECONDS = 0.01, 3.0
SECONDS = 30.0
LOAD = 0.95
SCARCE_LOAD = 0.9
SPANS = (0.1, 0.5, 2.0)
PARTITIONS = (5, 10, 20, 40, 80)
"""A quarter, half, once, twice and four times as many as schedulers."""
ORDER = ("latency_first", "adaptive", "quality_first", "statesync")


def options(parser: argparse.ArgumentParser) -> None:
    """Add the seed, the part of the full size, and the number of schedulers."""
    parser.add_argument("--seeds", default="1", help="seeds by comma; the figures are means")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the slots and of the load")
    parser.add_argument("--agents", type=int, default=20, help="schedulers, and as many partitions")
    figure_option(
        parser, "the delays of the phases by time, and the qualities beside it in NAME_quality.svg,"
    )


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play every experiment."""
    scale, seeds, agents = (QUICK_SCALE if is_quick else 1.0), [1], 20
    if chosen is not None:
        scale, agents = scale * chosen.scale, chosen.agents
        seeds = [int(seed) for seed in chosen.seeds.split(",")]
    seconds = QUICK_SECONDS if is_quick else SECONDS
    runs: list[dict[str, float]] = []
    for seed in seeds:
        figures, phases = _phase_figures(scale, seed, agents, seconds)
        if chosen is not None and chosen.figure and not runs:
            _draw(phases, chosen.figure)
        runs.append(figures | _other_figures(scale, seed, agents, seconds))
    figures = {name: sum(one[name] for one in runs) / len(runs) for name in runs[0]}
    return Findings(figures, _bars(figures), YARDSTICKS)


YARDSTICKS = [
    Yardstick("paper_latency_first_delay_max_s", 0.75, "ParSync (ATC'21), three phases; as published"),
    Yardstick(
        "paper_adaptive_delay_s",
        1.5,
        "ParSync (ATC'21): pinned near its threshold; as published",
        "adaptive_phase3_mean_s",
    ),
]


def _bars(figures: dict[str, float]) -> list[Bar]:
    limit = "chance of the arrivals: at full load the region is full"
    return [
        at_most("formula_error", figures["formula_error"], 0.01, "too few draws"),
        at_least("order_holds", figures["order_holds"], 1, "a strategy is as slow as a worse one"),
        at_most("latency_first_phase3_p99_s", figures["latency_first_phase3_p99_s"], 0.45, limit),
        at_most("adaptive_phase3_mean_s", figures["adaptive_phase3_mean_s"], 2.0, limit),
        at_most(
            "scale_error", figures["scale_error"], 0.05, "a step has few attempts at a tenth of the size"
        ),
        at_least("knee_at_n", figures["knee_at_n"], 1, "conflicts end before or behind it"),
        at_least("same_rotation_conflict_share", figures["same_rotation_conflict_share"], 0.1, "no herd"),
        at_most(
            "different_rotation_conflict_share",
            figures["different_rotation_conflict_share"],
            0.005,
            "partitions overlap",
        ),
        at_least("scarce_quality", figures["scarce_quality"], 0.94, "wanted slots are taken by others"),
        at_most(
            "tier_first_conflict_share",
            figures["tier_first_conflict_share"],
            0.01,
            "wanted slots lie in few partitions",
        ),
        at_most("tier_first_mean_delay_ms", figures["tier_first_mean_delay_ms"], 10, limit),
    ]


def _draw(phases: dict[str, list[PhaseFigures]], path: Path) -> None:
    """Draw delays and qualities by time; a phase begins at each mark."""
    seconds = sum(len(phase.course) for phase in phases["latency_first"]) / len(PHASES)
    marks = [Mark(number * seconds, f"phase {number + 1}") for number in (1, 2)]
    for column, y_name, to in (
        (1, "mean delay, seconds", path),
        (2, "mean score of the slots", path.with_stem(f"{path.stem}_quality")),
    ):
        curves = [
            Curve(name, [(one[0], one[column]) for phase in phases[name] for one in phase.course])
            for name in ORDER
        ]
        to.write_text(draw_curves("Three phases of load", "seconds", y_name, curves, marks))


def _phase_figures(
    scale: float, seed: int, agents: int, seconds: float
) -> tuple[dict[str, float], dict[str, list[PhaseFigures]]]:
    """Return the figures of the three phases, at full size and at a tenth of it, and the phases at full size."""
    figures: dict[str, float] = {"formula_error": _formula_error(seed)}
    whole = {name: phases_of(_sized(setup, scale, seed, agents), seconds) for name, setup in WAYS.items()}
    small = {
        name: phases_of(_sized(setup, scale * TENTH, seed, agents), seconds) for name, setup in WAYS.items()
    }
    for name, phases in whole.items():
        for number, phase in enumerate(phases, start=1):
            figures |= _named(f"{name}_phase{number}", phase)
    means = [[whole[name][phase].mean_s for name in ORDER] for phase in (1, 2)]
    figures["order_holds"] = float(all(one == sorted(one) and len(set(one)) == len(one) for one in means))
    figures["scale_error"] = max(
        abs(large.conflict_share - little.conflict_share)
        for name in WAYS
        for large, little in zip(whole[name], small[name], strict=True)
    )
    figures["adaptive_flaps"] = whole["adaptive"][2].flaps / agents / (seconds / 60)
    return figures, whole


def _other_figures(scale: float, seed: int, agents: int, seconds: float) -> dict[str, float]:
    figures = _beside_the_shipped(scale * HUNDREDTH, seed, agents, seconds * SHIPPED_PART)
    # 1. Experiments at a tenth of the size, at one load.
    base = _sized(WAYS["latency_first"], scale * TENTH, seed, agents)
    for span in SPANS:
        for name in ("latency_first", "quality_first", "statesync"):
            setup = replace(_sized(WAYS[name], scale * TENTH, seed, agents), sync_seconds=span)
            found = sustained(setup, LOAD, seconds)
            figures |= {
                f"{name}_g{span:g}_conflict_share": found.conflict_share,
                f"{name}_g{span:g}_mean_s": found.mean_s,
            }
    shares = {}
    for count in PARTITIONS:
        parts = max(1, count * agents // 20)
        setup = replace(base, partitions=parts, slots=base.slots // parts * parts)
        found = sustained(setup, LOAD, seconds)
        shares[count] = figures[f"partitions_{count}_conflict_share"] = found.conflict_share
        figures[f"partitions_{count}_mean_s"] = found.mean_s
    is_knee = shares[10] >= 0.03 and shares[20] <= 0.002 and shares[80] <= 0.002
    figures["knee_at_n"] = float(is_knee)
    same = sustained(replace(base, rotation=Rotation.SAME), LOAD, seconds)
    figures |= _named("same_rotation", same)
    figures |= _named("different_rotation", sustained(base, LOAD, seconds))
    # 2. Two sorts of tasks, dealt in turn and in blocks.
    for placing in (Placing.TIER_FIRST, Placing.LATENCY_FIRST, Placing.QUALITY_FIRST):
        for in_blocks in (False, True):
            setup = replace(base, placing=placing, has_two_sorts=True, in_blocks=in_blocks)
            found = sustained(setup, SCARCE_LOAD, seconds)
            name = f"{placing.value.replace('-', '_')}_{'blocks' if in_blocks else 'dealt'}"
            figures |= _named(f"two_sorts_{name}", found)
            figures[f"two_sorts_{name}_scarce_quality"] = found.scarce_quality
    # At a tenth of the size a scheduler's own queue makes most of the delay, so the delay is of full size.
    tier_first = replace(WAYS["latency_first"], placing=Placing.TIER_FIRST, has_two_sorts=True)
    found = sustained(_sized(tier_first, scale, seed, agents), SCARCE_LOAD, seconds)
    figures["scarce_quality"] = found.scarce_quality
    figures["tier_first_conflict_share"] = found.conflict_share
    figures["tier_first_mean_delay_ms"] = 1000 * found.mean_s
    # 3. Tasks of unlike length, and schedulers that go and come back.
    for name in ORDER:
        setup = replace(_sized(WAYS[name], scale * TENTH, seed, agents), exponential=True)
        figures |= _named(f"changes_{name}", with_changes(setup, LOAD, seconds))
    return figures


def _sized(setup: Setup, scale: float, seed: int, agents: int) -> Setup:
    """Return the setup at a part of its size, for so many schedulers with a partition each."""
    slots = max(agents, round(setup.slots * scale) // agents * agents)
    rate = setup.attempts_per_s * scale * 20 / agents
    return replace(setup, slots=slots, attempts_per_s=rate, agents=agents, partitions=agents, seed=seed)


def _beside_the_shipped(scale: float, seed: int, agents: int, seconds: float) -> dict[str, float]:
    """Return conflict shares of shipped agents, and how far they are from the model's."""
    figures: dict[str, float] = defaultdict(float)
    for name in ORDER:
        setup = _sized(WAYS[name], scale, seed, agents)
        shipped = shipped_phases(setup, seconds)
        for number, phase in enumerate(shipped, start=1):
            figures[f"shipped_{name}_phase{number}_conflict_share"] = phase.conflict_share
            figures[f"shipped_{name}_phase{number}_mean_s"] = phase.mean_s
        level = replace(setup, is_level=True)
        for error, model, real in (
            ("model_error", phases_of(setup, seconds), shipped),
            ("model_error_level", phases_of(level, seconds), shipped_phases(level, seconds)),
        ):
            pairs = zip(model, real, strict=True)
            of_way = max(abs(one.conflict_share - other.conflict_share) for one, other in pairs)
            figures[f"{error}_{name}"] = of_way
            figures[error] = max(figures[error], of_way)
    return figures


def _named(name: str, found: PhaseFigures) -> dict[str, float]:
    return {
        f"{name}_mean_s": found.mean_s,
        f"{name}_p99_s": found.p99_s,
        f"{name}_conflict_share": found.conflict_share,
        f"{name}_quality": found.quality,
        f"{name}_quality_sd": found.quality_sd,
    }


def _formula_error(seed: int) -> float:
    return max(
        abs(conflicts_drawn(*point, rounds=FORMULA_ROUNDS, seed=seed) / conflicts_expected(*point) - 1)
        for point in FORMULA
    )
