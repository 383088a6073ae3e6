"""An operator plans work on nodes, and switches them off once it has begun and they have had time to become empty."""

from core.nouns.maintenance import MaintenanceKind, Scope, ScopeKind
from scenarios.fault import Stage, WorkerFault
from scenarios.play.operators import Operators
from scenarios.schema.parts import Range

EMPTY_SECONDS = 60.0
"""From the beginning of the window until the power is cut: whatever is stopped then has its grace."""


class MaintenanceAnnounced(WorkerFault, frozen=True):
    """All nodes of one worker. Who runs there is asked; who has not left when the window begins is stopped."""

    notice_seconds: Range = (30.0, 300.0)
    window_seconds: Range = (60.0, 1800.0)
    """For which the nodes are off."""

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        worker = self.drawn(stage)
        notice, window = stage.draw(self.notice_seconds), stage.draw(self.window_seconds)
        planned = await Operators(stage.users).plan(
            worker.region,
            Scope(ScopeKind.WORKER, (worker.member,)),
            MaintenanceKind.POWER,
            starts_in=notice,
            lasts=EMPTY_SECONDS + window,
            lead=notice,
        )
        stage.has_struck = bool(planned)
        try:
            await stage.world.sleep(notice + EMPTY_SECONDS)
            await stage.world.power_off(worker)
            try:
                await stage.world.sleep(window)
            finally:
                await stage.world.revive(worker)
        finally:
            if planned:  # Also when misfortune ends before the window does.
                over = Operators(stage.users).cancel(worker.region, planned)
                stage.users.begin(over, f"call-off/{worker.name}/{planned}")
