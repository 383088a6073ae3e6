"""Somebody starts a second keeper of a log, by mistake: on the same disk, or elsewhere on an empty one."""

from scenarios.fault import KeeperFault, Stage


class SecondKeeper(KeeperFault, frozen=True):
    """It must notice the first and refuse to start."""

    async def strike(self, stage: Stage) -> None:
        """Beside one that is up. Who is up and then dies meanwhile keeps nobody away."""
        world = stage.world
        down = await world.dead()
        up = [unit for unit in self.meant(world.units) if unit.name not in down]
        if not up:
            stage.has_struck = False
            return
        keeper = stage.one_of(up)
        refusal = await world.start_second(keeper)
        if not refusal and keeper.name not in await world.dead():
            stage.problems.append(f"a second {keeper.name} came up beside the first")
