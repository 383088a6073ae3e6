"""Where tasks that stand alone go, and what came of saying so: the allocation agent's part in moves and replacements.

The broker says which tasks of a granted attempt need another node. The agent finds room for as many of them as it can, and
asks the store to revise the claim. A revision that is not answered counts as taken; after a conflict it searches again, once
its view is as new as what took the room; whatever comes to nothing the broker asks for again.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.agenda import Agenda
from core.claims.reservations import barred_from
from core.component import NOTHING, Decision
from core.fact import Note
from core.images.capacity import Capacity
from core.messages.control import PlaceTasks, ReviseClaim, RevisionAnswered
from core.nouns.ids import AgentName, AttemptKey, RegionName
from core.nouns.instant import Instant, after, earliest
from core.nouns.limits import CLAIM_TRIES_MAX, OPEN_BID_SPAN
from core.nouns.operation import TaskMove, job_and_rank
from core.nouns.placement import Claim, NodeRow, nodes_of_ranks
from core.nouns.quantities import Amount
from core.nouns.workload import JobSpec
from core.placing.pick.nodes import Choice
from core.placing.placer import Placer
from core.placing.pool_set import Asker, PoolSet, Trial, asker_of
from core.rules.placement.errors import RuleFailed


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

    def taken(self, capacity: Capacity, key: AttemptKey) -> Iterable[tuple[int, Amount]]:
        """What one of them needs on its new nodes; nothing once the log shows it granted."""
        row, held = self.rows.get(key), capacity.holding(*key)
        if row is None or held is None or held.claim.revision >= row.revision.revision:
            return
        for move in row.revision.moves:
            yield move.node_to, held.claim.jobs[job_and_rank(move.task)[0]].need


class TaskPlaces:
    """One agent's answers to the broker and to the store."""

    def __init__(
        self,
        region: RegionName,
        agent: AgentName,
        revisions: OpenRevisions,
        placer: Placer,
        capacity: Capacity,
        sequence: int,
        now: Instant,
    ) -> None:
        self.now = now
        self.region, self.agent = region, agent
        self.revisions, self.placer, self.capacity, self.sequence = revisions, placer, capacity, sequence

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
        choice = Choice(f"{asked.workload}.{asked.epoch}.{self.agent}.r{asked.revision}.{tries}")
        try:
            with self.placer.as_if((("claim", key), ("revision", key)), held.claim.jobs) as pools:
                barred = barred_from(self.placer.starts, held.claim, self.now)
                moves = find_places(pools, held.claim, asked.tasks, choice, barred)
        except RuleFailed:
            moves = []
        if not moves:
            return Decision(events=close)
        revision = ReviseClaim(
            self.region, *key, asked.revision, tuple(moves), self.agent, self.sequence, tries
        )
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


def find_places(
    pools: PoolSet, claim: Claim, tasks: Sequence[TaskMove], choice: Choice, barred: tuple[int, ...] = ()
) -> list[TaskMove]:
    """New nodes for as many of these tasks as there is room for, none on the node that it leaves. Raises RuleFailed.

    One job after the other, as its gang was placed where there is room for that. Where its tasks lie to each other is asked
    of those that move at one time, and only while they find such a place: the others stay where they are.
    """
    by_job: dict[int, list[TaskMove]] = {}
    for task in tasks:
        by_job.setdefault(job_and_rank(task.task)[0], []).append(task)
    found: list[TaskMove] = []
    asker = replace(asker_of(claim, 0), barred=barred)
    with pools.trial() as trial:
        for job, mine in sorted(by_job.items()):
            if job >= len(claim.jobs):
                continue
            wanted = _on_its_type(pools, claim, job, len(mine))
            # Who had room before may have what pools keep free; who comes to the job may not.
            moving = [task for task in mine if task.node_from >= 0]
            coming = [task for task in mine if task.node_from < 0]
            for some, by in ((moving, asker.unbound()), (coming, asker)):
                if some:
                    found.extend(_find_for_job(pools, trial, wanted, some, by, choice))
    return found


def _on_its_type(pools: PoolSet, claim: Claim, position: int, moving: int) -> JobSpec:
    """A job as it is placed already: on the type that its other tasks are on, if several would do and it has others."""
    job, spread = claim.jobs[position], claim.spreads[position]
    place = pools.place_of(spread.nodes[0]) if spread.nodes else None
    if job.has_one_type or place is None or max(job.tasks, moving) == 1:
        return job
    return job.on(place[0].type_of(place[1]))


def _find_for_job(
    pools: PoolSet, trial: Trial, job: JobSpec, tasks: list[TaskMove], asker: Asker, choice: Choice
) -> list[TaskMove]:
    """All at once beside the nodes that they leave; then, for who is left over, those that come from one node at a time."""

    def beside(mine: list[TaskMove], without: list[int]) -> list[TaskMove]:
        return _find_beside(pools, trial, job, mine, without, asker, choice)

    leave = sorted({task.node_from for task in tasks if task.node_from >= 0})
    found = beside(tasks, leave)
    if len(leave) < 2:
        return found
    left: dict[int, list[TaskMove]] = {}
    for task in tasks[len(found) :]:
        left.setdefault(task.node_from, []).append(task)
    for node, mine in left.items():
        # At most one of these finds nothing while there is room: whoever leaves the only node that has some.
        if not pools.capacity_for(job, asker):
            break
        found.extend(beside(mine, [node] if node >= 0 else []))
    return found


def _find_beside(
    pools: PoolSet,
    trial: Trial,
    job: JobSpec,
    tasks: list[TaskMove],
    without: list[int],
    asker: Asker,
    choice: Choice,
) -> list[TaskMove]:
    """The first of these tasks, as many as have room, on none of these nodes."""
    with pools.trial() as closed:
        for node in without:
            closed.put(NodeRow(node, Amount(), is_open=False))
        spreads = pools.find_each(replace(job, tasks=len(tasks)), asker, choice)
    for spread in spreads:
        trial.take_spread(spread, job.need)
    nodes = [node for spread in spreads for node in nodes_of_ranks(spread)]
    return [replace(task, node_to=node) for task, node in zip(tasks, nodes, strict=False)]
