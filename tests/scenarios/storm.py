"""More misfortune than any scenario of the library: a third of all messages lost and a third repeated, out of order, every
process killed five times, servers restarted, disks full for a while, nodes without power. And a watch on every spool.
"""

from runtime.gc_tuning import settle_down
from runtime.virtual_loop import VirtualLoop
from scenarios.play.simulated import simulated_run
from scenarios.scenario import parse_scenario
from scenarios.schema.outcome import Outcome
from scenarios.worlds.simulated.world import START, SimulatedWorld
from tests.interleavings.watch import watch_spools

STORM = parse_scenario(
    """
name: storm
survives: Half an hour of everything at once, on a handful of nodes.
fleet: {regions: 2, nodes: 4, workers: 2}
workload:
  - steady:
      workloads: 40
      hours: 0.5
      minutes_median: 2
      minutes_max: 15
      gpus_max: 32
      fails_share: 0.15
      cancels_share: 0.15
faults:
  - message_loss: {share: 0.3}
  - message_repeat: {share: 0.3}
  - message_reorder: {share: 0.1}
  - crash_each: {times: 5, down_seconds: [0.1, 20]}
  - rack_cut: {times: 3, for_seconds: [5, 120]}
  - bus_restart: {times: 6, down_seconds: [1, 60]}
  - disk_full: {times: 12, for_seconds: [1, 60]}
  - node_crash: {times: 12, down_seconds: [0.1, 60]}
calm: {minutes: 720}
""",
    "storm.yaml",
)


def run_storm(seed: int) -> Outcome:
    """Play it from a seed; what ran twice without an excuse is a problem too."""
    settle_down()
    loop = VirtualLoop(START)
    try:
        run = simulated_run(STORM, seed, loop)
        world = run.world
        assert isinstance(world, SimulatedWorld)
        watch = watch_spools(world)
        outcome = loop.run_until_complete(run.play())
        assert watch.started, "nothing was watched"
        outcome.problems += [f"ran twice: {one}" for one in watch.unexcused(world)]
        return outcome
    finally:
        loop.cancel_all()
        loop.close()
