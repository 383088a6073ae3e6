"""A simulated hour of 1,000 nodes with 2,000 workloads and every fault there is, on one core.

It is played whole: the plane comes up, the hour passes, misfortune ends, and everything that was submitted ends. The
witness checks every fact, and every check is asked. What took place is compared with the two bars of the scenario engine.
"""

import time
from pathlib import Path
from typing import Any

import structlog

from bench.support.report import Findings, at_least, at_most
from scenarios.fault import Fault, LinkFault
from scenarios.faults.pool_need_set import PoolNeedSet
from scenarios.faults.round_crash import RoundCrash
from scenarios.faults.submission_storm import SubmissionStorm
from scenarios.play.simulated import run_simulated
from scenarios.scenario import ScenarioSpec, read_scenario
from scenarios.schema.outcome import Outcome
from scenarios.schema.parts import parts_in
from scenarios.swarm.data import OF_COPIES

SHARES = {"message_loss": 0.02, "message_delay": 0.02, "message_repeat": 0.02, "message_reorder": 0.02}
"""Of all messages through the whole hour; other faults strike at moments."""
TIMES = 2
"""That each other fault strikes."""


def run(_: Path, *, is_quick: bool) -> Findings:
    """One seed, timed by the clock."""
    spec = _spec("two_regions", 20, hours=0.1) if is_quick else _spec("thousand", 2000, hours=1)
    begun = time.perf_counter()
    with structlog.testing.capture_logs():
        outcome = run_simulated(spec, 1)
    wall = time.perf_counter() - begun
    assert outcome.is_good, outcome.first_problem()
    figures = _figures(outcome, wall)
    limit = (
        "an hour is mostly messages, each of which costs about as much in the components that decide and fold as in the "
        "host, the bus and the loop that carry it, all of them Python"
    )
    return Findings(
        figures,
        [
            at_most("hour_seconds", figures["hour_seconds"], 20, limit),
            at_least("messages_per_s", figures["messages_per_s"], 40_000, limit),
        ],
    )


def _figures(outcome: Outcome, wall: float) -> dict[str, float]:
    return {
        "hour_seconds": wall,
        "messages_per_s": outcome.messages / wall,
        "deliveries_per_s": (outcome.messages + outcome.heads_and_beats) / wall,
        "virtual_seconds": outcome.virtual_seconds,
        "messages": float(outcome.messages),
        "facts": float(outcome.facts),
        "kills": float(outcome.kills),
        "strikes": float(sum(outcome.strikes.values())),
        "fault_kinds": float(len(outcome.strikes)),
        "goodput_ratio": outcome.figures["goodput_ratio"],
    }


def _spec(fleet: str, workloads: int, *, hours: float) -> ScenarioSpec:
    """Every fault of the folder; those of messages all the time."""
    faults: list[dict[str, dict[str, Any]]] = []  # Any: as a scenario file has it
    for name, kind in parts_in("faults", Fault).items():
        if kind in (RoundCrash, PoolNeedSet, *OF_COPIES):
            continue  # It strikes rounds of a shared pool, needs of pools, or copies of data, and these fleets have none.
        if name in SHARES:
            faults.append({name: {"share": SHARES[name]}})
        elif issubclass(kind, SubmissionStorm):
            faults.append({name: {"workloads": max(1, workloads // 20)}})  # Beside those of the load.
        elif issubclass(kind, LinkFault):
            faults.append(
                {name: {"times": TIMES, "after_seconds": [0, 3000 * hours], "for_seconds": [60, 300]}}
            )
        else:
            faults.append({name: {"times": TIMES}})
    steady = {"workloads": workloads, "hours": hours, "minutes_median": 4, "minutes_max": 20, "gpus_max": 64}
    return read_scenario(
        {
            "name": "bench_simulate_faults",
            "survives": "An hour of everything.",
            "fleet": fleet,
            "workload": {"steady": steady},
            "faults": faults,
            "calm": {"minutes": 240},
        }
    )
