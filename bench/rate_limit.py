"""A rebalancer with a bug proposes to move everything that runs, again and again: how much of it is stopped, and how fast.

The store counts stops by requester, whoever carries the word, so that a bug of one component costs no more in a minute than
its budget. Counted here from the region's log alone, by a sliding minute. One simulated region, one core. The rebalancer looks at the
region's image once a round and proposes from that look, as `move_everything` does not (scenarios/faults/move_everything.py): a look
before each proposal would decode the image of the whole region up to 30,000 times.

source    spec E14; Twine §4: the limit of destructive operations once saved the fleet
"""

# rows: E14

import time
from pathlib import Path

import structlog
from msgspec.structs import replace

from bench.support.report import Findings, at_least, at_most
from core.events.control import OperationsBegun
from core.messages.control import OperateTasks
from core.nouns.ids import RegionName, region_log
from core.nouns.instant import SECOND
from core.nouns.limits import READ_BYTES_MAX, READ_FACTS_MAX
from core.nouns.operation import OperationKind
from core.rules.disruption_budget import budget_of
from runtime.virtual_loop import VirtualLoop
from scenarios.fault import Stage
from scenarios.faults.move_everything import AGAIN_SECONDS, REQUESTER, MoveEverything
from scenarios.play.operators import Operators
from scenarios.play.simulated import simulated_run
from scenarios.scenario import ScenarioSpec, read_scenario
from scenarios.worlds.simulated.world import START, SimulatedWorld
from store.rows import facts_of

MINUTE = 60 * SECOND
REGION = RegionName("r0")
STRIKES_AFTER_SECONDS, ROUNDS = 1500.0, 20


class MoveEverythingSeen(MoveEverything, frozen=True):
    """Propose, in each round, to move all that the image at the beginning of the round shows."""

    async def strike(self, stage: Stage) -> None:
        """A proposal about an attempt that has changed since the look is refused, and comes again in the next round."""
        region, operators = self.drawn(stage), Operators(stage.users)
        for _ in range(self.rounds):
            image = await operators.image(region, "capacity", "control")
            for workload, epoch, _ in image.capacity.live():
                row = image.control.spec_of(workload, epoch)
                if row is not None and not row.is_ended:
                    await stage.users.insist(
                        OperateTasks(
                            region,
                            workload,
                            epoch,
                            OperationKind.MOVE,
                            (),
                            "it looks better elsewhere",
                            requester=REQUESTER,
                            first=row.next_operation,
                        )
                    )
            await stage.world.sleep(AGAIN_SECONDS)


def run(_: Path, *, is_quick: bool) -> Findings:
    """One seed, timed by the clock."""
    nodes, workloads = (40, 60) if is_quick else (2_000, 1_500)
    spec = spec_of(nodes, workloads)
    loop = VirtualLoop(START)
    begun = time.perf_counter()
    try:
        with structlog.testing.capture_logs():
            run_ = simulated_run(spec, 1, loop)
            outcome = loop.run_until_complete(run_.play())
        assert isinstance(run_.world, SimulatedWorld)
        stops = loop.run_until_complete(_stops(run_.world))
    finally:
        loop.cancel_all()
        loop.close()
    assert outcome.is_good, outcome.first_problem()
    budget = budget_of(run_.witness.region(REGION).hardware)
    most = most_in_a_minute(stops)
    figures = {
        "budget_per_minute": float(budget),
        "most_in_a_minute": float(most),
        "over_budget": float(max(0, most - budget)),
        "moved": float(sum(count for _, count in stops)),
        "proposed_from": float(workloads),
        "halts": outcome.figures["halts"],
        "wall_seconds": time.perf_counter() - begun,
    }
    return Findings(
        figures,
        [
            at_most("over_budget", figures["over_budget"], 0, "the store lets more begin than its budget"),
            at_least("halts", figures["halts"], 1, "nobody said that it was halted"),
        ],
    )


async def _stops(world: SimulatedWorld) -> list[tuple[int, int]]:
    """When how many of the rebalancer's operations began, by the region's log."""
    reader = world.reader(region_log(REGION))
    head = await reader.head()
    found: list[tuple[int, int]] = []
    first = 1
    while first <= head.sequence:
        page = await reader.read(first, READ_FACTS_MAX, READ_BYTES_MAX)
        events = [(fact.at, fact.event) for fact in facts_of(region_log(REGION), page.rows)]
        found += [
            (at, len(event.operations))
            for at, event in events
            if isinstance(event, OperationsBegun) and event.requester == REQUESTER
        ]
        first += len(page.rows)
    return found


def most_in_a_minute(stops: list[tuple[int, int]]) -> int:
    """Over every minute that begins with a stop."""
    return max((sum(n for at, n in stops if first <= at < first + MINUTE) for first, _ in stops), default=0)


def spec_of(nodes: int, workloads: int) -> ScenarioSpec:
    spec = read_scenario(
        {
            "name": "bench_rate_limit",
            "survives": "A rebalancer that wants everything elsewhere moves no more in a minute than it may.",
            "fleet": {"regions": 1, "nodes": nodes, "workers": 10},
            "workload": {
                "steady": {
                    "workloads": workloads,
                    "hours": 0.5,
                    "minutes_median": 60,
                    "minutes_max": 90,
                    "gpus_max": 8,
                    "fails_share": 0,
                    "cancels_share": 0,
                }
            },
            "calm": {"minutes": 600},
        }
    )
    return replace(spec, faults=(MoveEverythingSeen(after_seconds=STRIKES_AFTER_SECONDS, rounds=ROUNDS),))
