"""Digests of scenarios of the library, kept so that a change which should alter no behaviour can show that it altered none.

    python -m tests.golden.seeds --check [NAME ...]     compare; exit status 1 where a digest differs
    python -m tests.golden.seeds --record [NAME ...]    replace the recorded digests

A digest covers every message delivered and every log of a run (scenarios/schema/outcome.py). A commit that changes behaviour on purpose records
the digests again and says why.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import msgspec

from tests.scenarios.runs import outcome_of_library

RECORD = Path(__file__).with_name("seeds.json")
SCENARIOS = (
    "borrowed_gang_among_narrow",
    "controller_lies",
    "data_comes_and_goes",
    "drain_with_consent",
    "everything_at_once",
    "gangs_move_between_regions",
    "kill_each_component",
    "lossy_hour",
    "maintenance_deadline",
    "maintenance_window",
    "mixed_hardware",
    "one_way_partition",
    "overtaking_messages",
    "own_gang_in_a_quota",
    "poison_messages",
    "preemption_unheeded",
    "prices_follow_demand",
    "priority_inversion",
    "queue_killed_mid_award",
    "quota_shrinks",
    "rack_loss",
    "store_killed_mid_commit",
    "upgrade_old_log",
    "victims_offer_others",
)
"""Scenarios of a few seconds each: loss, kills, preemption, quotas, moves, maintenance, prices, services and old logs."""
SEEDS = (1, 2)
"""Seeds that each of them is played from."""

Play = tuple[str, int]


def recorded() -> dict[str, dict[int, str]]:
    """Return the recorded digests by scenario and seed."""
    return msgspec.json.decode(RECORD.read_bytes(), type=dict[str, dict[int, str]])


def digests(plays: Sequence[Play], workers: int = 2) -> Iterator[tuple[str, int, str]]:
    """Yield the scenario, the seed and the digest of each play, in the order given."""
    # Each play has a process of its own, so that no play depends on those before it.
    context = get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, max_tasks_per_child=1) as pool:
        for (name, seed), digest in zip(plays, pool.map(_digest, plays), strict=True):
            yield name, seed, digest


def plays_of(names: Iterable[str]) -> list[Play]:
    """Return each scenario with each seed."""
    return [(name, seed) for name in names for seed in SEEDS]


def _digest(play: Play) -> str:
    return outcome_of_library(*play).digest


def main() -> int:
    """Record digests, or compare them with those recorded."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--record", action="store_true", help="replace the recorded digests")
    action.add_argument("--check", action="store_true", help="compare with the recorded digests")
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios; none: all")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(SCENARIOS))
    if unknown:
        parser.error(f"no digests are kept of {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    known = recorded() if RECORD.exists() else {}
    found: dict[str, dict[int, str]] = {}
    different = 0
    for name, seed, digest in digests(plays_of(given.names or SCENARIOS)):
        found.setdefault(name, {})[seed] = digest
        before = known.get(name, {}).get(seed, "none")
        different += digest != before
        print(f"{name} {seed}: {digest}" + ("" if digest == before else f", recorded: {before}"), flush=True)
    if given.record:
        kept = {name: one for name, one in sorted((known | found).items()) if name in SCENARIOS}
        RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")
        return 0
    print(f"{different} of {sum(len(one) for one in found.values())} digests differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
