"""An operator empties nodes as well as can be, gives notice, and switches them off for a while."""

from core.messages.queue import ListedWorkload, ListWorkloads, WorkloadsListed
from core.nouns.workload import Phase
from runtime.wiring import Unit
from scenarios.fault import Stage, WorkerFault
from scenarios.parts import Range


class MaintenanceAnnounced(WorkerFault, frozen=True):
    """One worker's nodes. Whoever runs there is requeued, so that it saves and goes elsewhere if there is room."""

    notice_seconds: Range = (30.0, 300.0)
    window_seconds: Range = (60.0, 1800.0)

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        worker = self.drawn(stage)
        await requeue_all(stage, worker)
        await stage.wait(self.notice_seconds)
        await stage.world.power_off(worker)
        try:
            await stage.wait(self.window_seconds)
        finally:
            await stage.world.revive(worker)


async def requeue_all(stage: Stage, worker: Unit) -> None:
    """Requeue whoever runs on a worker's nodes, as the queue's list tells of them."""
    nodes = stage.world.plan.inventory(worker.region, worker.member).numbers()
    after = 0
    while True:
        listed = await stage.users.insist(ListWorkloads((Phase.AWARDED, Phase.RUNNING), after))
        if not isinstance(listed, WorkloadsListed):
            stage.problems.append(f"a list of workloads was answered with {listed}")
            return
        for row in listed.rows:
            if row.region == worker.region and _is_on(row, nodes):
                await stage.users.requeue(row.workload)
        if not listed.next:
            return
        after = listed.next


def _is_on(row: ListedWorkload, nodes: list[int]) -> bool:
    return any(first <= node <= last for first, last in row.node_runs for node in nodes)
