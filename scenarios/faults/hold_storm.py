"""Many workloads are held at once, and released at once."""

import asyncio
from typing import ClassVar

from core.nouns.ids import WorkloadId
from scenarios.fault import Fault, Stage
from scenarios.schema.parts import Range, Share


class HoldStorm(Fault, frozen=True):
    """A share of all workloads that were accepted so far, drawn: pending, running or ended."""

    is_misfortune: ClassVar[bool] = False
    share: Share = 0.5
    for_seconds: Range = (10.0, 300.0)

    async def strike(self, stage: Stage) -> None:
        """Users do it, who go on when misfortune ends: a hold that was cut short half way could never be released."""
        is_over = asyncio.Event()
        for workload in stage.users.workloads():
            if stage.dice.random() < self.share:
                stage.users.begin(hold_until(stage, workload, is_over), f"hold-storm/{workload}")
        try:
            await stage.wait(self.for_seconds)
        finally:
            is_over.set()


async def hold_until(stage: Stage, workload: WorkloadId, is_over: asyncio.Event) -> None:
    """Hold it, wait, and release it."""
    await stage.users.set_hold(workload, is_held=True)
    await is_over.wait()
    await stage.users.set_hold(workload, is_held=False)
