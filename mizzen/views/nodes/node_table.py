"""What nodes there are, what is free on them and who is on them: those that are alike in a line, or one by one."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from bus.port import Bus
from core.images import RegionImage
from core.images.capacity import Capacity
from core.nouns.fleet import NodeGroup
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.placement import runs_of
from mizzen.views.nodes.node_states import SECTIONS, NodeState, NodeStates, state_text
from mizzen.views.phrases.text import columns_text, gpus_text, nodes_text
from mizzen.views.plane_reads import region_images

COLUMNS = (
    "REGION", "NODELIST", "NODES", "TYPE", "WORKER", "STATE", "GPUS", "FREE", "HELD", "ENDING", "LOST", "WORKLOADS",
)  # fmt: skip
FIGURES = ("NODES", "GPUS", "FREE", "HELD", "ENDING", "LOST")
SHOWN_MAX = 5
"""Workloads that a line names; JSON has them all."""


class NodesRow(Struct, frozen=True):
    """Like nodes that one worker serves and that are in one state, or one of them. GPUs are counted in milli."""

    region: RegionName
    node_runs: tuple[tuple[int, int], ...]
    nodes: int
    node_type: str
    worker: str
    total: int
    free: int
    """Of this, promised to somebody: `reserved`."""
    reserved: int
    held: int
    ending: int
    lost: int
    workloads: tuple[WorkloadId, ...]
    tasks: int
    """That may still run there."""
    power_domain: str
    pool: str
    zone: str
    condition: NodeState

    @property
    def use(self) -> str:
        """What an open one is used for, as sinfo calls it."""
        if self.ending:
            return "ending"
        if self.free == self.total:
            return "idle"
        return "mixed" if self.free else "full"


async def rows_of_plane(
    bus: Bus, region: str, *, is_each: bool
) -> tuple[list[NodesRow], list[tuple[RegionName, str]]]:
    """All rows, and the regions that do not tell, with what went wrong. Raises CommandError."""
    images, silent = await region_images(bus, region, SECTIONS)
    return [row for name, image in images for row in rows_of(name, image, is_each=is_each)], silent


def rows_of(region: RegionName, image: RegionImage, *, is_each: bool) -> list[NodesRow]:
    """Of one region: by the groups in which its nodes joined and by their states, or each node."""
    capacity = image.capacity
    on = _workloads_on(capacity)
    states = NodeStates(image)
    groups = [group for row in capacity.workers.values() for group in row.inventory.groups]
    rows = []
    for group in sorted(groups, key=lambda group: group.first):
        alike: dict[object, list[int]] = {}
        for node in group.numbers():
            alike.setdefault(node if is_each else states.of(node), []).append(node)
        rows += [_row(region, capacity, on, group, nodes, states) for nodes in alike.values()]
    return rows


def _workloads_on(capacity: Capacity) -> dict[int, dict[WorkloadId, None]]:
    found: dict[int, dict[WorkloadId, None]] = {}
    for workload, _, held in capacity.live():
        for spread in held.claim.spreads:
            for node in spread.nodes:
                found.setdefault(node, {})[workload] = None
    return found


def _row(
    region: RegionName,
    capacity: Capacity,
    on: dict[int, dict[WorkloadId, None]],
    group: NodeGroup,
    nodes: list[int],
    states: NodeStates,
) -> NodesRow:
    gpu = capacity.gpu
    workloads = dict.fromkeys(workload for node in nodes for workload in on.get(node, {}))
    return NodesRow(
        region=region,
        node_runs=runs_of(nodes),
        nodes=len(nodes),
        node_type=group.node_type,
        worker=capacity.worker_of[nodes[0]],
        total=sum(gpu.total[node] for node in nodes),
        free=sum(gpu.free[node] for node in nodes),
        reserved=sum(gpu.reserved[node] for node in nodes),
        held=sum(gpu.held[node] for node in nodes),
        ending=sum(gpu.ending[node] for node in nodes),
        lost=sum(gpu.total[node] for node in nodes if capacity.is_lost[node]),
        workloads=tuple(workloads),
        tasks=sum(states.left[node] for node in nodes),
        power_domain=group.power_domain,
        pool=group.pool,
        zone=group.zone,
        condition=states.of(nodes[0]),
    )


def table_of(rows: Iterable[NodesRow], now: Instant, width: int | None) -> list[str]:
    """The lines of a table."""
    return columns_text(COLUMNS, [_cells(row, now) for row in rows], width, FIGURES)


def _cells(row: NodesRow, now: Instant) -> tuple[object, ...]:
    figures = (gpus_text(amount) for amount in (row.total, row.free, row.held, row.ending, row.lost))
    more = len(row.workloads) - SHOWN_MAX
    workloads = ",".join(row.workloads[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    nodes = nodes_text(row.region, row.node_runs)
    state = state_text(row.condition, row.tasks, row.use, now)
    return (row.region, nodes, row.nodes, row.node_type, row.worker, state, *figures, workloads)


def builtins_of(row: NodesRow) -> dict[str, Any]:  # Any: whatever JSON can hold
    """A row as JSON has it: the state in a word, what an open node is used for, and all that closes it."""
    told = msgspec.to_builtins(row)
    condition = told.pop("condition")
    return {**told, "state": str(row.condition.state), "use": row.use, "closed_by": condition["closed_by"]}
