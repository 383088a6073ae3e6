"""Whether a node fails whatever starts on it: a black hole, which looks empty and well and eats all that comes.

A node is taken for one when round after round of different workloads failed there soon after their starts, and nothing that
was granted room there since runs, or ran well. What users submit fails by itself too, and often: one that runs where others
failed speaks for the node.
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
    """How many attempts failed on a node that is a black hole; 0 for one that is not."""
    rounds = capacity.failures.of(node)
    if len(rounds) < BLACK_HOLE_FAILURES:
        return 0
    runs_since = _newest_that_runs(capacity, node, rounds)
    rounds = [one for one in rounds if one.since > runs_since]
    return sum(one.count for one in rounds) if len(rounds) >= BLACK_HOLE_FAILURES else 0


def may_quarantine(capacity: Capacity) -> int:
    """How many more nodes may come into quarantine for failures, which nobody but an operator lets out."""
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
    """The nodes of those tasks of a report that failed soon after their start or never started, and how soon after."""
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
    """When the newest of those that run there well was granted its room; -1: none does.

    It runs well if it has run for longer than each of those that failed: what has only just started is about to fail, for
    all that anybody knows, and on a node that eats whatever comes there always is such a one. A service says nothing: it
    lives on when its tasks there are dead.
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
