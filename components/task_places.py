"""Where tasks that stand alone go, and what came of saying so: the allocation agent's part in moves and replacements.

The broker says which tasks of a granted attempt need another node. The agent finds room for as many of them as it can, and
asks the store to revise the claim. A revision that is not answered counts as taken; after a conflict it searches again, once
its view is as new as what took the room; whatever comes to nothing the broker asks for again.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.agenda import Agenda
from core.component import NOTHING, Decision
from core.fact import Note
from core.images.capacity import Capacity
from core.messages.control import PlaceTasks, ReviseClaim, RevisionAnswered
from core.nouns.ids import AgentName, AttemptKey, RegionName
from core.nouns.instant import Instant, after, earliest
from core.nouns.limits import CLAIM_TRIES_MAX, OPEN_BID_SPAN
from core.nouns.operation import TaskMove, job_and_rank
from core.nouns.placement import Claim, nodes_of_ranks
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.search import find_spreads, tasks_that_fit
from core.view import NodeView, Room


class RevisionMade(Note, frozen=True):
    """A revision was said to the store, the first time or after a conflict."""

    revision: ReviseClaim
    asked: PlaceTasks
    """What it is for: tasks that found no room stay in it."""
    tries: int


class RevisionConflicted(Note, frozen=True):
    """Its room was taken; the next try waits until the view is as new as what took it."""

    key: AttemptKey
    sequence: int
    """Of the region's log: how far to catch up."""


class RevisionClosed(Note, frozen=True):
    """The store answered for good, or nothing came of it for too long."""

    key: AttemptKey


class OpenRevision(Struct):
    """A revision of which the log shows nothing yet."""

    revision: ReviseClaim
    asked: PlaceTasks
    tries: int
    catches_up_to: int = 0
    """The sequence that it waits for after a conflict; 0: it waits for the store's answer."""
    since: Instant = Instant(0)


class OpenRevisions:
    """All of one agent's, by attempt: each attempt's claim has one next revision."""

    def __init__(self) -> None:
        self.rows: dict[AttemptKey, OpenRevision] = {}
        self._due: Agenda[AttemptKey] = Agenda()

    def note(self, note: Note, at: Instant) -> None:
        """One of this module's notes."""
        match note:
            case RevisionMade(revision, asked, tries):
                key = (revision.workload, revision.epoch)
                self.rows[key] = OpenRevision(revision, asked, tries)
                self._due.put(key, after(at, OPEN_BID_SPAN))
            case RevisionConflicted(key, sequence):
                self.rows[key].catches_up_to, self.rows[key].since = sequence, at
            case RevisionClosed(key):
                self.rows.pop(key, None)
                self._due.drop(key)

    def due(self, sequence: int) -> Instant | None:
        """When the oldest counts no longer, or since when one can be tried again."""
        return earliest(self._due.due(), *(row.since for _, row in self.caught_up(sequence)))

    def caught_up(self, sequence: int) -> list[tuple[AttemptKey, OpenRevision]]:
        """Those that can be tried again on a view of this sequence."""
        return [(key, row) for key, row in self.rows.items() if 0 < row.catches_up_to <= sequence]

    def old(self, now: Instant) -> list[AttemptKey]:
        """Those that count no longer."""
        return self._due.passed(now)

    def taken(self, capacity: Capacity, except_of: AttemptKey | None = None) -> Iterable[tuple[int, Amount]]:
        """What they need on their new nodes; not those that the log shows granted."""
        for key, row in self.rows.items():
            held = capacity.holding(*key)
            if key == except_of or held is None or held.claim.revision >= row.revision.revision:
                continue
            for move in row.revision.moves:
                yield move.node_to, held.claim.jobs[job_and_rank(move.task)[0]].need


