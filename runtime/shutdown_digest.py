"""The last word of a keeper that ends in order: how far its log has come, and the digest of its image there.

Whoever replays the log to that sequence (`mizzen replay`) must find the same digest: memory equals replay, to the byte.
"""

import structlog

from core.images import Image
from core.nouns.ids import LogName
from runtime.images import load_image
from runtime.wiring import OpenUnit
from store.port import LogStore

logger = structlog.get_logger()


async def log_stop(life: OpenUnit, store: LogStore) -> None:
    """Log it, if this was a keeper. Its tasks have ended and its log is closed."""
    kept, host = life.kept, life.host
    if kept is None or host is None:
        return
    head = kept.log.head
    image = kept.image
    if host.sequence != head.sequence:
        # Something was decided that did not become durable, or became so without its waiter: memory is not the log's.
        image = await _durable(store, head.log)
    logger.info(
        "keeper_stopped",
        log=head.log,
        term=head.term,
        sequence=head.sequence,
        hash=head.hash.hex(),
        digest=image.digest(),
    )


async def _durable(store: LogStore, log: LogName) -> Image:
    reader = await store.reader(log)
    try:
        image, _, _ = await load_image(reader, log)
    finally:
        await reader.close()
    return image
