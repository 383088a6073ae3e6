"""When misfortune ends, progress follows within the scenario's calm (DESIGN §11, 8)."""

from core.messages.base import Message
from scenarios.check import Check, Run

SHOWN_MAX = 10
ANSWER_SECONDS = {"simulated": 15.0, "processes": 5.0}
"""In calm, when no message is lost, an answer takes milliseconds; who was asked while he could not hear is asked again."""


class Liveness(Check, frozen=True):
    """Every workload has ended; nothing is held, promised, lost or waits for an answer."""

    async def in_calm(self, run: Run) -> list[str]:
        """Whoever waits for an answer, while there is somebody who could give it."""
        waiting = run.users.unanswered(ANSWER_SECONDS[run.world.world])
        return [f"{_named(message)} was never answered" for message in waiting[:SHOWN_MAX]]

    async def at_end(self, run: Run) -> list[str]:
        """Whatever is still under way."""
        witness, users = run.witness, run.users
        found = []
        if not users.has_submitted_all:
            waiting = users.wanted - len(users.accepted) - len(users.refused)
            found.append(f"{waiting} submissions were never answered")
        rows = witness.queue.workloads.rows
        open_ = [workload for workload, row in rows.items() if not row.phase.is_terminal]
        found += [
            f"{workload} is {rows[workload].phase} at the end, epoch {rows[workload].epoch} "
            f"in {rows[workload].region or 'no region'}"
            for workload in open_[:SHOWN_MAX]
        ]
        if len(open_) > SHOWN_MAX:
            found.append(f"and {len(open_) - SHOWN_MAX} more have not ended")
        for region in run.world.plan.region_names():
            capacity = witness.region(region).capacity
            found += [f"{region}: {workload} still holds capacity" for workload in capacity.holdings]
            found += [f"{region}: {workload} still has a promise" for workload in capacity.promises]
            lost = [worker for worker, row in capacity.workers.items() if row.is_lost]
            found += [f"{region}: {worker} is still lost" for worker in lost]
        return found[: 2 * SHOWN_MAX]


def _named(message: Message) -> str:
    """What was asked, and of which workload or pipeline."""
    about = next(
        (name for field in ("workload", "pipeline", "key") if (name := getattr(message, field, ""))), ""
    )
    return f"{type(message).__name__} of {about}" if about else type(message).__name__
