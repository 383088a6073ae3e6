"""The plain fold of each log's facts. Snapshots hold images; digests, invariants and followers start from them."""

from core.images.base import Image
from core.images.queue import GlobalImage
from core.images.region import RegionImage
from core.nouns.ids import GLOBAL_LOG, LogName


def image_type(log: LogName) -> type[GlobalImage] | type[RegionImage]:
    """Return the sort of image that a log folds to."""
    return GlobalImage if log == GLOBAL_LOG else RegionImage


def empty_image(log: LogName, sections: tuple[str, ...] = ()) -> Image:
    """The image of a log before its first fact, to be folded in these sections; none named means all."""
    return image_type(log).empty(sections)


def decode_image(log: LogName, data: bytes, sections: tuple[str, ...] = ()) -> Image:
    """An image from its encoding. Raises core.codec.CodecError."""
    return image_type(log).decode(data, sections)


__all__ = ["GlobalImage", "Image", "RegionImage", "decode_image", "empty_image", "image_type"]
