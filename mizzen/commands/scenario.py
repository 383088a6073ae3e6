"""`mizzen scenario`: whole planes and what befalls them, from a seed, with every check at the end."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from mizzen.connect.plane import DIRECTORY
from mizzen.terminal.options import Json
from mizzen.terminal.output import (
    FAILED,
    INTERRUPTED,
    MISUSED,
    CommandError,
    explained,
    tell_json,
    tell_table,
)
from runtime.logs import UnknownLevel, set_up_logs
from scenarios.play.simulated import run_simulated
from scenarios.scenario import ScenarioError, ScenarioSpec, library, load_scenario, scenario_written
from scenarios.schema.outcome import Outcome

if TYPE_CHECKING:
    from scenarios.swarm.pool import Failed, Swarmed

SHOWN_MAX = 20
"""Violations and problems that are shown; JSON has them all."""
TOLD_EVERY = 20
"""Seeds of a swarm between two lines that say how far it is."""
SHRINK_SECONDS = 120.0
SHRUNK_MAX = 3
"""Failing seeds whose scenarios are made smaller: each takes minutes, and many fail of one cause."""
WORKERS_MAX = 256
SWARM = "swarm"
"""In the plane's directory, where scenarios go that failed and were made smaller."""

Seed = Annotated[int, Parameter(help="Of all chance: in simulation the same seed gives the same digest.")]
Place = Annotated[Path, Parameter(help="Where what is left of it goes.")]


def list_scenarios(*, json: Json = False) -> None:
    """Name the scenarios that come with Mizzen, and what each of them must survive."""
    with explained(ScenarioError):
        specs = [load_scenario(name) for name in library()]
    if json:
        tell_json([_listed(spec) for spec in specs])
        return
    tell_table(("scenario", "what must survive"), [(spec.name, spec.survives.strip()) for spec in specs])


def run(
    name: Annotated[str, Parameter(help="One of the library, or the path of a scenario file.")],
    /,
    *,
    world: Annotated[
        Literal["simulated", "processes"],
        Parameter(help="In virtual time, or with real processes on this machine."),
    ] = "simulated",
    seed: Seed = 0,
    decide_twice: Annotated[
        bool, Parameter(negative=(), help="Take every decision twice, to see that deciding changes nothing.")
    ] = False,
    directory: Place = Path(DIRECTORY),
    json: Json = False,
) -> int:
    """Run a scenario and check what came of it."""
    _quiet_logs(is_json=json)
    spec = _spec(name)
    with explained(ScenarioError):
        if world == "simulated":
            outcome = run_simulated(spec, seed, decides_twice=decide_twice)
        else:
            from scenarios.play.processes import run_processes

            outcome = run_processes(spec, seed, directory)
    if json:
        tell_json(_told(outcome))
    else:
        tell_table(("", "outcome"), _rows(outcome), title=f"{spec.name}, seed {seed}, {world}")
    return 0 if outcome.is_good else FAILED


