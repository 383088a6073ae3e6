"""A copy that the queue says is made is whole on its region's disk, and in calm every copy and deletion under way comes to its end.

The log alone cannot show the first: a copy that counts before it is verified looks like any other there.
"""

from typing import ClassVar

from core.events.copies import CopyMade, DropMade
from core.fact import Fact
from core.nouns.ids import GLOBAL_LOG
from scenarios.check import Check, Run

PROBLEMS_MAX = 3
LOOK_SECONDS = 5.0
SLACK_SECONDS = 120.0
"""Beyond twice the span in which the slowest copy moves: for its hash, and for reports that are repeated."""


class CopiesWhole(Check, frozen=True):
    """Each is looked for on the disk at the moment at which it becomes durable that the copy is made, or deleted."""

    sees_through: ClassVar[bool] = True

    def begin(self, run: Run) -> None:
        """Look at the disk at each such fact."""
        found, mine = run.outcome.problems, [0]

        def told(text: str) -> None:
            mine[0] += 1
            if mine[0] <= PROBLEMS_MAX:
                found.append(text)

        def watch(fact: Fact) -> None:
            match fact.event:
                case CopyMade(copy=copy, dataset=dataset, target=region):
                    content = run.world.data_disk(region).contents.get(dataset)
                    if content is None:
                        told(f"copy {copy} of {dataset} is made, and {region} does not have it")
                    elif content.hash != run.witness.queue.datasets.rows[dataset].hash:
                        told(f"copy {copy} of {dataset} is made, and has another hash in {region}")
                case DropMade(dataset, region):
                    if run.world.data_disk(region).holds(dataset):
                        told(f"the copy of {dataset} in {region} is deleted, and is still there")

        run.witness.watchers.append(watch)

    async def in_calm(self, run: Run) -> list[str]:
        """Return the copies and deletions that were under way and do not end."""
        copies = run.witness.queue.copies
        begun = _under_way(run)
        spans = [2 * order.bytes / order.rate for order in copies.orders.values()]
        deadline = run.world.now() + max(spans, default=0.0) + SLACK_SECONDS
        while (left := begun & _under_way(run)) and run.world.now() < deadline:
            await run.world.sleep(LOOK_SECONDS)
            run.world.look(GLOBAL_LOG)
        return sorted(left)[:PROBLEMS_MAX]


def _under_way(run: Run) -> set[str]:
    """Return all that stands in the queue's log, in sentences."""
    copies = run.witness.queue.copies
    moving = {
        f"copy {number} of {order.dataset} to {order.target} does not end"
        for number, order in copies.orders.items()
    }
    leaving = {
        f"the copy of {dataset} in {region} is still being deleted"
        for dataset, regions in copies.drops.items()
        for region in regions
    }
    return moving | leaving
