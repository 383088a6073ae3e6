"""What nodes there are, what is free on them and who is on them: of whole groups, or one by one."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from bus.port import Bus
from core.images import RegionImage
from core.images.capacity import Capacity
from core.nouns.ids import RegionName, WorkloadId, region_log
from mizzen.answers import CommandError
from mizzen.plane import fetch_image
from mizzen.views.reading import chosen_regions
from mizzen.views.texts import columns_text, gpus_text, nodes_text

COLUMNS = (
    "REGION", "NODELIST", "NODES", "TYPE", "WORKER", "STATE", "GPUS", "FREE", "HELD", "ENDING", "LOST", "WORKLOADS",
)  # fmt: skip
FIGURES = ("NODES", "GPUS", "FREE", "HELD", "ENDING", "LOST")
SHOWN_MAX = 5
"""Workloads that a line names; JSON has them all."""


class NodesRow(Struct, frozen=True):
    """Like nodes that one worker serves, or one of them. GPUs are counted in milli."""

    region: RegionName
    first: int
    last: int
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

    @property
    def state(self) -> str:
        """As sinfo calls it."""
        if self.lost:
            return "lost"
        if self.ending:
            return "ending"
        if self.free == self.total:
            return "idle"
        return "mixed" if self.free else "full"


async def rows_of_plane(
    bus: Bus, region: str, *, is_each: bool
) -> tuple[list[NodesRow], list[tuple[RegionName, str]]]:
    """All rows, and the regions that do not tell, with what went wrong. Raises CommandError."""
    rows: list[NodesRow] = []
    silent: list[tuple[RegionName, str]] = []
    for name in await chosen_regions(bus, region):
        try:
            image, _ = await fetch_image(bus, region_log(name), ("capacity",))
        except CommandError as error:
            silent.append((name, str(error)))
            continue
        assert isinstance(image, RegionImage)
        rows += rows_of(name, image.capacity, is_each=is_each)
    return rows, silent


def rows_of(region: RegionName, capacity: Capacity, *, is_each: bool) -> list[NodesRow]:
    """Of one region: by the groups in which its nodes joined, or each node."""
    on = _workloads_on(capacity)
    groups = [(worker, group) for worker, row in capacity.workers.items() for group in row.inventory.groups]
    groups.sort(key=lambda one: one[1].first)
    if not is_each:
        return [_row(region, capacity, on, group.numbers()) for _, group in groups]
    return [
        _row(region, capacity, on, range(node, node + 1)) for _, group in groups for node in group.numbers()
    ]


def _workloads_on(capacity: Capacity) -> dict[int, dict[WorkloadId, None]]:
    found: dict[int, dict[WorkloadId, None]] = {}
    for workload, _, held in capacity.live():
        for spread in held.claim.spreads:
            for node in spread.nodes:
                found.setdefault(node, {})[workload] = None
    return found


def _row(
    region: RegionName, capacity: Capacity, on: dict[int, dict[WorkloadId, None]], nodes: range
) -> NodesRow:
    gpu = capacity.gpu
    workloads = dict.fromkeys(workload for node in nodes for workload in on.get(node, {}))
    return NodesRow(
        region=region,
        first=nodes[0],
        last=nodes[-1],
        nodes=len(nodes),
        node_type=capacity.node_type[nodes[0]],
        worker=capacity.worker_of[nodes[0]],
        total=sum(gpu.total[node] for node in nodes),
        free=sum(gpu.free[node] for node in nodes),
        reserved=sum(gpu.reserved[node] for node in nodes),
        held=sum(gpu.held[node] for node in nodes),
        ending=sum(gpu.ending[node] for node in nodes),
        lost=sum(gpu.total[node] for node in nodes if capacity.is_lost[node]),
        workloads=tuple(workloads),
    )


def table_of(rows: Iterable[NodesRow], width: int | None) -> list[str]:
    """The lines of a table."""
    return columns_text(COLUMNS, [_cells(row) for row in rows], width, FIGURES)


def _cells(row: NodesRow) -> tuple[object, ...]:
    figures = (gpus_text(amount) for amount in (row.total, row.free, row.held, row.ending, row.lost))
    more = len(row.workloads) - SHOWN_MAX
    workloads = ",".join(row.workloads[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    nodes = nodes_text(row.region, [(row.first, row.last)])
    return (row.region, nodes, row.nodes, row.node_type, row.worker, row.state, *figures, workloads)


def builtins_of(row: NodesRow) -> dict[str, Any]:  # Any: whatever JSON can hold
    """A row as JSON has it."""
    return {**msgspec.to_builtins(row), "state": row.state}
