"""How much of a planet is given out over two weeks of more work than there is room for, while nodes fail: `python -m bench allocation`.

Six regions of 2,000 GPUs at scale 1.0, of three types each, with two agents; the published load at 1.4 times what there is, of which a
third reads data that lies in two regions only; twenty tenants with entitlements to four fifths of each type, and work over quota borrows. The planet is full from the start: what stands then is drawn as an endless past would have left it,
and two hours go by before anything counts. Figures are folded from the logs alone (core/figures/plane.py says what each is).

    allocation_mean         over all seeds the worst one's; so is every bar
    allocation_min_hourly   of all whole hours of all seeds
    useful_rate             minus set-up, lost work, checkpoints on leaving and gangs that wait for their last rank
    offered_load            what is asked for at a time, by what there is (bench/support/planet/planet.py `offered`)
    reading_share           workloads that read data, of all that are submitted

A seed takes hours. `--seeds 1` plays one, `--hours 24` a day of it, and `--record FILE` keeps the figures of each seed in a file, up
to the last hour played, from which `--from FILE` tells all of them later. One process at a time writes a file.
"""

# rows: E2

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from bench.support.planet.data import read_share
from bench.support.planet.planet import (
    STANDING,
    Played,
    Size,
    offered,
    play,
    seeds_of,
    seeds_option,
    sized,
    spec_of,
)
from bench.support.report import Findings, at_least
from mizzen.views.plots import Curve, draw_curves, figure_option
from scenarios.workloads.mast import Mast

FULL = Size(hours=14 * 24.0, gpus=2000, load=1.4, warm_hours=2.0, is_mixed=True)
QUICK = Size(hours=1.0, gpus=32, load=1.4, warm_hours=0.1, gpus_max=16, is_mixed=True)
SEEDS = (1, 2, 3, 4, 5)
LIMIT = "whole nodes of each type wait, in several regions at once, for gangs wider than what is left in any of them"


def options(parser: argparse.ArgumentParser) -> None:
    """Which seeds, for how long, and where they are kept."""
    seeds_option(parser, SEEDS)
    parser.add_argument("--record", type=_recordable, help="keep each seed's figures in this file")
    from_option(parser, "play nothing, and tell what this file has")
    figure_option(parser)


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Each seed."""
    size = QUICK if is_quick else sized(FULL, chosen)
    if chosen is not None and chosen.told:
        runs = chosen.told
    else:
        runs = []
        for seed in SEEDS[:1] if is_quick else seeds_of(chosen, SEEDS):
            keep = partial(record, chosen.record) if chosen is not None and chosen.record else None
            runs.append(played(size, seed, tells=not is_quick, watch=keep))
    if chosen is not None and chosen.figure:
        chosen.figure.write_text(figure_of(runs), encoding="utf-8")
    worst = min(runs, key=lambda one: one.figures["allocation_mean"])
    figures = worst.figures | {"seeds": float(len(runs)), "hours": float(min(len(one.hours) for one in runs))}
    figures["seeds_not_whole"] = float(sum(not one.is_whole for one in runs))
    figures["allocation_min_hourly"] = min(min(one.hours, default=1.0) for one in runs)
    figures["allocation_mean_best_seed"] = max(one.figures["allocation_mean"] for one in runs)
    figures["useful_rate_worst_seed"] = min(one.figures["useful_rate"] for one in runs)
    return Findings(
        figures,
        [
            at_least("allocation_mean", figures["allocation_mean"], 0.985, LIMIT),
            at_least("allocation_min_hourly", figures["allocation_min_hourly"], 0.96, LIMIT),
        ],
    )


def played(
    size: Size, seed: int, *, tells: bool = False, watch: Callable[[Played], None] | None = None
) -> Played:
    """One seed. `watch` is told what came of it so far, every hour and at the end."""
    like = Mast(workloads=1, hours=1, standing=STANDING)
    spec = spec_of("allocation", size, seed, like)
    (load,) = spec.workload
    asked = {
        "offered_load": offered(load, spec.fleet, seed),
        "reading_share": read_share(load, spec.fleet, seed),
    }

    def tell(one: Played) -> None:
        one.figures.update(asked)
        if watch is not None:
            watch(one)

    found = play(spec, seed, size.warm_hours, tells=tells, watch=tell)
    tell(found)
    return found


def _recordable(text: str) -> Path:
    """Found out before hours were played for it."""
    path = Path(text)
    try:
        if path.exists():
            kept_in(path)
        path.touch()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot write {text}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise argparse.ArgumentTypeError(f"{text} is no file that `--record` wrote: {error}") from error
    return path


def kept_in(path: Path) -> list[Played]:
    """Of each seed that was recorded there."""
    return [msgspec.json.decode(line, type=Played) for line in path.read_bytes().splitlines()]


def from_option(parser: argparse.ArgumentParser, text: str) -> None:
    """`--from`: as `told`, what `--record` kept in a file."""
    parser.add_argument("--from", dest="told", type=_told, metavar="FILE", help=text)


def _told(text: str) -> list[Played]:
    try:
        runs = kept_in(Path(text))
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot read {text}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise argparse.ArgumentTypeError(f"{text} is no file that `--record` wrote: {error}") from error
    if not runs:
        raise argparse.ArgumentTypeError(f"{text} is empty")
    return runs


def record(path: Path, one: Played) -> None:
    """Keep it there, a line for each seed, instead of what was kept of its seed before, unless that was longer."""
    kept = kept_in(path) if path.exists() else []
    if any(len(other.hours) > len(one.hours) for other in kept if other.seed == one.seed):
        return
    others = [other for other in kept if other.seed != one.seed]
    lines = [msgspec.json.encode(other) + b"\n" for other in (*others, one)]
    fresh = path.with_name(f"{path.name}.{one.seed}.new")
    fresh.write_bytes(b"".join(lines))
    fresh.replace(path)


def figure_of(runs: list[Played]) -> str:
    """What was allocated, by the hour."""
    curves = [
        Curve(f"seed {one.seed}", [(float(hour), share) for hour, share in enumerate(one.hours)])
        for one in runs
    ]
    hours = max(len(one.hours) for one in runs)
    bars = [
        Curve("0.985", [(0.0, 0.985), (float(hours), 0.985)]),
        Curve("0.96", [(0.0, 0.96), (float(hours), 0.96)]),
    ]
    title = "GPU-hours held of those there were"
    return draw_curves(title, "time (hours)", "share (of 1)", [*curves, *bars], begin=(0.0, 0.9))
