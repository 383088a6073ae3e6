"""Structs to bytes and back: MessagePack with hand-written tags, for the bus and the logs alike.

An unknown tag or field type is a `CodecError`: for a message that is somebody else's mistake, for an event in our own
log it means that a newer build wrote it.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Union

import msgspec
from msgspec import Struct

from core.dispatch.context import Urgency
from core.events import EVENTS
from core.fact import Event
from core.messages import MESSAGES
from core.messages.base import Message


class CodecError(Exception):
    """Bytes that are no value of ours: an unknown tag, a wrong type, or not MessagePack at all."""


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises on bytes that are no value: the last two on text that is not UTF-8 and on arrays without end."""


class Parcel(Struct, frozen=True, omit_defaults=True):
    """A message as it crosses the bus."""

    id: str
    sender: str
    message: Message
    tenant: str = ""
    """With whose credentials it was said, as the server vouches (bus/catalogue.py, `is_forged`); empty: the plane's own."""
    urgency: Urgency | None = None
    """What was left for the chain that led to it; None: nothing did, so the class of its type counts."""
    costs: dict[str, int] = {}
    """What messages cost from its sender on, by their tags, in nanoseconds (core/dispatch/costs.py)."""


_AnyMessage = Union[MESSAGES]  # type: ignore[valid-type]  # built from the registry, which a checker cannot read
_AnyEvent = Union[EVENTS]  # type: ignore[valid-type]  # the same


class _WireParcel(Struct, frozen=True):
    id: str
    sender: str
    message: _AnyMessage
    tenant: str = ""
    urgency: Urgency | None = None
    costs: dict[str, int] = {}


_encoder = msgspec.msgpack.Encoder()
_parcels: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
    _WireParcel
)  # Any: the union above is untyped
_events: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(_AnyEvent)


def tag_prefixes(events: Iterable[type[Event]]) -> tuple[bytes, ...]:
    """Return what the encodings of these events begin with, behind the header of their map (see `begins_with`)."""
    return tuple(
        _encoder.encode("type") + _encoder.encode(event.__struct_config__.tag)
        for event in sorted_by_tag(events)
    )


def sorted_by_tag(events: Iterable[type[Event]]) -> list[type[Event]]:
    """Return event types in the order of their tags."""
    return sorted(events, key=lambda event: str(event.__struct_config__.tag))


def begins_with(data: bytes, prefixes: tuple[bytes, ...]) -> bool:
    """Return whether an encoded event is one of those of which these are the prefixes, without decoding it.

    source    MessagePack: a map's header has one byte for up to 15 fields, and three bytes for more, the first of which is 0xde
    """
    return data.startswith(prefixes, 3 if data[:1] == b"\xde" else 1)


def encode(value: Any) -> bytes:  # Any: every struct of ours, and images of them
    """One value as bytes; equal values give equal bytes."""
    return _encoder.encode(value)


def decode_parcel(data: bytes) -> Parcel:
    """A message with its id and sender. Raises CodecError."""
    try:
        parcel: Parcel = _parcels.decode(data)
    except UNREADABLE as error:
        raise CodecError(str(error)) from error
    return parcel


def decode_event(data: bytes) -> Event:
    """An event as its log holds it. Raises CodecError."""
    try:
        event: Event = _events.decode(data)
    except UNREADABLE as error:
        raise CodecError(str(error)) from error
    return event


@lru_cache(maxsize=2048)
def decode_event_shared(data: bytes) -> Event:
    """As `decode_event`, for the several followers of one process that hear the same fact: events are frozen.

    Raises CodecError.
    """
    return decode_event(data)
