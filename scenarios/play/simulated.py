"""Plays one scenario in the simulated world, from a seed. The same (scenario, seed, commit) gives the same digest."""

from runtime.gc_tuning import settle_down
from runtime.planning.solving import has_solver
from runtime.virtual_loop import VirtualLoop
from scenarios.accounting.witness import Witness
from scenarios.play.run import Run
from scenarios.scenario import HISTORIES, ScenarioError, ScenarioSpec
from scenarios.schema.history import read_history
from scenarios.schema.outcome import Outcome
from scenarios.worlds.simulated.world import START, SimulatedWorld


def simulated_run(spec: ScenarioSpec, seed: int, loop: VirtualLoop, *, decides_twice: bool = False) -> Run:
    """A run that has not begun: for whoever wants to look into it while it plays."""
    witness = Witness(spec.plan)
    world = SimulatedWorld(
        spec.plan, seed, loop, witness=witness, decides_twice=decides_twice, pace=spec.dispatch.pace
    )
    if spec.history:
        for log, disk in read_history(HISTORIES / spec.history).items():
            world.store.put(log, disk)
        witness.known_before = len(witness.submitted_at)
    return Run(spec, seed, world, witness)


def run_simulated(spec: ScenarioSpec, seed: int, *, decides_twice: bool = False) -> Outcome:
    """Play a scenario from a seed. Deciding everything twice tests that deciding changes nothing; it costs a third more.

    Raises ScenarioError for one that cannot be simulated.
    """
    if spec.runs_programs:
        raise ScenarioError(f"{spec.name} runs programs on this machine; play it with `mizzen up FILE`")
    if spec.fleet.planner and not has_solver():
        raise ScenarioError(
            f"{spec.name} has a planner, whose solver is not installed; install mizzen[planner]"
        )
    settle_down()
    loop = VirtualLoop(START)
    try:
        run = simulated_run(spec, seed, loop, decides_twice=decides_twice)
        return loop.run_until_complete(run.play())
    finally:
        loop.cancel_all()
        loop.close()
