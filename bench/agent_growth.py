"""How the cost of a warm search, and what it keeps in memory, grow with the nodes of a region.

The regions are searched in turn, so that whatever else the machine does falls on all of them alike.

source    issue's own bar: a hit at 100,000 nodes costs at most one and a half times what it costs at 1,000; memory is linear
"""

import statistics
import time
from pathlib import Path

from bench.support.agents.region import AgentRegion, classes
from bench.support.report import Findings, at_most
from core.nouns.reasons import Reason
from core.placing.pick.nodes import Choice
from core.placing.pool_set import Asker

SIZES, QUICK_SIZES = (1_000, 10_000, 100_000), (1_000, 4_000)
ROUNDS, QUICK_ROUNDS = 40, 5
PICKS = 50
"""In a row in one region, each after one change."""
CLASSES = 20


def run(_: Path, *, is_quick: bool) -> Findings:
    """Regions that differ in nothing but their size."""
    sizes = QUICK_SIZES if is_quick else SIZES
    regions = {nodes: AgentRegion(nodes) for nodes in sizes}
    spans: dict[int, list[float]] = {nodes: [] for nodes in sizes}
    for number in range(QUICK_ROUNDS if is_quick else ROUNDS):
        for nodes, region in regions.items():
            spans[nodes] += _picks(region, number)
    figures: dict[str, float] = {}
    for nodes, region in regions.items():
        figures[f"one_event_p50_us_{nodes}"] = 1e6 * statistics.median(spans[nodes])
        figures[f"bytes_a_node_{nodes}"] = _bytes(region) / nodes
    least, most = sizes[0], sizes[-1]
    growth = figures[f"one_event_p50_us_{most}"] / figures[f"one_event_p50_us_{least}"]
    memory = figures[f"bytes_a_node_{most}"] / figures[f"bytes_a_node_{least}"]
    return Findings(
        figures | {"hit_cost_growth": growth, "bytes_a_node_growth": memory},
        [
            at_most(
                "hit_cost_growth", growth, 1.5, "the least keys of all pods are looked through at each pick"
            ),
            at_most("bytes_a_node_growth", memory, 1.1, "something is kept that grows faster than the nodes"),
        ],
    )


def _picks(region: AgentRegion, number: int) -> list[float]:
    jobs = classes(CLASSES)
    spans = []
    for count in range(PICKS):
        job, choice = jobs[count % 2], Choice(f"w-{number}-{count}.1")
        region.state.placer.find((job,), Asker(), choice)
        region.happen()
        begun = time.perf_counter()
        found = region.state.placer.find((job,), Asker(), choice)
        spans.append(time.perf_counter() - begun)
        assert not isinstance(found, Reason), found
    return spans


def _bytes(region: AgentRegion) -> int:
    """Of arrays: the tables, and the same number of classes in each region."""
    pools = region.state.placer.pools.by_name.values()
    for job in classes(CLASSES):
        region.state.placer.find((job,), Asker(), Choice("w-1.1"))
    return sum(pool.nbytes + pool.table.nbytes for pool in pools)
