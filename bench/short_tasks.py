"""Calls of milliseconds on a real plane of one machine, and on Ray, Dask and HyperQueue in turn: `python -m bench short_tasks`.

A service holds two cores for functions, a task each, so two executors run the calls. A program of a user
(bench/support/functions/programs/mizzen_calls.py) calls, through the SDK, a function that returns its argument:

    map_per_s       20,000 calls by one map, from the first call until all values are there
    call_per_s      5,000 single calls, 64 in flight
    call_p50_ms     1,000 single calls, each after the answer to the one before
    chunks_per_s    20,000 arguments by one map of eight calls, each of which takes 2,500 arguments

Each round is a plane of its own, and warm before calls are timed; rates are medians of rounds, and spans those of all rounds. With
`--peers PYTHON`, an interpreter that has them, each round goes on with Ray, Dask and HyperQueue, on two cores each, while no plane is
there, and takes eight minutes. Every form that a system has is timed (`FIGURE_SYSTEM_FORM`), and the fastest counts. Forms that send thousands of calls as one
task stand beside our chunks alone: their calls run one after the other, and are lost and repeated together.
"""

import argparse
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.support.functions.plane import serving_plane
from bench.support.functions.programs.timing import Work
from bench.support.functions.running import ProgramFailed
from bench.support.functions.timed import PEERS, RATES, Timed, fastest, forms_of, peers_of, timed
from bench.support.peers import dask_tasks, hyper_queue_tasks, ray_tasks
from bench.support.report import Findings, Yardstick, at_least, at_most
from mizzen.views.plots import draw_bars, figure_option

WORK = Work(mapped=20_000, called=5_000, in_flight=64, one_by_one=1_000, warm=2_000)
QUICK_WORK = Work(mapped=400, called=100, in_flight=16, one_by_one=20, warm=50)
ROUNDS = 3
HANDS = (
    "a call passes the caller, the server of messages, the router, the function server and an executor, which share two cores: each "
    "decodes and encodes the call's message"
)
YARDSTICKS = [hyper_queue_tasks("map_per_s"), dask_tasks("map_per_s"), ray_tasks("map_per_s")]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the peers' interpreter and the number of rounds."""
    parser.add_argument(
        "--peers",
        metavar="PYTHON",
        type=interpreter,
        help="an interpreter with ray, dask[distributed] and hyperqueue: these are timed too",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of every system (default: %(default)s)")
    figure_option(parser, "calls a second of all systems")


def interpreter(python: str) -> str:
    """Return the path of a program that can be run. Raises ArgumentTypeError."""
    found = shutil.which(python)
    if found is None:
        raise argparse.ArgumentTypeError(f"{python} is no program that can be run")
    return str(Path(found).absolute())


async def run(directory: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Time all systems in turn, round by round."""
    python: str = (chosen.peers or "") if chosen is not None else ""
    rounds = 1 if is_quick else chosen.rounds if chosen is not None else ROUNDS
    work = QUICK_WORK if is_quick else WORK
    ours: list[Timed] = []
    theirs: dict[str, list[Timed]] = {name: [] for name in present(python)}
    for number in range(rounds):
        async with serving_plane(directory / str(number)) as plane:
            ours.append(await timed("mizzen", work, plane.directory, sys.executable))
        for name in list(theirs):
            try:
                theirs[name].append(await timed(name, work, directory, python))
            except ProgramFailed as error:
                tell(f"{name} is left out: {error}")
                del theirs[name]
    if chosen is not None and chosen.figure:
        chosen.figure.write_text(figure_of({"mizzen": ours} | theirs), encoding="utf-8")
    return findings_of(ours, theirs)


def figure_of(found: dict[str, list[Timed]]) -> str:
    """Return calls a second by system, each in its fastest form, as SVG."""
    groups = {"map_per_s": "one map", "call_per_s": "single calls, 64 in flight"}
    bars = {}
    for name, rounds in found.items():
        forms = forms_of(rounds)
        bars[name] = [forms[figure][fastest(figure, forms[figure])] for figure in groups]
    return draw_bars(
        "Calls on two cores", "how they are called", "calls a second", list(groups.values()), bars
    )


def present(python: str) -> list[str]:
    """Return the peers that an interpreter has, and say which are missing."""
    if not python:
        tell("other systems are left out: there is no --peers")
        return []
    found = peers_of(python)
    for name, module in PEERS.items():
        if name not in found:
            tell(f"{name} is left out: {python} has no module {module}")
    return found


def tell(text: str) -> None:
    """Say what no figure says."""
    print(f"short_tasks: {text}", file=sys.stderr, flush=True)


def findings_of(ours: list[Timed], theirs: dict[str, list[Timed]]) -> Findings:
    """Return figures and bars; what the fastest forms of others reach stands beside ours."""
    forms = forms_of(ours)
    figures = {figure: found[fastest(figure, found)] for figure, found in forms.items()}
    figures |= {
        f"{figure}_{form}": value for figure, found in forms.items() for form, value in several(found)
    }
    bars = [
        at_least("map_per_s", figures["map_per_s"], 5_000, HANDS),
        at_least("call_per_s", figures["call_per_s"], 2_000, HANDS),
        at_most("call_p50_ms", figures["call_p50_ms"], 3, HANDS),
    ]
    peers: list[Yardstick] = []
    for name, rounds in theirs.items():
        for figure, found in forms_of(rounds).items():
            form = fastest(figure, found)
            source = f"{name} {rounds[0].version}, two workers of a core, in turn with ours; its form {form}"
            peers.append(Yardstick(f"{name} {figure}", found[form], source, figure))
            figures |= {f"{figure}_{name}_{form}": value for form, value in several(found)}
    figures |= over_best_peer(figures, peers)
    if "map_over_best_peer" in figures:
        bars.append(at_least("map_over_best_peer", figures["map_over_best_peer"], 1.5, HANDS))
    return Findings(figures, bars, [*peers, *YARDSTICKS])


def several(forms: dict[str, float]) -> Iterable[tuple[str, float]]:
    """Return the forms, if there is more than the one that counts."""
    return forms.items() if len(forms) > 1 else ()


def over_best_peer(figures: dict[str, float], peers: list[Yardstick]) -> dict[str, float]:
    """Return our figures over the best of others, where there is one."""
    found = {}
    for figure, ours in figures.items():
        values = [one.value for one in peers if one.beside == figure]
        if values:
            best = max(values) if figure in RATES else min(values)
            name = figure.removesuffix("_per_s").removesuffix("_ms")
            found[f"{name}_over_best_peer"] = ours / best
    return found
