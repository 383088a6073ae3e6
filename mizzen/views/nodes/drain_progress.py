"""How far a drain or a maintenance is, rack by rack: what is empty, who is left, and what each waits for.

All of it is a pure function of the region's image, so that it can be told of any sequence and tested without a plane.
"""

from typing import Any

import msgspec
from msgspec import Struct

from core.images import RegionImage
from core.images.closures import Closure
from core.images.maintenance import MaintenanceRow
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.maintenance import ClosureKind
from core.nouns.placement import numbers_in, runs_of
from mizzen.views.nodes.occupants import URGENCY, Occupant, Wait, WaitKind, Waits, forced_at, occupants

SECTIONS = ("capacity", "control", "maintenance", "attempts", "destruction")
"""Of a region's image: what is read here."""

Runs = tuple[tuple[int, int], ...]


class LeavingRow(Struct, frozen=True):
    """Tasks of one workload in one rack that wait for the same thing."""

    rack: int
    workload: WorkloadId
    epoch: int
    tasks: int
    is_there: bool
    """Whether something of them may still run; if not, only their room is held."""
    nodes: Runs
    wait: Wait
    """Since the first of them began to wait; forced when the first of them is."""


class RackRow(Struct, frozen=True):
    """Those of the nodes that are in one rack."""

    rack: int
    nodes: int
    empty: int
    """Nothing runs on them. One that is lost is never empty: nobody knows."""
    lost: int
    left: int
    """Tasks that are still to leave."""
    rows: tuple[LeavingRow, ...]


class Progress(Struct, frozen=True):
    """How far a drain or a maintenance is. Times are instants; 0: there is none."""

    region: RegionName
    source: str
    kind: ClosureKind
    work: str
    """The kind of the maintenance; empty: a drain."""
    phase: str
    """Of the maintenance."""
    reason: str
    by: str
    since: int
    """When it was asked for."""
    notice_at: int
    starts_at: int
    """When the window opens."""
    ends_at: int
    forced_at: int
    """When what is still there is stopped unasked."""
    node_runs: Runs
    nodes: int
    empty: int
    lost: int
    left: int
    """Tasks that are still to leave."""
    staying: int
    """Tasks that may stay."""
    gone: int
    """Tasks of which nothing runs, and which hold their room until they have another, or return."""
    workloads: tuple[WorkloadId, ...]
    """Of those that are to leave."""
    racks: tuple[RackRow, ...]
    lifts_at: int = 0
    """When a drain for defragmentation lifts itself, though its nodes are not free."""

    @property
    def is_done(self) -> bool:
        """Whether nothing that was to leave is left."""
        return self.left == 0


def sources_of(image: RegionImage, kind: ClosureKind) -> list[str]:
    """The drains there are, or the maintenances that are not over, in the order of their numbers."""
    if kind is ClosureKind.MAINTENANCE:
        names = list(image.maintenance.rows)
    else:
        names = [name for name, closure in image.capacity.closures.items() if closure.kind is kind]
    return sorted(names, key=lambda name: (len(name), name))


def progress_of(region: RegionName, image: RegionImage, source: str, now: Instant) -> Progress | None:
    """How far it is; None if there is none of that name (any more).

    now   on the keeper's clock, as well as can be told: for what is said once in a minute only
    """
    planned = image.maintenance.rows.get(source)
    closure = image.capacity.closures.get(source)
    if planned is None and (closure is None or closure.kind is not ClosureKind.DRAIN):
        return None
    nodes = numbers_in(planned.nodes if planned is not None else closure.nodes if closure is not None else ())
    racks = _racks(image, nodes, _rows_of(image, source, set(nodes), now))
    rows = [row for rack in racks for row in rack.rows]
    leaving = [row for row in rows if _is_to_leave(row)]
    return Progress(
        region=region,
        source=source,
        kind=ClosureKind.DRAIN if planned is None else ClosureKind.MAINTENANCE,
        **_words_of(planned, closure),
        forced_at=forced_at(image, source),
        node_runs=runs_of(nodes),
        nodes=len(nodes),
        empty=sum(rack.empty for rack in racks),
        lost=sum(rack.lost for rack in racks),
        left=sum(row.tasks for row in leaving),
        staying=sum(row.tasks for row in rows if row.wait.kind is WaitKind.STAYS),
        gone=sum(row.tasks for row in rows if not row.is_there),
        workloads=tuple(dict.fromkeys(row.workload for row in leaving)),
        racks=racks,
    )


