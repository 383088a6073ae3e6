"""An example of any struct, made from its annotations alone, so that a new one is tried without being listed."""

import enum
import types
import typing
from typing import Any

import msgspec
from msgspec import Struct


def example(kind: type[Struct], *, is_full: bool) -> Any:  # Any: of whatever struct was handed in
    """One with every field set to something that is not its default, or with those alone that have none."""
    hints = typing.get_type_hints(kind)
    return kind(
        **{
            field.name: _value(hints[field.name], field.name, is_full=is_full)
            for field in msgspec.structs.fields(kind)
            if is_full or field.required
        }
    )


def _value(hint: Any, name: str, *, is_full: bool) -> Any:  # Any: of the type that the hint names
    hint = getattr(hint, "__supertype__", hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        items = arguments[:1] if arguments[-1] is Ellipsis else arguments
        is_open = arguments[-1] is Ellipsis
        if is_open and not is_full:
            return ()
        return tuple(_value(item, name, is_full=is_full) for item in items)
    if origin is dict:
        key, value = arguments
        return {_value(key, name, is_full=is_full): _value(value, name, is_full=is_full)} if is_full else {}
    if origin in (typing.Union, types.UnionType):
        return _value(arguments[0], name, is_full=is_full)
    if issubclass(hint, Struct):
        return example(hint, is_full=is_full)
    if issubclass(hint, enum.Enum):
        return list(hint)[-1 if is_full else 0]
    examples: dict[type, object] = {
        str: name if is_full else "",
        int: 7 if is_full else 0,
        bytes: b"\x00\xff" if is_full else b"",
        bool: is_full,
    }
    return examples[hint]
