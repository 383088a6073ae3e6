"""Bytes that are almost a message."""

import random

from bus.packing import pack
from core.codec import CodecError, decode_parcel
from core.messages.base import Message


def spoiled(message: Message, spoil: int) -> bytes:
    """A message as it crosses the bus, bits of it flipped as `spoil` says, one after the other, until it is none.

    One that still were a message would be believed, as it must be: the bus lets nobody else say it.
    """
    data = bytearray(pack(f"poison.{spoil}", "poison", message))
    dice = random.Random(spoil)
    while True:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        try:
            decode_parcel(bytes(data))
        except CodecError:
            return bytes(data)
