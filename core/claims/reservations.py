"""Nodes of a reserved start: used only by its own workload, work of a higher level, and backfill that is sure to end in time."""

from collections.abc import Hashable, Iterable
from typing import Protocol

from core.claims.checks import check_nodes, check_now, is_well_formed
from core.images.capacity import Capacity
from core.images.reservations import ReservedStart, Starts
from core.nouns.ids import AgentName, AttemptKey, ClaimId, RegionName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.limits import PROMISE_SPAN, START_ALLOWANCE
from core.nouns.placement import Claim, View, needs_of, parts_of
from core.nouns.quantities import MILLI, Amount
from core.nouns.starts import StartOver
from core.placing.index.owners import Now, Owners
from core.rules.guaranteed_ends import ends_by, newcomer_ends_by


class Lasting(Protocol):
    """A request, an award or a claim, with the properties that bound the end of the attempt."""

    @property
    def workload(self) -> WorkloadId:
        """The workload."""

    @property
    def priority(self) -> int:
        """The workload's level."""

    @property
    def kind(self) -> str:
        """The workload's kind."""

    @property
    def max_duration(self) -> int:
        """Longest duration in nanoseconds from the start; 0: no limit."""

    @property
    def grace(self) -> int:
        """Nanoseconds from SIGTERM to SIGKILL; 0: the default, `GRACE`."""


def barring(
    starts: Starts, workload: WorkloadId, level: int, ends: Instant | None
) -> list[tuple[WorkloadId, ReservedStart]]:
    """Return the reservations that bar a workload from their nodes, each with its owner.

    ends    the workload's guaranteed end; None: unknown
    """
    return [
        (owner, row)
        for owner, row in starts.rows.items()
        if owner != workload and level <= row.level and (ends is None or ends > row.starts_at)
    ]


def barred_from(
    starts: Starts, asking: Lasting, now: Instant, *, has_victims: bool = False
) -> tuple[int, ...]:
    """Return the sequences of the reservations that bar a workload placed now. Fast while a region has no reservations."""
    if not starts.rows:
        return ()
    ends = newcomer_ends_by(asking.kind, asking.max_duration, asking.grace, now, has_victims=has_victims)
    return sequences_of(barring(starts, asking.workload, asking.priority, ends))


def barred_for_ever(starts: Starts, workload: WorkloadId, level: int) -> tuple[int, ...]:
    """Return the sequences of reservations that bar a start to be reserved: it counts as endless, so no two of a level share a node."""
    return sequences_of(barring(starts, workload, level, None))


def waits_for_its_start(starts_at: int, now: Instant) -> bool:
    """Return whether a promised start is so near that victims preempted for the workload might not be gone by then."""
    return now <= starts_at < now + PROMISE_SPAN + START_ALLOWANCE


def sequences_of(rows: Iterable[tuple[WorkloadId, ReservedStart]]) -> tuple[int, ...]:
    """Return the sequences of reservations as requests name them, ascending."""
    return tuple(sorted(row.sequence for _, row in rows))


def barred_nodes(starts: Starts, claim: Claim, now: Instant) -> frozenset[int]:
    """Return the nodes from which reservations bar a claim now, for a store's check."""
    if not starts.rows:
        return frozenset()
    ends = newcomer_ends_by(claim.kind, claim.max_duration, claim.grace, now, has_victims=bool(claim.victims))
    rows = barring(starts, claim.workload, claim.priority, ends)
    return frozenset(node for _, row in rows for node in row.nodes())


def displaced_by(starts: Starts, claim: Claim, nodes: Iterable[int], now: Instant) -> list[WorkloadId]:
    """Return the owners of the reservations that cannot hold once a claim, which is allowed there, is on these nodes."""
    if not starts.rows:
        return []
    ends = newcomer_ends_by(claim.kind, claim.max_duration, claim.grace, now, has_victims=bool(claim.victims))
    taken = set(nodes)
    return [
        owner
        for owner, row in starts.rows.items()
        if owner != claim.workload
        and (ends is None or ends > row.starts_at)
        and not taken.isdisjoint(row.nodes())
    ]