def builtins_of(progress: Progress) -> dict[str, Any]:  # Any: whatever JSON can hold
    """As JSON has it."""
    return {**msgspec.to_builtins(progress), "is_done": progress.is_done}


def _words_of(planned: MaintenanceRow | None, closure: Closure | None) -> dict[str, Any]:
    if planned is not None:
        return {
            "work": str(planned.kind),
            "phase": str(planned.phase),
            "reason": planned.reason,
            "by": planned.by,
            "since": planned.planned_at,
            "notice_at": planned.starts_at - planned.lead,
            "starts_at": planned.starts_at,
            "ends_at": planned.starts_at + planned.lasts,
        }
    assert closure is not None
    words = {"work": "", "phase": "", "reason": closure.reason, "by": closure.by, "since": closure.at}
    lifts_at = closure.at + closure.lasts if closure.lasts else 0
    return {**words, "notice_at": 0, "starts_at": 0, "ends_at": 0, "lifts_at": lifts_at}


def _is_to_leave(row: LeavingRow) -> bool:
    return row.is_there and row.wait.kind not in (WaitKind.STAYS, WaitKind.LOST)


def _rows_of(image: RegionImage, source: str, nodes: set[int], now: Instant) -> dict[int, list[LeavingRow]]:
    """By rack, those who are on these nodes: the most urgent first, then by workload and epoch."""
    waits = Waits(image, source, now)
    groups: dict[tuple[object, ...], list[tuple[Occupant, Wait]]] = {}
    for one in occupants(image):
        if one.node in nodes:
            wait = waits.of(one)
            group = (image.capacity.rack[one.node], one.key, one.is_there, wait.kind, wait.what)
            groups.setdefault(group, []).append((one, wait))
    found: dict[int, list[LeavingRow]] = {}
    for members in groups.values():
        row = _row(image, members)
        found.setdefault(row.rack, []).append(row)
    for rows in found.values():
        rows.sort(key=_order)
    return found


def _row(image: RegionImage, members: list[tuple[Occupant, Wait]]) -> LeavingRow:
    one, wait = members[0]
    workload, epoch = one.key
    return LeavingRow(
        rack=image.capacity.rack[one.node],
        workload=workload,
        epoch=epoch,
        tasks=sum(member.tasks for member, _ in members),
        is_there=one.is_there,
        nodes=runs_of({member.node for member, _ in members}),
        wait=Wait(
            wait.kind,
            min(each.since for _, each in members),
            min((each.forced_at for _, each in members if each.forced_at), default=0),
            wait.what,
        ),
    )


def _order(row: LeavingRow) -> tuple[int, int, str, int, bool, str]:
    return (URGENCY[row.wait.kind], len(row.workload), row.workload, row.epoch, row.is_there, row.wait.what)


def _racks(image: RegionImage, nodes: list[int], rows: dict[int, list[LeavingRow]]) -> tuple[RackRow, ...]:
    capacity = image.capacity
    by_rack: dict[int, list[int]] = {}
    for node in nodes:
        by_rack.setdefault(capacity.rack[node], []).append(node)
    racks = []
    for rack, mine in sorted(by_rack.items()):
        there = rows.get(rack, [])
        taken = {node for row in there if row.is_there for node in numbers_in(row.nodes)}
        lost = [node for node in mine if capacity.is_lost[node]]
        empty = [node for node in mine if node not in taken and not capacity.is_lost[node]]
        left = sum(row.tasks for row in there if _is_to_leave(row))
        racks.append(RackRow(rack, len(mine), len(empty), len(lost), left, tuple(there)))
    return tuple(racks)