class TaskPlaces:
    """One agent's answers to the broker and to the store."""

    def __init__(
        self,
        region: RegionName,
        agent: AgentName,
        revisions: OpenRevisions,
        view: NodeView,
        capacity: Capacity,
        sequence: int,
        room: Callable[[AttemptKey], Room],
    ) -> None:
        """`room` is what is available to one attempt: nothing that is offered, claimed or asked for by others."""
        self.region, self.agent = region, agent
        self.revisions, self.view, self.capacity, self.sequence = revisions, view, capacity, sequence
        self.room = room

    def place(self, asked: PlaceTasks, tries: int = 1) -> Decision:
        """Find nodes and say them to the store. What finds none is asked for again."""
        key = (asked.workload, asked.epoch)
        held = self.capacity.holding(*key)
        close = (RevisionClosed(key),) if key in self.revisions.rows else ()
        if held is None or asked.revision <= held.claim.revision:
            return Decision(events=close)
        known = self.revisions.rows.get(key)
        if tries == 1 and known is not None and known.asked == asked:
            return Decision(messages=(known.revision,)) if not known.catches_up_to else NOTHING
        moves = find_places(self.view, self.room(key), held.claim, asked.tasks)
        if not moves:
            return Decision(events=close)
        revision = ReviseClaim(self.region, *key, asked.revision, tuple(moves), self.agent)
        return Decision((RevisionMade(revision, asked, tries),), (revision,))

    def answered(self, answer: RevisionAnswered) -> Decision:
        """A grant counts as taken until the log shows it; a refusal is for the broker to see in the log."""
        key = (answer.workload, answer.epoch)
        known = self.revisions.rows.get(key)
        if known is None or known.revision.revision != answer.revision or known.catches_up_to:
            return NOTHING
        if answer.verdict == "granted":
            return NOTHING
        if answer.verdict != "conflict" or known.tries >= CLAIM_TRIES_MAX:
            return Decision(events=(RevisionClosed(key),))
        return Decision(events=(RevisionConflicted(key, max(1, answer.sequence)),))

    def woken(self, now: Instant) -> Decision | None:
        """Try again, one at a time: the next search must see where this one goes. Or let go of what is old."""
        for _, row in self.revisions.caught_up(self.sequence):
            return self.place(row.asked, row.tries + 1)
        old = self.revisions.old(now)
        return Decision(events=tuple(RevisionClosed(key) for key in old)) if old else None


def find_places(view: NodeView, room: Room, claim: Claim, tasks: Sequence[TaskMove]) -> list[TaskMove]:
    """New nodes for as many of these tasks as there is room for, none on the node that it leaves. Takes from `room`.

    One job after the other, as its gang was placed: fewest racks, then best fit.
    """
    by_job: dict[int, list[TaskMove]] = {}
    for task in tasks:
        by_job.setdefault(job_and_rank(task.task)[0], []).append(task)
    found: list[TaskMove] = []
    for job, mine in sorted(by_job.items()):
        if job < len(claim.jobs):
            found.extend(_find_for_job(view, room, claim.jobs[job], mine))
    return found


def _find_for_job(view: NodeView, room: Room, job: JobSpec, tasks: list[TaskMove]) -> list[TaskMove]:
    """All at once beside the nodes that they leave; then, for who is left over, those that come from one node at a time."""
    leave = sorted({task.node_from for task in tasks if task.node_from >= 0})
    found = _find_beside(view, room, job, tasks, leave)
    if len(leave) < 2:
        return found
    left: dict[int, list[TaskMove]] = {}
    for task in tasks[len(found) :]:
        left.setdefault(task.node_from, []).append(task)
    for node, mine in left.items():
        # At most one of these finds nothing while there is room: whoever leaves the only node that has some.
        if not _count_that_fit(view, room, job, 1):
            break
        found.extend(_find_beside(view, room, job, mine, [node] if node >= 0 else []))
    return found


def _find_beside(
    view: NodeView, room: Room, job: JobSpec, tasks: list[TaskMove], without: list[int]
) -> list[TaskMove]:
    """The first of these tasks, as many as have room, on none of these nodes."""
    kind = room.kind.copy()
    kind[[node for node in without if node < len(kind)]] = -1
    beside = Room(room.gpu, room.cpu, room.memory, room.rack, kind)  # What it takes is taken from `room`.
    count = min(len(tasks), _count_that_fit(view, beside, job, len(tasks)))
    if not count:
        return []
    spreads = find_spreads(view, beside, (replace(job, tasks=count),))
    assert not isinstance(spreads, Reason), (spreads, count)
    return [
        replace(task, node_to=node)
        for task, node in zip(tasks[:count], nodes_of_ranks(spreads[0]), strict=True)
    ]


def _count_that_fit(view: NodeView, room: Room, job: JobSpec, tasks: int) -> int:
    code = view.codes.get(job.node_type)
    return int(tasks_that_fit(room, replace(job, tasks=tasks), code).sum()) if code is not None else 0
