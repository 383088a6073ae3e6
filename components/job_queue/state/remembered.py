"""The workloads of the image, counted from fact to fact: pending and live ones by tenant, ended ones in the order of their ends.

An index, derived from the image: equal to a count over all rows.
"""

from collections import deque
from collections.abc import Iterable

from core.agenda import Agenda
from core.images.queue import WorkloadRow
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.workload import Phase


class Remembered:
    """Counts of workloads that have not ended, and the ended ones that a sweep may forget."""

    def __init__(self) -> None:
        self.pending: dict[TenantName, int] = {}
        """Number of pending workloads by tenant, held ones included; no zeros."""
        self.live: dict[TenantName, int] = {}
        """Number of workloads by tenant that are pending or have an active award; no zeros."""
        self.pending_in_all = 0
        self.ended: deque[WorkloadId] = deque()
        """Ended workloads that no sweep has looked at, the oldest end first."""
        self.blocked: Agenda[WorkloadId] = Agenda()
        """Ended workloads that a region still remembered at the last look, and the time of the next look."""

    @property
    def ended_in_all(self) -> int:
        """Return the number of ended workloads."""
        return len(self.ended) + len(self.blocked)

    def rebuild(self, rows: Iterable[tuple[WorkloadId, WorkloadRow]]) -> None:
        """Count all rows, once, at a start."""
        ended = []
        for workload, row in rows:
            if row.phase.is_terminal:
                ended.append((row.ended_at, row.number, workload))
            else:
                self._count(row, 1)
        self.ended = deque(workload for _, _, workload in sorted(ended))

    def leave(self, row: WorkloadRow | None) -> bool:
        """Take a row out of the counts before a fact is folded; return whether it was in them. `enter` follows."""
        if row is None or row.phase.is_terminal:
            return False
        self._count(row, -1)
        return True

    def enter(self, workload: WorkloadId, row: WorkloadRow, *, was_live: bool) -> None:
        """Count a row as the fact has left it."""
        if not row.phase.is_terminal:
            self._count(row, 1)
        elif was_live:
            self.ended.append(workload)

    def _count(self, row: WorkloadRow, sign: int) -> None:
        is_pending = row.phase == Phase.PENDING
        self.pending_in_all += sign * is_pending
        for counts in (self.live, self.pending) if is_pending else (self.live,):
            left = counts.pop(row.tenant, 0) + sign
            if left:
                counts[row.tenant] = left