def swarm(
    *,
    seeds: Annotated[int, Parameter(help="How many.")] = 100,
    first_seed: Annotated[int, Parameter(help="The first of them.")] = 1,
    minutes: Annotated[float, Parameter(help="Of the clock, after which no more are begun.")] = 15.0,
    workers: Annotated[int, Parameter(help="Processes that play them; two at least.")] = 2,
    shrink: Annotated[bool, Parameter(help="Make scenarios that fail smaller while they still fail.")] = True,
    directory: Place = Path(DIRECTORY),
    json: Json = False,
) -> int:
    """Draw scenarios from seeds and play them all; a seed that fails is told with the command that repeats it."""
    from scenarios.swarm.pool import decides_twice, play_seeds

    if seeds < 1 or first_seed < 0 or not 1 <= workers <= WORKERS_MAX or not minutes > 0:
        text = f"--seeds and --minutes are more than 0, --first-seed is not less, --workers is 1 to {WORKERS_MAX}"
        raise CommandError(text, MISUSED)
    _quiet_logs(is_json=json)
    wanted = range(first_seed, first_seed + seeds)
    tally = play_seeds(wanted, workers=workers, minutes=minutes, watch=_watch(is_quiet=json))
    is_shrunk = shrink and not tally.is_interrupted
    made_smaller = [
        _shrunk(failed, directory) if is_shrunk and turn < SHRUNK_MAX else ""
        for turn, failed in enumerate(tally.failed)
    ]
    if json:
        failed = [
            {**msgspec.to_builtins(one), "shrunk": path}
            for one, path in zip(tally.failed, made_smaller, strict=True)
        ]
        tell_json({**msgspec.to_builtins(tally), "failed": failed})
        return _exit_code(tally)
    tell_table(("", "swarm"), _swarm_rows(tally, seeds))
    faults = sorted(tally.mix.faults.items(), key=lambda item: (-item[1], item[0]))
    print(
        f"\nthey had {tally.mix.nodes} nodes and {tally.mix.workloads} workloads; scenarios with each fault:"
    )
    print("  " + ", ".join(f"{name} {count}" for name, count in faults))
    for one, path in list(zip(tally.failed, made_smaller, strict=True))[:SHOWN_MAX]:
        print(f"\nseed {one.seed}: {one.violation}\n  {one.command}")
        if path:
            twice = " --decide-twice" if decides_twice(one.seed) else ""
            print(f"  smaller: mizzen scenario run {path} --seed {one.seed}{twice}")
    if len(tally.failed) > SHOWN_MAX:
        print(f"\nand {len(tally.failed) - SHOWN_MAX} more; --json shows all")
    return _exit_code(tally)


def _exit_code(tally: "Swarmed") -> int:
    """Nothing played is nothing shown."""
    if tally.is_interrupted:
        return INTERRUPTED
    return FAILED if tally.failed or not tally.seeds else 0


def _shrunk(failed: "Failed", directory: Path) -> str:
    """The path of a smaller scenario that fails in the same way."""
    from scenarios.swarm.draw import draw_scenario
    from scenarios.swarm.pool import decides_twice, kind_of, played
    from scenarios.swarm.shrink import shrunk

    drawn, twice, wanted = draw_scenario(failed.seed), decides_twice(failed.seed), kind_of(failed.violation)

    def fails(spec: ScenarioSpec) -> bool:
        return kind_of(played(spec, failed.seed, decides_twice=twice).problem) == wanted

    if not fails(drawn):
        return ""  # It fails only beside its twin.
    smaller = shrunk(drawn, fails, seconds=SHRINK_SECONDS)
    path = directory / SWARM / f"seed-{failed.seed}.yaml"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(scenario_written(smaller), encoding="utf-8")
    return str(path)


def _watch(*, is_quiet: bool) -> Callable[["Swarmed"], None]:
    """Says now and then how far the swarm is."""
    told = 0

    def watch(tally: "Swarmed") -> None:
        nonlocal told
        if not is_quiet and tally.seeds >= told + TOLD_EVERY:
            told = tally.seeds
            print(f"{tally.seeds} seeds, {len(tally.failed)} failed, {tally.seconds:.0f} s", flush=True)

    return watch


def _quiet_logs(*, is_json: bool) -> None:
    """What a plane says of its own misfortune is of use to whoever looks for a bug, and asks for it."""
    with explained(UnknownLevel):
        set_up_logs(os.environ, default="error", is_json=True if is_json else None)


def _spec(name: str) -> ScenarioSpec:
    """Raises CommandError."""
    with explained(ScenarioError):
        return load_scenario(name)


def _listed(spec: ScenarioSpec) -> dict[str, Any]:  # Any: as JSON takes it
    return {
        "name": spec.name,
        "survives": spec.survives.strip(),
        "faults": [fault.name for fault in spec.faults],
        "workloads": sum(workload.workloads for workload in spec.workload),
        "hours": round(spec.span / 3600, 3),
        "runs_programs": spec.runs_programs,
    }


