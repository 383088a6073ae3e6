"""A crash of a keeper at the moment that is worst for its log: between a write and its fsync."""

from core.nouns.ids import LogName
from runtime.wiring import Unit
from scenarios.fault import Stage
from scenarios.parts import Range
from scenarios.worlds.misfortune import CannotCause

SYNCS_WAITED = 10
"""For so many slow fsyncs a keeper that writes now and then is likely to be within one when it dies."""


async def crash_between_write_and_sync(
    stage: Stage, keeper: Unit, log: LogName, fate: str, sync_seconds: Range, down_seconds: Range
) -> None:
    """Slow its disk, kill it after a drawn while, and start it again. A world whose disks are as fast as they are kills
    it all the same.
    """
    world, sync = stage.world, stage.draw(sync_seconds)
    try:
        await world.slow_disk(log, sync)
    except CannotCause:
        sync = 0.0
    try:
        await stage.wait((0.0, SYNCS_WAITED * sync))
        await world.kill(keeper, fate)
    finally:
        if sync:
            await world.slow_disk(log, 0.0)
    try:
        await stage.wait(down_seconds)
    finally:
        await world.revive(keeper)
