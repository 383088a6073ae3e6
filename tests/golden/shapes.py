"""What a build's images are made of, so that a later build can be compared with it in what both of them know.

A digest is of a whole image. A later build folds more sections, and more fields in a row; of those an older one said nothing.
What it did say must still come out of its logs to the byte: `digest_in` takes the digest of just that, in that build's order.
"""

import types
import typing
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from core.images import GlobalImage, Image, RegionImage
from core.images.packing import unpacked
from core.nouns.ids import GLOBAL_LOG, LogName
from core.nouns.workload import WorkloadSpec

Shape = dict[str, Any] | None
"""Any: fields by name, values of a table, or items of a list, each with its own shape; None: a plain value."""


def shapes_of_this_build() -> dict[str, Shape]:
    """Of the queue's image and of a region's."""
    return {
        name: {"fields": {section: _shape_of(kind) for section, kind in image.SECTIONS.items()}}
        for name, image in (("global", GlobalImage), ("region", RegionImage))
    }


def digest_in(shapes: dict[str, Shape], log: LogName, image: Image) -> str:
    """Of what a build with these shapes would have in this image. Fails when something that it had is gone."""
    known = msgspec.msgpack.decode(image.encode())
    part = _part_of(known, shapes["global" if log == GLOBAL_LOG else "region"])
    return blake2b(msgspec.msgpack.encode(part), digest_size=16).hexdigest()


def _shape_of(hint: Any) -> Shape:  # Any: whatever a field is annotated with
    hint = getattr(hint, "__supertype__", hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        structs = [one for one in arguments if one is not types.NoneType]
        if str in structs:
            return None  # Packed or not (core/images/packing.py): a plain value.
        assert len(structs) == 1, hint
        return _shape_of(structs[0])
    if origin is dict:
        return _table(_shape_of(arguments[1]))
    if origin in (tuple, list):
        is_open = origin is list or arguments[-1] is Ellipsis
        return (
            {"items": _shape_of(arguments[0])}
            if is_open
            else {"parts": [_shape_of(one) for one in arguments]}
        )
    if isinstance(hint, type) and issubclass(hint, Struct):
        hints = typing.get_type_hints(hint)
        if hint.__struct_config__.array_like:
            return {"parts": [_shape_of(hints[one.name]) for one in msgspec.structs.fields(hint)]}
        return {
            "fields": {one.encode_name: _shape_of(hints[one.name]) for one in msgspec.structs.fields(hint)}
        }
    return None


def _table(values: Shape) -> Shape:
    return {"values": values} if values is not None else None


def _part_of(value: Any, shape: Shape) -> Any:  # Any: what MessagePack holds
    if shape is None or value is None:
        return value
    if "fields" in shape:
        if isinstance(value, str):  # Older builds packed nothing.
            value = msgspec.to_builtins(unpacked(value, WorkloadSpec))
        return {name: _part_of(value[name], part) for name, part in shape["fields"].items()}
    if "values" in shape:
        return {key: _part_of(one, shape["values"]) for key, one in value.items()}
    if "items" in shape:
        return [_part_of(one, shape["items"]) for one in value]
    return [_part_of(one, part) for one, part in zip(value, shape["parts"], strict=False)]
