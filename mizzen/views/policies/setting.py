"""What policies are solved or played on: jobs, a fleet, speeds, and the weights of entities, as the command line names them."""

from collections.abc import Sequence
from math import isfinite, nan
from pathlib import Path

from msgspec import Struct

from core.sharing.jobs import SharingJob
from core.sharing.policies import POLICIES
from core.sharing.replay import Fleet
from core.sharing.speeds import SPREAD
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.policies.estimates import with_pairs
from mizzen.views.policies.fleet import has_placement, pools_of, with_spread
from mizzen.views.policies.inputs import input_of

NAMED_MAX = 10
"""Entities that a mistake names."""


class Setting(Struct, frozen=True):
    """What there is to share, and among which jobs."""

    jobs: tuple[SharingJob, ...]
    fleet: Fleet
    has_pairs: bool = False
    notes: tuple[str, ...] = ()
    """What was left out and what was guessed, a sentence each."""


def setting_of(
    source: str, speeds: Path | None, gpus: str, entities: str, policies: Sequence[str], *, pairs: bool
) -> Setting:
    """Return what the words of a command line mean. Raises CommandError.

    source     a trace, the file of a log, or `global`
    speeds     the file of speeds; None: for a trace the one beside it
    gpus       the fleet, as in V100=36,eu/H100=16x8@2.50
    entities   their weights, as in ads=2,maps=1; empty: all 1
    policies   those that will be asked
    """
    given = input_of(source, speeds, [pool.gpu_type for pool in pools_of(gpus)])
    pools = pools_of(gpus, given.table.gpu_types)
    weights = weights_of(entities, given.jobs)
    is_placed = has_placement(pools, given.table)
    if is_placed:
        given = with_spread(given, pools)
    if pairs:
        types = dict.fromkeys(pool.gpu_type for pool in pools)
        given = with_pairs(given, [*types, *(name + SPREAD for name in types if is_placed)])
    readers = [name for name, one in POLICIES.items() if one.reads_entities]
    notes = given.notes
    if weights and not any(name in readers for name in policies):
        notes = (*notes, f"the weights of entities change nothing here: {' and '.join(readers)} read them")
    return Setting(given.jobs, Fleet(pools, given.table, is_placed, weights), pairs, notes)


def weights_of(text: str, jobs: Sequence[SharingJob]) -> tuple[tuple[str, float], ...]:
    """Return the weights of `ads=2,maps=1`. Raises CommandError."""
    there = sorted({job.entity for job in jobs if job.entity})
    found: dict[str, float] = {}
    for part in text.split(",") if text else ():
        name, _, written = part.strip().rpartition("=")
        weight = _number(written)
        if not name or not isfinite(weight) or weight <= 0:
            raise CommandError(
                f"--entities: {part!r} is no weight above 0 of an entity; write for example ads=2,maps=1",
                MISUSED,
            )
        if name in found:
            raise CommandError(f"--entities: {name} stands twice", MISUSED)
        if name not in there:
            more = f" and {len(there) - NAMED_MAX} more" if len(there) > NAMED_MAX else ""
            names = f"they are of {', '.join(there[:NAMED_MAX])}{more}"
            raise CommandError(
                f"--entities: no job is of {name}; {names if there else 'the jobs here are of no entity, as in any trace'}",
                MISUSED,
            )
        found[name] = weight
    return tuple(found.items())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan
