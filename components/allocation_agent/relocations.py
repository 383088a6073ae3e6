"""New nodes for independent tasks: the allocation agent's part in moves and replacements.

The broker names tasks of a granted attempt that need another node. The agent finds capacity for as many of them as possible,
and asks the store to revise the claim. The capacity of an unanswered revision counts as taken. After a conflict the agent
searches again once its view includes the fact that took the capacity. The broker repeats requests for tasks without a node.
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
    """A revision was sent to the store, for the first time or after a conflict."""

    revision: ReviseClaim
    asked: PlaceTasks
    """The broker's request, with the tasks for which no capacity was found."""
    tries: int


class RevisionConflicted(Note, frozen=True):
    """The revision's capacity was taken; the next try waits until the view includes the fact that took it."""

    key: AttemptKey
    sequence: int
    """Sequence of the region's log that the view must reach."""


class RevisionClosed(Note, frozen=True):
    """The store gave its final answer, no place is left, or the revision is too old."""

    key: AttemptKey


class OpenRevision(Struct):
    """A revision that the log does not show yet."""

    revision: ReviseClaim
    asked: PlaceTasks
    tries: int
    catches_up_to: int = 0
    """Sequence awaited after a conflict; 0: the store's answer is awaited."""
    since: Instant = Instant(0)


class OpenRevisions:
    """The open revisions of one agent by attempt: each attempt's claim has one next revision."""

    def __init__(self) -> None:
        self.rows: dict[AttemptKey, OpenRevision] = {}
        self._due: Agenda[AttemptKey] = Agenda()

    def note(self, note: Note, at: Instant) -> None:
        """Fold one of this module's notes."""
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
        """Return when the oldest revision becomes too old, or since when one can be tried again."""
        return earliest(self._due.due(), *(row.since for _, row in self.caught_up(sequence)))

    def caught_up(self, sequence: int) -> list[tuple[AttemptKey, OpenRevision]]:
        """Return the revisions that can be tried again on a view of this sequence."""
        return [(key, row) for key, row in self.rows.items() if 0 < row.catches_up_to <= sequence]

    def old(self, now: Instant) -> list[AttemptKey]:
        """Return the attempts with a revision that is too old."""
        return self._due.passed(now)

    def taken(self, capacity: Capacity, key: AttemptKey) -> Iterable[tuple[int, Amount]]:
        """Yield the needs of an attempt's revision on its new nodes, until the log shows the revision granted."""
        row, held = self.rows.get(key), capacity.holding(*key)
        if row is None or held is None or held.claim.revision >= row.revision.revision:
            return
        for move in row.revision.moves:
            yield move.node_to, held.claim.jobs[job_and_rank(move.task)[0]].need


class TaskPlaces:
    """One agent's reactions to requests of the broker and answers of the store."""

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
        """Find nodes and send them to the store as a revision. The broker requests tasks without a node again."""
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
        """Apply the store's answer: after a grant wait for the log, after a conflict for the view, after a refusal close."""
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
        """Retry one revision, or close those that are too old; None if there is no such revision.

        One at a time, because the next search must see the nodes that this one takes.
        """
        for _, row in self.revisions.caught_up(self.sequence):
            return self.place(row.asked, row.tries + 1)
        old = self.revisions.old(now)
        return Decision(events=tuple(RevisionClosed(key) for key in old)) if old else None


def find_places(
    pools: PoolSet, claim: Claim, tasks: Sequence[TaskMove], choice: Choice, barred: tuple[int, ...] = ()
) -> list[TaskMove]:
    """Return new nodes for as many of these tasks as fit, each on another node than the one it leaves. Raises RuleFailed.

    Jobs are searched one after the other. Tasks of one job that move at the same time keep the job's topology among
    themselves if such a place is free, and else go wherever they fit; tasks that do not move are not considered.
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
            # Tasks that had capacity before may use reserves and exceed limits of pools; tasks new to the job may not.
            moving = [task for task in mine if task.node_from >= 0]
            coming = [task for task in mine if task.node_from < 0]
            for some, by in ((moving, asker.unbound()), (coming, asker)):
                if some:
                    found.extend(_find_for_job(pools, trial, wanted, some, by, choice))
    return found


def _on_its_type(pools: PoolSet, claim: Claim, position: int, moving: int) -> JobSpec:
    """Return the job, restricted to the node type of its other tasks if it has others and accepts several types."""
    job, spread = claim.jobs[position], claim.spreads[position]
    place = pools.place_of(spread.nodes[0]) if spread.nodes else None
    if job.has_one_type or place is None or max(job.tasks, moving) == 1:
        return job
    return job.on(place[0].type_of(place[1]))


def _find_for_job(
    pools: PoolSet, trial: Trial, job: JobSpec, tasks: list[TaskMove], asker: Asker, choice: Choice
) -> list[TaskMove]:
    """Find nodes for all tasks at once, without any node that they leave; then for the rest, by the node that they leave."""

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
        # While there is capacity at most one group finds no node: the one that leaves the only node with capacity.
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
    """Find nodes for the first of these tasks, as many as fit, excluding the nodes `without`."""
    with pools.trial() as closed:
        for node in without:
            closed.put(NodeRow(node, Amount(), is_open=False))
        spreads = pools.find_each(replace(job, tasks=len(tasks)), asker, choice)
    for spread in spreads:
        trial.take_spread(spread, job.need)
    nodes = [node for spread in spreads for node in nodes_of_ranks(spread)]
    return [replace(task, node_to=node) for task, node in zip(tasks, nodes, strict=False)]
