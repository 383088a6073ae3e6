"""What a server, its warm parent and its executors say to each other.

Server and parent have a socket that keeps messages apart (`Fork`, `Pin`, `Kill`; `Forked`, `Gone`). Each executor has two pipes to the
server: calls go in by frames of (ticket, arguments) pairs; out come `ExecutorChanged` until the top level is reached, then one
`EndedCall` a frame. A frame is its length and so many bytes of MessagePack. The first frame in has no calls: an executor loads nothing
of its function, and so uses no device, before that frame has come.
"""

import struct

import msgspec
from msgspec import Struct

from core.messages.executors import EndedCall, ExecutorChanged
from core.nouns.function import FunctionCode
from core.nouns.function_limits import CALL_BYTES_MAX

HEAD = struct.Struct("<I")
FRAME_BYTES_MAX = 2 * CALL_BYTES_MAX
"""Out of an executor: a value, or a failure, and a few words."""
MESSAGE_BYTES_MAX = 64 * 1024
"""Between a server and its parent."""
OUTPUT_KEPT = 4 * 1024
"""Bytes of an executor's newest output, for the problem of its death."""

GO: tuple[tuple[int, bytes], ...] = ()
"""The calls of the first frame that an executor gets."""


class Plan(Struct, frozen=True):
    """All that an executor knows when it starts."""

    executor: int
    """Its number in the life of the server."""
    code: FunctionCode
    kept: str
    """The file with the pickled code; empty: the code is imported."""
    has_device: bool
    """Whether `DEVICE` is its top level."""
    gpus: tuple[int, ...]
    cpus: tuple[int, ...]
    """Empty: all that the parent may use."""
    is_idle: bool = False
    """Whether it runs only where nobody else wants a CPU."""


class Fork(Struct, frozen=True, tag="fork"):
    """Fork an executor."""

    serial: int
    """Counts the executors of all lives of the server."""
    plan: Plan


class Pin(Struct, frozen=True, tag="pin"):
    """An executor runs on these CPUs from now on."""

    serial: int
    cpus: tuple[int, ...]


class Kill(Struct, frozen=True, tag="kill"):
    """End an executor at once."""

    serial: int


class Forked(Struct, frozen=True, tag="forked"):
    """An executor runs. The server's ends of its pipes come with this: that for calls, and that for answers."""

    serial: int
    pid: int


class Gone(Struct, frozen=True, tag="gone"):
    """An executor has ended, with all that it has started, and was waited for; or there is none."""

    serial: int
    how: str
    """Its exit code or signal, in words."""
    output: str
    """The newest that it printed, `OUTPUT_KEPT` at most."""


class BadFrame(Exception):
    """A function wrote into the pipe of its executor's answers."""


encode = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(Fork | Pin | Kill).decode
decode_report = msgspec.msgpack.Decoder(Forked | Gone).decode
decode_calls = msgspec.msgpack.Decoder(tuple[tuple[int, bytes], ...]).decode
decode_change = msgspec.msgpack.Decoder(ExecutorChanged).decode
decode_end = msgspec.msgpack.Decoder(EndedCall).decode


def frame_of(message: Struct | tuple[tuple[int, bytes], ...]) -> bytes:
    """Return a message as it goes through a pipe."""
    data = encode(message)
    return HEAD.pack(len(data)) + data


def take_frames(buffer: bytearray) -> list[bytes]:
    """Take all whole frames off the beginning of what was read, and return their contents. Raises BadFrame."""
    frames = []
    at, end = 0, len(buffer)
    while at + HEAD.size <= end:
        (length,) = HEAD.unpack_from(buffer, at)
        if length > FRAME_BYTES_MAX:
            raise BadFrame(length)
        begin, after = at + HEAD.size, at + HEAD.size + length
        if after > end:
            break
        frames.append(bytes(buffer[begin:after]))
        at = after
    del buffer[:at]
    return frames
