"""What of a machine functions may use beside what tasks hold for them: what is harvested of each node, and no more than tasks leave. Pure.

The region says how much is harvested, and may be late or gone. Whatever it has said, tasks come first: from the moment at which a worker
writes that tasks are to have a part of a node, nothing of that part is for functions, and executors beyond what is left have to be gone
when those tasks' grace is over. Of what tasks lend, functions get the lent devices and no others.
"""

from collections.abc import Iterable

from core.nouns.function import GpuPart, Holding, Place
from core.nouns.ids import TenantName
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import Serves
from runtime.tasks.book import HarvestNode, TakenBy
from runtime.tasks.tasks_first import left_of, on_node

SHARE = "harvest"
"""The name of what is harvested of a node among holdings, before the node's number."""
NOBODY = TenantName("")


def holdings_of(nodes: Iterable[HarvestNode], taken: Iterable[TakenBy]) -> tuple[Holding, ...]:
    """Return what functions may use of each harvested node now, as holdings for everybody's functions."""
    taken = list(taken)
    return tuple(_holding(one, taken) for one in nodes)


def _holding(harvested: HarvestNode, taken: list[TakenBy]) -> Holding:
    size = harvested.size
    left, leaves_by = left_of(size, taken), harvested.leaves_by
    may = Amount(
        min(size.size.gpu_milli, left.gpu_milli),
        min(size.size.cpu_milli, left.cpu_milli),
        min(size.size.memory_bytes, left.memory_bytes),
    )
    used: dict[int, int] = {}
    for share, one in on_node(size.node, taken):
        leaves_by = max(leaves_by, share.clears_by)
        for slot, milli in one.kept.items():
            used[slot] = used.get(slot, 0) + milli
    slots = [
        (slot, MILLI - used.get(slot, 0))
        for slot in range(size.total.gpu_milli // MILLI)
        if used.get(slot, 0) < MILLI
    ]
    is_cpu = size.is_cpu
    return Holding(
        f"{SHARE}.{size.node}",
        NOBODY,
        Serves.ALL,
        False,
        () if is_cpu else tuple(GpuPart(slot, milli) for slot, milli in slots),
        tuple(slot for slot, _ in slots) if is_cpu else (),
        Amount(0, may.gpu_milli, may.memory_bytes) if is_cpu else may,
        Place(size.node, is_harvested=True),
        leaves_by,
        slows=not is_cpu,
    )
