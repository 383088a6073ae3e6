"""An image from a log: newest snapshot plus tail."""

import structlog

from core.fact import Head
from core.images import GlobalImage, Image, RegionImage, empty_image
from core.images.versions import VERSIONS
from core.nouns.ids import LogName
from core.nouns.limits import READ_BYTES_MAX, READ_FACTS_MAX
from runtime.gc_tuning import undisturbed
from store.errors import LogOfAnotherFleet
from store.port import LogReader
from store.rows import facts_of

logger = structlog.get_logger()


async def load_image(reader: LogReader, log: LogName) -> tuple[Image, Head, int]:
    """The whole image of a log, the head it is folded up to, and the sequence of the snapshot it began with.

    A snapshot of an image that this build cannot go on from is left aside, and every fact is folded, archived ones too: once,
    until this build has kept one. Raises store.errors.LogFromNewerBuild, and LogBroken if facts are damaged or missing.
    """
    snapshot = await reader.snapshot()
    image = None
    if snapshot is not None:
        with undisturbed(len(snapshot.image)):
            image = VERSIONS.image_of(log, snapshot.image, snapshot.made_of)
    begun = snapshot.head.sequence if snapshot and image else 0
    if snapshot is not None and image is None:
        logger.warning(
            "snapshot_of_another_build",
            log=log,
            sequence=snapshot.head.sequence,
            made_of=snapshot.made_of,
            wanted=VERSIONS.made_of,
        )
    image = image or empty_image(log)
    head = await fold_up(reader, log, image, begun)
    return image, head, begun


async def fold_up(reader: LogReader, log: LogName, image: Image, sequence: int) -> Head:
    """Fold everything after `sequence` that is durable; returns the head reached."""
    while True:
        head = await reader.head()
        if head.sequence <= sequence:
            return head
        page = await reader.read(sequence + 1, READ_FACTS_MAX, READ_BYTES_MAX)
        for fact in facts_of(log, page.rows):
            image.fold(fact)
        sequence += len(page.rows)
        if sequence == head.sequence:
            return head


def check_fleet(image: Image, log: LogName, fleet: str) -> None:
    """A log of another fleet is not ours to write. Raises LogOfAnotherFleet."""
    known = image.regions.fleet if isinstance(image, GlobalImage) else ""
    if isinstance(image, RegionImage):
        known = image.attempts.fleet
    if known and known != fleet:
        raise LogOfAnotherFleet(log, f"it belongs to fleet {known!r}, and this is {fleet!r}")
