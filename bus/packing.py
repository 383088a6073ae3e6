"""Puts a message into its parcel, for every bus alike."""

from bus.errors import MessageTooLarge
from core.codec import Parcel, encode
from core.messages.base import Message
from core.nouns.limits import MESSAGE_BYTES_MAX


def pack(identity: str, sender: str, message: Message) -> bytes:
    """The bytes that cross the bus. Raises MessageTooLarge."""
    data = encode(Parcel(identity, sender, message))
    if len(data) > MESSAGE_BYTES_MAX:
        raise MessageTooLarge(str(type(message).__struct_config__.tag), len(data), MESSAGE_BYTES_MAX)
    return data