# Reserving.


def as_claim(workload: WorkloadId, row: ReservedStart) -> Claim:
    """Return the claim that the owner of a reservation would make, for rules that read claims."""
    return Claim(
        claim=ClaimId(""),
        region=RegionName(""),
        agent=AgentName(""),
        workload=workload,
        epoch=0,
        award_sequence=0,
        priority=row.level,
        kind=row.kind,
        jobs=row.jobs,
        spreads=row.spreads,
        view=View(0),
        tenant=row.tenant,
    )


def why_not_reserved(
    workload: WorkloadId,
    row: ReservedStart,
    starts: Starts,
    capacity: Capacity,
    owners: Owners,
    now: Instant,
) -> StartOver | None:
    """Return the reason why a start cannot be reserved, if any.

    The nodes must be open and without reservations of the same or a higher level, and the claim must fit on them beside all
    promises, and beside the attempts without a guaranteed end by the start.
    """
    claim = as_claim(workload, row)
    if not is_well_formed(claim) or check_nodes(claim, capacity) is not None:
        return StartOver.NO_ROOM
    nodes = row.nodes()
    if not all(map(capacity.is_open, nodes)):
        return StartOver.NODE_CLOSED
    kept = {node for _, other in barring(starts, workload, row.level, None) for node in other.nodes()}
    if not kept.isdisjoint(nodes):
        return StartOver.NO_ROOM
    stays = _Staying(capacity, set(nodes), Instant(row.starts_at), now)
    parts = parts_of(claim)
    for node, need in needs_of(claim).items():
        if not stays.leave(node, need, len(parts.get(node, ()))):
            return StartOver.NO_ROOM
    return StartOver.NO_ROOM if check_now(claim, Now(capacity, owners, stays.gone)) else None


class _Staying:
    """The most that other work may hold on some nodes at a time, and the attempts that are sure to have ended by then."""

    def __init__(self, capacity: Capacity, nodes: set[int], at: Instant, now: Instant) -> None:
        self.gone: list[AttemptKey] = []
        self._capacity, self._nodes = capacity, nodes
        self._held: dict[int, Amount] = {}
        self._devices: dict[int, set[Hashable]] = {}
        """Devices with held parts, by node; each promised part counts as one device."""
        for workload, epoch, held in capacity.live():
            if not any(node in nodes for spread in held.claim.spreads for node in spread.nodes):
                continue
            bound = ends_by(held, now)
            if bound is not None and bound <= at:
                self.gone.append((workload, epoch))
                continue
            self._add(held.claim)
            for node, device in held.parts.values():
                self._devices.setdefault(node, set()).add(device)
        for workload, epochs in capacity.promises.items():
            for epoch, claim in epochs.items():
                self._add(claim)
                for node, parts in parts_of(claim).items():
                    mine = {(workload, epoch, index) for index in range(len(parts))}
                    self._devices.setdefault(node, set()).update(mine)

    def _add(self, claim: Claim) -> None:
        for node, need in needs_of(claim).items():
            if node in self._nodes:
                self._held[node] = self._held.get(node, Amount()).plus(need)

    def leave(self, node: int, need: Amount, parts: int) -> bool:
        """Return whether other work leaves the need free. A shared device counts as whole, and its parts once more: an upper bound.

        parts   number of parts of a device within the need
        """
        capacity = self._capacity
        total = Amount(capacity.gpu.total[node], capacity.cpu.total[node], capacity.memory.total[node])
        held = self._held.get(node, Amount())
        if not total.covers(held.plus(need)):
            return False
        shared = len(self._devices.get(node, ()))
        if not shared and not parts:
            return True
        whole = held.gpu_milli // MILLI + need.gpu_milli // MILLI
        return whole + shared + parts <= total.gpu_milli // MILLI
