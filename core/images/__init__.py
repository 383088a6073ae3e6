"""The plain fold of each log's facts. Snapshots hold images; digests, invariants and followers start from them."""

from core.codec import CodecError
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


def image_as_kept(log: LogName, data: bytes) -> Image | None:
    """The image of a snapshot, if it is what this build would have kept; None where another one did.

    An older build folded fewer sections or fields. To go on from its image would leave out what it made of older facts, and end
    in another image than a fold from the start does; what it says of itself is therefore compared, and not only decoded.
    """
    try:
        image = decode_image(log, data)
    except CodecError:
        return None
    return image if image.encode() == data else None


__all__ = [
    "GlobalImage",
    "Image",
    "RegionImage",
    "decode_image",
    "empty_image",
    "image_as_kept",
    "image_type",
]
