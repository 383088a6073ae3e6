"""A queue over a region of ordinary nodes and one of a shared pool, jobs of that pool, and pairs of them on one GPU."""

from collections import Counter
from typing import Any

from msgspec.structs import replace

from core.component import Decision
from core.events.queue import WorkloadAwarded
from core.events.region import AttemptEnded, ClaimGranted, GangStarted, NodesJoined
from core.events.sharing import PicksAdded, RoundBegun
from core.messages.broker import SolicitBid
from core.messages.queue import Bid, ShowWorkload, WorkloadShown
from core.messages.sharing import SetPolicy, SetShares
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import GLOBAL_LOG, AgentName, WorkerName, WorkloadId, region_log
from core.nouns.instant import Instant, Nanoseconds, seconds
from core.nouns.operation import ROUND
from core.nouns.placement import View
from core.nouns.pool import SHARED_POOL
from core.nouns.quantities import Amount
from core.nouns.sharing import ROUND_SPAN, ClassShares, PoolShares, ShareColumn, ShareSpec, SharingSettings
from core.nouns.workload import EndCause, Kind, WorkloadSpec
from core.sharing.classes import class_of
from tests.builders import US, US_LOG, a_claim, a_job, a_spec, a_spread, attempt
from tests.components.support.job_queue import Start, a_job_queue, submit
from tests.components.support.machine import Machine
from tests.matching import facts, said

GRACE = seconds(10)


def pool_nodes(nodes: int = 1, gpus: int = 1, gpu_type: str = "V100", first: int = 0) -> NodesJoined:
    """Nodes of a shared pool."""
    total = Amount(1_000 * gpus, 96_000, 1 << 40)
    group = NodeGroup(first, nodes, total, gpu_type, first, 1, pool=SHARED_POOL)
    worker = WorkerName(f"w{first}")
    return NodesJoined(worker, Inventory(worker, (group,)))


def a_pool_queue(start: Start, nodes: NodesJoined | None = None) -> Machine[Any]:
    """Ordinary nodes in eu, and a shared pool in us: one node with one V100, if no other is named."""
    return a_job_queue(start, us=nodes or pool_nodes())


def shared(number: int = 1, tasks: int = 1, **share: Any) -> WorkloadSpec:  # Any: fields of a share
    """A job of the shared pool, with so many tasks of one GPU, on V100 or K80."""
    job = replace(a_job(tasks, 1, gpu_type="V100"), or_types=("K80",))
    spec = a_spec(job, name=f"m{number}", kind=Kind.SHARED)
    return replace(spec, grace=GRACE, share=ShareSpec(**{"model": "m", **share}))


def boundary(machine: Machine[Any]) -> Instant:
    """When the next round begins."""
    return Instant((machine.now // ROUND_SPAN + 1) * ROUND_SPAN)


def next_round(machine: Machine[Any]) -> Decision:
    """It begins."""
    return machine.wake(boundary(machine))


def starts(machine: Machine[Any], opened: Decision, *workloads: str, epoch: int = 1) -> list[WorkloadAwarded]:
    """The pools bid for the jobs that were asked for; they have their awards, and start, each on a node of its own."""
    asked = {message.workload: message for message in said(opened, SolicitBid)}
    regions = {workload: message.region for workload, message in asked.items()}
    for node, workload in enumerate(workloads):
        auction, spreads = asked[WorkloadId(workload)].auction, (a_spread({node: 1}),)
        region, name = regions[WorkloadId(workload)], AgentName("a0")
        machine.hear(Bid(region, name, WorkloadId(workload), auction, (0,) * 6, spreads, (), View(1)))
    machine.wake()
    for node, workload in enumerate(workloads):
        claim = replace(
            a_claim(workload, epoch),
            region=regions[WorkloadId(workload)],
            jobs=asked[WorkloadId(workload)].jobs,
            spreads=(a_spread({node: 1}),),
            kind=Kind.SHARED,
        )
        granted = ClaimGranted(claim.workload, epoch, claim, is_merged=False)
        log = region_log(claim.region)
        machine.fact(log, granted, GangStarted(*attempt(workload, epoch)))
    machine.wake(Instant(machine.now + Nanoseconds(1)))
    made = [fact.event for fact in machine.logs[GLOBAL_LOG] if isinstance(fact.event, WorkloadAwarded)]
    found = [event for event in made if event.workload in workloads and event.epoch == epoch]
    assert len(workloads) == len(found)
    return found


def take_turns(machine: Machine[Any], runs: WorkloadId, rounds: int) -> tuple[Counter[str], Counter[str]]:
    """Rounds of jobs on one GPU, on which `runs` is first. Returns how many rounds each had it, and how often each was started."""
    ran, epochs = Counter[str](), Counter[str]({runs: 1})
    for _ in range(rounds):
        decision = next_round(machine)
        round_ = begun(decision)
        ran[runs] += 1
        if not round_.joins:
            assert () == round_.leaves
            continue
        (joins,) = round_.joins
        assert (runs,) == round_.leaves != (joins,)
        assert f"{ROUND}{round_.number}" == machine.state.image.awards.rows[runs].moving
        machine.fact(US_LOG, AttemptEnded(*attempt(runs, epochs[runs]), EndCause.ROUND_OVER))
        opened = machine.wake()
        runs = joins
        epochs[runs] += 1
        asked = [*said(decision, SolicitBid), *said(opened, SolicitBid)]
        assert {runs} == {message.workload for message in asked}
        starts(machine, opened if said(opened, SolicitBid) else decision, runs, epoch=epochs[runs])
    return ran, epochs


def begun(decision: Decision) -> RoundBegun:
    """The round that began."""
    (found,) = [event for event in facts(decision) if isinstance(event, RoundBegun)]
    return found


def picked(decision: Decision) -> list[WorkloadId]:
    """Who was picked, at a boundary or within a round."""
    return [
        job for event in facts(decision) if isinstance(event, RoundBegun | PicksAdded) for job in event.joins
    ]


def reason(machine: Machine[Any], workload: WorkloadId) -> str:
    """Return why a workload does not run, as it is told to users."""
    decision = machine.hear(ShowWorkload(workload))
    (shown,) = said(decision, WorkloadShown)
    return shown.reason


# Pairs.

A, B, C = (class_of(shared(model=model)) for model in "abc")
Queue = Machine[Any]  # Any: a queue's state


def a_queue_of_pairs(start: Start, models: str = "ab", gpus: int = 1) -> Queue:
    """Jobs of these models, of which the first run alone on the GPUs that there are; two may share one."""
    queue = a_pool_queue(start, pool_nodes(gpus))
    queue.hear(SetPolicy(SharingSettings(has_pairs=True), 0))
    for number, model in enumerate(models, 1):
        submit(queue, shared(number, model=model))
    starts(queue, queue.wake(), *(f"w-{number}" for number in range(1, gpus + 1)))
    return queue


def owe(queue: Queue, *owed: tuple[str, str, int], gpus: int = 1) -> None:
    """Shares arrive: of each class beside another, or alone where none is named."""
    classes: dict[str, ClassShares] = {}
    for name, beside, share in owed:
        one = classes.get(name, ClassShares(name, ()))
        classes[name] = (
            replace(one, beside=(*one.beside, (0, beside, share)))
            if beside
            else replace(one, shares=((0, share),))
        )
    sharing = queue.state.image.sharing
    shares = PoolShares(
        sharing.shares.revision + 1,
        (ShareColumn(US, "V100"),),
        (gpus,),
        tuple(classes.values()),
        "highs",
        sharing.changes,
    )
    assert facts(queue.hear(SetShares(shares, "max_min", 0)))
