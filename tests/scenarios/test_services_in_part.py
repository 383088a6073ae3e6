"""Services that are content with a part, in a whole plane whose agents are told everything seconds late."""

from collections import Counter

import structlog

from core.events.control import ClaimRevised
from core.events.queue import AttemptClosed
from core.events.region import AttemptEnded, ClaimGranted
from core.fact import Fact
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, region_log
from core.nouns.operation import job_and_rank
from core.nouns.workload import Phase
from core.placing.diagnosis.replay_choice import Outcome as Retraced
from runtime.virtual_loop import VirtualLoop
from scenarios.play.simulated import simulated_run
from scenarios.scenario import parse_scenario
from scenarios.schema.outcome import Outcome
from scenarios.worlds.simulated.world import START, SimulatedWorld
from store.rows import facts_of
from tests.scenarios.retraced import Tally, retrace

IN_PART = parse_scenario(
    """
name: in_part
survives: Agents claim what others have, and services start with the tasks for which there is room.
fleet: {regions: 1, nodes: 6, agents: 4, workers: 2, nodes_per_rack: 3}
workload:
  - services: {workloads: 12, hours: 0.05, tasks: 6, gpus: 1, is_incremental: true, cancels_share: 0.3, change_minutes: 1}
faults:
  - message_delay: {ones: [store.r0], others: [agent.*], one_way: true, share: 1.0, seconds: 4}
calm: {minutes: 10}
""",
    "in_part.yaml",
)
LOG = region_log(RegionName("r0"))


def played(seed: int) -> tuple[Outcome, dict[LogName, list[Fact]]]:
    """What came of it, and every log."""
    loop = VirtualLoop(START)
    try:
        run = simulated_run(IN_PART, seed, loop)
        assert isinstance(run.world, SimulatedWorld)
        with structlog.testing.capture_logs():
            outcome = loop.run_until_complete(run.play())
        disk = run.world.store.disk
        files = {log: disk(log).file(log) for log in run.world.store.logs()}
        return outcome, {
            log: facts_of(log, file.rows[: file.durable]) for log, file in files.items() if file is not None
        }
    finally:
        loop.cancel_all()
        loop.close()


def test_services_in_part_through_a_whole_plane() -> None:
    """L1: some are granted in part, and the auditor finds nothing wrong; each task has had room before its service completed, and
    of those that were cancelled first everything is free again; each choice is told as it was.
    """
    outcome, logs = played(2)
    assert ([], []) == (outcome.violations, outcome.problems)
    grants = {
        (fact.event.workload, fact.event.epoch): fact.event
        for fact in logs[LOG]
        if isinstance(fact.event, ClaimGranted)
    }
    in_part = {key: grant for key, grant in grants.items() if grant.unplaced}
    assert len(in_part) >= 2
    came = Counter(
        (fact.event.workload, fact.event.epoch)
        for fact in logs[LOG]
        if isinstance(fact.event, ClaimRevised)
        for move in fact.event.moves
        if move.node_from < 0 <= job_and_rank(move.task)[1]
    )
    done = {
        (fact.event.workload, fact.event.epoch)
        for fact in logs[GLOBAL_LOG]
        if isinstance(fact.event, AttemptClosed) and fact.event.phase is Phase.COMPLETED
    }
    assert done & in_part.keys()
    for key in sorted(done & in_part.keys()):
        assert came[key] == sum(in_part[key].unplaced), key
    ended = [fact.event for fact in logs[LOG] if isinstance(fact.event, AttemptEnded)]
    assert sorted(grants) == sorted((event.workload, event.epoch) for event in ended)
    tally = Tally()
    retrace(LOG, logs[LOG], tally)
    assert {Retraced.EQUAL: len(grants)} == tally.outcomes, tally.problems
