"""On which nodes each rank of a job has run, in the order of its runs: as it was granted, and where it went from there."""

from collections.abc import Iterable

from core.events.control import ClaimRevised
from core.fact import Fact
from core.nouns.ids import region_log
from core.nouns.operation import WHOLE, job_and_rank
from core.nouns.placement import nodes_of_ranks
from mizzen.views.workloads.story import Attempt


def nodes_by_rank(attempt: Attempt, facts: Iterable[Fact], job: str) -> dict[int, list[int]]:
    """Every rank that ever was, ascending. A run where the one before it was is not named again.

    facts  of the workload, in the order in which they happened
    """
    assert attempt.placement is not None, attempt
    index = attempt.placement.jobs.index(job)
    nodes = {rank: [node] for rank, node in enumerate(nodes_of_ranks(attempt.placement.spreads[index]))}
    log = region_log(attempt.region)
    for fact in facts:
        if fact.log != log or not isinstance(fact.event, ClaimRevised) or fact.event.epoch != attempt.epoch:
            continue
        for move in fact.event.moves:
            if move.task == WHOLE or move.node_to < 0:
                continue  # It starts again where it is, or is no more; what it wrote is still there.
            its_job, rank = job_and_rank(move.task)
            if its_job == index and nodes.setdefault(rank, [])[-1:] != [move.node_to]:
                nodes[rank].append(move.node_to)
    return dict(sorted(nodes.items()))
