"""`mizzen scenario`: whole planes in simulation, from a seed, with every check at the end."""

import os
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from mizzen.answers import FAILED, CommandError, explained, tell_json, tell_table
from mizzen.options import Json
from runtime.logs import UnknownLevel, set_up_logs
from scenarios.run import Outcome, run_simulated
from scenarios.scenario import ScenarioError, ScenarioSpec, library, load_scenario

SHOWN_MAX = 20
"""Violations and problems that are shown; JSON has them all."""


def list_scenarios(*, json: Json = False) -> None:
    """Name the scenarios that come with Mizzen, and what each of them must survive."""
    with explained(ScenarioError):
        specs = [load_scenario(name) for name in library()]
    if json:
        tell_json(msgspec.to_builtins(specs))
        return
    tell_table(("scenario", "what must survive"), [(spec.name, spec.survives.strip()) for spec in specs])


def run(
    name: Annotated[str, Parameter(help="One of the library, or the path of a scenario file.")],
    /,
    *,
    seed: Annotated[int, Parameter(help="Of all chance: the same seed gives the same digest.")] = 0,
    json: Json = False,
) -> int:
    """Run a scenario in the simulated world and check what came of it."""
    with explained(UnknownLevel):
        # What a simulated plane says of its own misfortune is of use to whoever looks for a bug, and asks for it.
        set_up_logs(os.environ, default="error", is_json=True if json else None)
    spec = _spec(name)
    with explained(ScenarioError):
        outcome = run_simulated(spec, seed)
    if json:
        tell_json({**msgspec.to_builtins(outcome), "is_good": outcome.is_good})
    else:
        tell_table(("", "outcome"), _rows(outcome), title=f"{spec.name}, seed {seed}")
    return 0 if outcome.is_good else FAILED


def _spec(name: str) -> ScenarioSpec:
    """Raises CommandError."""
    if not name.endswith((".yaml", ".yml")) and name not in library():
        text = f"there is no scenario {name}; run one of {', '.join(library())}, or a file that ends in .yaml"
        raise CommandError(text)
    with explained(ScenarioError):
        return load_scenario(name)


def _rows(outcome: Outcome) -> list[tuple[str, Any]]:  # Any: whatever is shown as text
    ended = ", ".join(f"{count} {phase}" for phase, count in sorted(outcome.ended.items()))
    violations = [f"{found.log} {found.sequence}: {found.text}" for found in outcome.violations]
    return [
        ("good", "yes" if outcome.is_good else "no"),
        ("digest", outcome.digest),
        ("violations", _lines(violations)),
        ("problems", _lines(outcome.problems)),
        ("submitted", outcome.submitted),
        ("ended", ended),
        ("kills", outcome.kills),
        ("messages", f"{outcome.messages}, and {outcome.heads_and_beats} heads and beats"),
        ("facts", outcome.facts),
        ("seconds", f"{outcome.wall_seconds:.1f}, for {outcome.virtual_seconds:.0f} simulated"),
    ]


def _lines(texts: list[str]) -> str:
    more = [f"and {len(texts) - SHOWN_MAX} more; --json shows all"] if len(texts) > SHOWN_MAX else []
    return "\n".join([str(len(texts)), *texts[:SHOWN_MAX], *more])
