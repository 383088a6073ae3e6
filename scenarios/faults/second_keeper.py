"""Somebody starts a second keeper of a log, by mistake: on the same disk, or elsewhere on an empty one."""

from scenarios.fault import KeeperFault, Stage
from scenarios.schema.parts import Share


class SecondKeeper(KeeperFault, frozen=True):
    """It must notice the first and refuse to start, also while the first stands still and cannot answer."""

    stands_still_share: Share = 0.3
    """Of the strikes, those during which the first is stopped, as by SIGSTOP."""

    async def strike(self, stage: Stage) -> None:
        """Beside one that is up. Who is up and then dies meanwhile keeps nobody away."""
        world = stage.world
        down = await world.dead()
        up = [unit for unit in self.meant(world.units) if unit.name not in down]
        if not up:
            stage.has_struck = False
            return
        keeper = stage.one_of(up)
        is_paused = stage.dice.random() < self.stands_still_share
        handle = await world.pause(keeper) if is_paused else None
        try:
            refusal = await world.start_second(keeper)
        finally:
            if handle is not None:
                await world.calm(handle)
        if not refusal and keeper.name not in await world.dead():
            stage.problems.append(f"a second {keeper.name} came up beside the first")
