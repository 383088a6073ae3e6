"""Black holes: nodes that look empty and healthy, accept any task, and fail it at once.

A node counts as a black hole when round after round of different workloads failed there soon after their starts, and no workload
that was granted capacity there since runs, or ran well. Users' programs often fail by themselves, too: a workload that runs
where others failed speaks for the node.
"""

from collections.abc import Iterable

from core.images.capacity import Capacity
from core.images.control import Control, TaskPhase
from core.images.health import Round
from core.messages.control import RecordTasksDown
from core.nouns.instant import Instant
from core.nouns.limits import BLACK_HOLE_FAILURES, BLACK_HOLE_SOON, QUARANTINE_SHARE
from core.nouns.maintenance import ClosureKind
from core.nouns.workload import MAY_BE_THE_NODES, Kind


def failures_in_a_row(capacity: Capacity, node: int) -> int:
    """Return the number of failed attempts on a node that is a black hole; 0 for other nodes."""
    rounds = capacity.failures.of(node)
    if len(rounds) < BLACK_HOLE_FAILURES:
        return 0
    runs_since = _newest_that_runs(capacity, node, rounds)
    rounds = [one for one in rounds if one.since > runs_since]
    return sum(one.count for one in rounds) if len(rounds) >= BLACK_HOLE_FAILURES else 0


def may_quarantine(capacity: Capacity) -> int:
    """Return how many more nodes may be quarantined for failures. Such a quarantine is ended by an operator only."""
    nodes = sum(name != "" for name in capacity.node_type)
    waiting = sum(
        not closed.until_checked
        for closure in capacity.closures.values()
        if closure.kind is ClosureKind.QUARANTINE
        for closed in closure.each.values()
    )
    return max(1, nodes // QUARANTINE_SHARE) - waiting


def failed_soon(
    control: Control, report: RecordTasksDown, tasks: Iterable[int], now: Instant
) -> tuple[tuple[int, ...], int]:
    """Return the nodes of reported tasks that failed soon after their start or never started, and the longest time until a failure.

    The time is in nanoseconds. The result is empty for causes that a node cannot be blamed for.
    """
    row = control.row(report.workload, report.epoch)
    if row is None or report.cause not in MAY_BE_THE_NODES:
        return (), 0
    rows = [row.tasks[task] for task in tasks]
    soon = [
        one
        for one in rows
        if one.node >= 0 and (one.phase is TaskPhase.STARTING or now <= one.since + BLACK_HOLE_SOON)
    ]
    return tuple(sorted({one.node for one in soon})), max((now - one.since for one in soon), default=0)


def _newest_that_runs(capacity: Capacity, node: int, rounds: list[Round]) -> int:
    """Return when the newest attempt that runs well on the node was granted its capacity; -1: no attempt does.

    An attempt runs well if it has run for longer than each failed attempt: a younger attempt may be about to fail, and a black
    hole always has such an attempt. Services do not count, because a service lives on when its tasks there are dead.
    """
    started_before = rounds[-1].at - max(one.ran for one in rounds)
    return max(
        (
            held.granted_at
            for _, _, held in capacity.live()
            if 0 < held.started_at < started_before
            and held.claim.kind != Kind.SERVICE
            and any(node in spread.nodes for spread in held.claim.spreads)
        ),
        default=-1,
    )
