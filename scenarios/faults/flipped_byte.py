"""A byte rots in the middle of a log. It must be found, and must be mended before the log is used."""

from core.nouns.ids import LogName
from runtime.wiring import Unit
from scenarios.fault import KeeperFault, Stage
from scenarios.schema.parts import Range

LOOK_SECONDS = 0.25
START_SECONDS = 30.0
"""Within which a keeper comes up, or dies of its log."""


class FlippedByte(KeeperFault, frozen=True):
    """In a durable row, while the keeper is dead: it refuses to start, or had a newer snapshot and reads past it."""

    for_seconds: Range = (1.0, 30.0)
    """Until the row is put back from a copy."""

    async def strike(self, stage: Stage) -> None:
        """Rot, look whether it is found, mend."""
        world = stage.world
        keeper, log = self.drawn(stage)
        await world.kill(keeper)
        sequence, is_down = 0, True
        try:
            sequence = await world.flip_byte(log, stage.dice.random())
            if not sequence:
                stage.has_struck = False
                return
            await world.revive(keeper)
            is_down = False
            await self._look(stage, keeper, log, sequence)
            await stage.wait(self.for_seconds)
        finally:
            if sequence:
                await world.mend_byte(log, sequence)
            if is_down:
                await world.revive(keeper)

    async def _look(self, stage: Stage, keeper: Unit, log: LogName, sequence: int) -> None:
        world, until = stage.world, stage.world.now() + START_SECONDS
        death = ""
        while not death and keeper.name in await world.dead() and world.now() < until:
            await world.sleep(LOOK_SECONDS)
            death = await world.last_death(keeper)
        if "LogBroken" in death:
            return
        broken_at = await world.verify(log)
        if not 0 < broken_at <= sequence:  # An earlier row may have rotten too.
            found = f"at {broken_at}" if broken_at else "nowhere"
            stage.problems.append(f"a byte of {log} {sequence} rotted, and `verify` finds it broken {found}")
