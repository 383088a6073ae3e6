"""How far the logs rest on each other: what tells a file restored from an older copy from the one that we knew."""

from core.images import GlobalImage, Image, RegionImage
from core.nouns.ids import LogName, region_of


def known_of(own: Image | None, log: LogName) -> int:
    """The highest sequence of another log that a fact of our own log rests on."""
    if isinstance(own, GlobalImage):
        return own.regions.sequences.get(region_of(log), 0)
    if isinstance(own, RegionImage):
        return own.attempts.global_sequence
    return 0


def cited_by(image: Image, own_log: LogName) -> int:
    """The highest sequence of our own log that another log's facts rest on."""
    if isinstance(image, RegionImage):
        return image.attempts.global_sequence
    assert isinstance(image, GlobalImage), image
    return image.regions.sequences.get(region_of(own_log), 0)
