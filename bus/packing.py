"""Puts a message into its parcel, and answers for what is no parcel, for every bus alike."""

from bus.errors import MessageTooLarge
from core.codec import CodecError, Parcel, encode
from core.dispatch.context import NO_CONTEXT, Context
from core.messages.base import Message, Refused
from core.nouns.limits import MESSAGE_BYTES_MAX
from core.nouns.reasons import Reason, sentence

FORGED = "it came under another signature than its own"
"""What is wrong with a message that `is_forged` (bus/catalogue.py)."""


def pack(
    identity: str, sender: str, message: Message, tenant: str = "", context: Context = NO_CONTEXT
) -> bytes:
    """The bytes that cross the bus. Raises MessageTooLarge."""
    data = encode(Parcel(identity, sender, message, tenant, context.urgency, context.costs))
    if len(data) > MESSAGE_BYTES_MAX:
        raise MessageTooLarge(str(type(message).__struct_config__.tag), len(data), MESSAGE_BYTES_MAX)
    return data


def not_ours(error: CodecError) -> Refused:
    """The answer to a request that could not be read: an unknown tag or field, or a wrong type."""
    return Refused(Reason.INVALID, sentence(Reason.INVALID), (str(error),))
