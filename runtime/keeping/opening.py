"""All that a keeper's start reads of its log. Archive files are none of it, so a start takes as long as ever, however old the log is."""

from msgspec import Struct

from core.fact import Head
from core.images import GlobalImage, RegionImage
from core.nouns.ids import LogName
from core.nouns.instant import Instant, Nanoseconds
from runtime.images import load_image
from store.port import Log, LogStore


class TakenLog(Struct, frozen=True):
    """A log that this process keeps from here on."""

    log: Log
    image: GlobalImage | RegionImage
    head: Head
    newest_at: Instant
    """The log's time at its newest fact; 0: the log is empty."""
    accepted_ahead: Nanoseconds
    """By how much an operator has let the log's time be ahead of the machine's clock."""


async def take_log(store: LogStore, name: LogName, log_id_if_new: str) -> TakenLog:
    """Take a log and fold its image. Raises store.errors.LogError when the log cannot be taken or read."""
    log = await store.open(name, log_id_if_new)
    try:
        reader = await store.reader(name)
        try:
            image, head, _ = await load_image(reader, name)
            newest = await reader.read(head.sequence, 1, 1) if head.sequence else None
        finally:
            await reader.close()
    except BaseException:
        await log.close()
        raise
    assert isinstance(image, GlobalImage | RegionImage), name
    newest_at = Instant(newest.rows[0].at) if newest else Instant(0)
    return TakenLog(log, image, head, newest_at, Nanoseconds(max(0, image.clock.ahead)))
