"""Pipelines of which the queue is killed while they run: `python -m bench pipeline_restart`.

C4 of spec/cameo-harvest.md. The load of `python -m bench pipelines`, ranked by start deadline, played twice from each seed: once as it is, and
once with the queue killed by kill -9 at half of the time over which pipelines arrive, at whatever it does then, and started again at once.

    met_loss        share of pipelines in time, undisturbed less disturbed
    order_differs   places at which the order of waiting work, as the queue that starts again replays it from its log, differs from the order
                    that the killed one had
"""

# rows: C4

import argparse
import statistics
import time
from pathlib import Path

from bench.pipelines import FULL, LLF, QUICK, TRACE, Amount, Played, Trial, Variant
from bench.support.report import Findings, at_most
from components.job_queue.ordering import bring_up
from components.job_queue.state.queue_state import QueueState
from core.nouns.ids import WorkloadId
from runtime.wiring import Unit
from scenarios.workloads.philly import FILE
from scenarios.worlds.simulated.world import SimulatedWorld

QUEUE = Unit("job_queue")
LOOK_SECONDS = 0.01


class Killed(Trial):
    """A trial in which the queue is killed at half time."""

    def __init__(self, amount: Amount, seed: int, trace: str) -> None:
        super().__init__(Variant(LLF), amount, seed, trace)
        self.waiting = self.differs = self.late = 0

    async def disturb(self) -> None:
        """Kill the queue half-way, and compare the order before and after."""
        world = self.run.world
        await world.sleep(self.load.earlier_span + (self.load.span - self.load.earlier_span) / 2)
        before = self._order()
        assert before is not None, "nobody has killed it yet"
        self.waiting = len(before)
        await world.kill(QUEUE)
        await world.revive(QUEUE)
        while (after := self._order()) is None:
            await world.sleep(LOOK_SECONDS)
        known = set(before) & set(after)
        both = ([name for name in order if name in known] for order in (before, after))
        self.differs = sum(one != other for one, other in zip(*both, strict=True)) + len(before) - len(known)

    def _order(self) -> list[WorkloadId] | None:
        """Return what waits, in order; None while the queue is down."""
        assert isinstance(self.run.world, SimulatedWorld)
        opened = self.run.world.process(QUEUE).open
        if opened is None or opened.host is None or not opened.host.is_open:
            return None
        state: QueueState | None = opened.host.state
        assert state is not None, "it is open"
        bring_up(state, opened.host.clock.now())
        return [one.work.workload for one in state.order.ranked()]


def options(parser: argparse.ArgumentParser) -> None:
    """Those that it has of its own."""
    parser.add_argument(
        "--trace", default=TRACE, help="where the Philly trace is; without one, run times are lognormal"
    )
    parser.add_argument("--seeds", default="1,2,3", help="numbers, joined by commas")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play each seed with and without the kill."""
    if chosen is None:
        parser = argparse.ArgumentParser()
        options(parser)
        chosen = parser.parse_args([])
    seeds = [1] if is_quick else [int(seed) for seed in chosen.seeds.split(",")]
    amount = QUICK if is_quick else FULL
    trace = chosen.trace if (Path(chosen.trace) / FILE).exists() else ""
    begun = time.perf_counter()
    pairs: list[tuple[Played, Played]] = []
    waiting, differs = [], 0
    for seed in seeds:
        killed = Killed(amount, seed, trace)
        pairs.append((Trial(Variant(LLF), amount, seed, trace).play(), killed.play()))
        waiting.append(killed.waiting)
        differs += killed.differs
    figures = {
        "met_undisturbed": statistics.mean(one.met for one, _ in pairs),
        "met_disturbed": statistics.mean(other.met for _, other in pairs),
        "waiting_at_the_kill": statistics.mean(waiting),
        "seeds": float(len(seeds)),
        "wall_seconds": time.perf_counter() - begun,
    }
    bars = [
        at_most(
            "met_loss",
            figures["met_undisturbed"] - figures["met_disturbed"],
            0.02,
            "a queue that starts again awards a second or two later",
        ),
        at_most("order_differs", float(differs), 0, "the order rests on more than the log"),
    ]
    return Findings({**figures, **{bar.name: bar.value for bar in bars}}, bars)