def _told(outcome: Outcome) -> dict[str, Any]:  # Any: as JSON takes it
    figures = outcome.figures
    return {
        **msgspec.to_builtins(outcome),
        "is_good": outcome.is_good,
        "goodput_ratio": figures["goodput_ratio"],
        "gpu_seconds_lost": figures["gpu_seconds_lost"],
        "gpu_seconds_lost_by_cause": outcome.gpu_seconds_lost,
    }


def _rows(outcome: Outcome) -> list[tuple[str, Any]]:  # Any: whatever is shown as text
    figures = outcome.figures
    ended = ", ".join(f"{count} {phase}" for phase, count in sorted(outcome.ended.items()))
    violations = [f"{found.log} {found.sequence}: {found.text}" for found in outcome.violations]
    strikes = ", ".join(
        f"{name} {outcome.strikes.get(name, 0)} of {count}" for name, count in outcome.wanted.items()
    )
    lost = ", ".join(f"{cause} {span:.0f}" for cause, span in outcome.gpu_seconds_lost.items())
    starts = " ".join(f"{figures[f'{name}_start_seconds']:.1f}" for name in ("p50", "p90", "p99"))
    met = [
        f"{'met' if one.is_met else 'MISSED'}: {one.expectation}, it is {one.value:g}"
        for one in outcome.expectations
    ]
    rows: list[tuple[str, Any]] = [
        ("good", "yes" if outcome.is_good else "no"),
        ("digest", outcome.digest),
        ("violations", _lines(violations)),
        ("problems", _lines(outcome.problems)),
        ("submitted", int(figures["submitted"])),
        ("ended", ended),
        ("start seconds", f"{starts} (p50 p90 p99)"),
        (
            "goodput",
            f"{100 * figures['goodput_ratio']:.1f} % of {figures['gpu_seconds_held']:.0f} GPU-seconds held",
        ),
        ("GPU-seconds lost", f"{figures['gpu_seconds_lost']:.0f}{f' ({lost})' if lost else ''}"),
        ("faults struck", strikes or "none"),
        ("kills", outcome.kills),
        ("facts", outcome.facts),
        ("seconds", f"{outcome.wall_seconds:.1f}, for {outcome.virtual_seconds:.0f} of the plane's"),
    ]
    if outcome.messages:
        rows.insert(-2, ("messages", f"{outcome.messages}, and {outcome.heads_and_beats} heads and beats"))
    if outcome.skipped:
        rows.append(("SKIPPED", "\n".join(f"{name}: {why}" for name, why in outcome.skipped.items())))
    if outcome.unchecked:
        rows.append(("NOT CHECKED", "\n".join(f"{name}: {why}" for name, why in outcome.unchecked.items())))
    if outcome.directory:
        rows.append(("logs", outcome.directory))
    if met:
        rows.append(("expectations", "\n".join(met)))
    return rows


def _swarm_rows(tally: "Swarmed", wanted: int) -> list[tuple[str, Any]]:  # Any: whatever is shown as text
    early = ", interrupted" if tally.is_interrupted else ", the time is over" if tally.has_run_out else ""
    return [
        ("seeds", f"{tally.seeds} of {wanted}{early}"),
        ("failed", len(tally.failed)),
        ("played twice", f"{tally.twice}, each under two PYTHONHASHSEEDs"),
        ("seconds", f"{tally.seconds:.1f}, for {tally.virtual_seconds / 3600:.1f} hours of planes"),
        ("faults struck", tally.strikes),
        ("kills", tally.kills),
        ("messages", tally.messages),
        ("facts checked", tally.facts),
    ]


def _lines(texts: list[str]) -> str:
    more = [f"and {len(texts) - SHOWN_MAX} more; --json shows all"] if len(texts) > SHOWN_MAX else []
    return "\n".join([str(len(texts)), *texts[:SHOWN_MAX], *more])
