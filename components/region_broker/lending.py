"""Lent capacity, from the reports of workers to the region's log.

The broker repeats `TaskLends` until the log shows the reported amount. The log gives the numbers of these messages: of two messages with
one number the store records the first, and the broker sends the second again with the next number.
"""

from collections.abc import Iterable

from components.region_broker.worker_reports import Parts
from core.agenda import Agenda
from core.fact import Note
from core.images import RegionImage
from core.messages.harvest import TaskLends
from core.messages.workers import TasksPhase
from core.nouns.ids import AttemptKey, RegionName, WorkerName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after, seconds
from core.nouns.limits import COMMAND_SAY_AGAIN
from core.nouns.quantities import NOTHING, Amount
from core.rules.harvest.lending import lent_by, may_lend

LENDS_LOOK: Nanoseconds = seconds(10)
"""Between looks at reports that the store would not record now: the pool is not harvested, or a node is closed."""
LENDERS_AT_ONCE = 64
"""Attempts that one decision looks at."""


class LentSaid(Note, frozen=True):
    """The lending of an attempt was looked at; the next look is at `again_at`, or if None after a report or fact."""

    key: AttemptKey
    again_at: Instant | None


class Lenders:
    """Attempts of which reports and the log may differ in the lent capacity."""

    def __init__(self) -> None:
        self.due: Agenda[AttemptKey] = Agenda()

    def adopt(self, image: RegionImage, at: Instant) -> None:
        """Make all attempts due that lend by a new image."""
        self.due = Agenda()
        for workload, epochs in image.harvest.lenders.items():
            for epoch in epochs:
                self.due.put((workload, epoch), at)

    def reported(self, image: RegionImage, key: AttemptKey, at: Instant, *, lends: bool) -> None:
        """Make an attempt due after a change of a share, if the attempt lends by the report or by the log."""
        if lends or key[1] in image.harvest.lenders.get(WorkloadId(key[0]), {}):
            self.due.put(key, at)

    def touched(self, image: RegionImage, nodes: Iterable[int], at: Instant) -> None:
        """Make attempts due that lend, or have lent, on nodes after a change of the nodes' harvest."""
        for node in nodes:
            known = image.harvest.nodes.get(node)
            for lent in known.lent if known is not None else ():
                self.due.put(lent.key, at)

    def said(self, note: LentSaid) -> None:
        """Record a look."""
        if note.again_at is None:
            self.due.drop(note.key)
        else:
            self.due.put(note.key, note.again_at)


def words_of(
    region: RegionName,
    image: RegionImage,
    key: AttemptKey,
    shares: Parts,
    heard: Iterable[WorkerName],
    now: Instant,
) -> tuple[LentSaid, list[TaskLends]]:
    """Return the messages to the store about an attempt, and the note that records the look.

    shares  reported shares of the attempt
    heard   workers with a beat since the image was adopted
    """
    row = image.attempts.row(*key)
    if row is None or not row.phase.is_live or row.stop_cause:
        return LentSaid(key, None), []  # The fold of the stop or end has recalled the capacity.
    lends: dict[int, Amount] = {}
    for share in shares.values():
        for part in share.lends if share.phase != TasksPhase.ENDED else ():
            lends[part.node] = lends.get(part.node, NOTHING).plus(part.size)
    workers, worker_of = set(heard), image.capacity.worker_of
    words, differs = [], False
    for node in sorted({*lends, *image.harvest.lenders.get(key[0], {}).get(key[1], ())}):
        if not image.capacity.has_node(node) or worker_of[node] not in workers:
            continue
        (was, number), size = lent_by(image.harvest, key, node), lends.get(node, NOTHING)
        if size == was:
            continue
        differs = True
        less = size.smallest(was)
        if less != was:
            words.append(TaskLends(region, *key, node, less, number + 1))
        elif may_lend(image.capacity, image.harvest, image.pools, key, node, size):
            words.append(TaskLends(region, *key, node, size, number + 1))
    if words:
        return LentSaid(key, after(now, COMMAND_SAY_AGAIN)), words
    return LentSaid(key, after(now, LENDS_LOOK) if differs else None), []
