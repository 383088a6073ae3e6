"""A crash of a keeper at the moment that is worst for its log: between a write and its fsync."""

from core.nouns.ids import LogName
from runtime.wiring import Unit
from scenarios.fault import Stage
from scenarios.schema.parts import Range


async def crash_between_write_and_sync(
    stage: Stage, keeper: Unit, log: LogName, fate: str, sync_seconds: Range, down_seconds: Range
) -> None:
    """Slow its disk, kill it while its next batch waits for that, and start it again. Raises CannotCause."""
    stage.has_struck = False
    try:
        async with stage.lasting(stage.world.slow_disk(log, stage.draw(sync_seconds))):
            stage.has_struck = await stage.world.kill_writing(keeper, fate)
        if stage.has_struck:
            await stage.wait(down_seconds)
    finally:
        if stage.has_struck:
            await stage.world.revive(keeper)
