"""`python -m runtime.planning.sharing_worker [FOLDER]`: problems come in on standard input, and their shares go out on standard output.

A policy of one's own is a file in the folder, and the folder is named when the process starts: a problem names the file, and cannot
name another place. The file is code of a stranger: it runs here, where a hang or a crash ends nothing else, and whatever it prints
goes to standard error. The process solves one problem after the other until its input ends.

A frame is 8 bytes with its length, then that many of MessagePack; arrays are their type, shape and bytes.
"""

import math
import os
import signal
import sys
from pathlib import Path
from typing import Any, BinaryIO, get_args

import msgspec
import numpy as np
from msgspec import Struct

from core.sharing.policies import POLICIES
from core.sharing.problem import BadProblem, Shares, SharingProblem
from runtime.errors import BadOwnPolicy, NotSolved

SUFFIX = ".py"
NICE = 10
"""Whatever decides comes first."""
LENGTH_BYTES = 8
FRAME_BYTES_MAX = 1 << 30
"""A problem of 10,000 jobs and their pairs has a few megabytes; a length beyond this is no length."""
SPARE_SECONDS = 2
"""After its time a process ends itself: the caller, who should have ended it, may be gone."""


class Asked(Struct, frozen=True):
    """A problem, and by which policy."""

    policy: str
    """One of all, or the name of a file of the folder, which ends in `.py`: a file may be called as one of all is."""
    problem: SharingProblem
    seconds: float
    """How long it may take."""


class Answered(Struct, frozen=True):
    """The shares, or why there are none."""

    shares: Shares | None = None
    why: str = ""
    """One sentence."""
    is_own: bool = False
    """Whether the file is at fault."""


def main(arguments: list[str]) -> int:
    """Solve problem after problem. Whoever asked may be gone: nobody then ends this process but itself."""
    folder = Path(arguments[0]) if arguments else None
    if hasattr(os, "nice"):
        os.nice(NICE)
    # Modules of the folder leave no compiled files there.
    sys.dont_write_bytecode = True
    # Frames alone go in and out: what a file prints is for people, and what it reads is nothing.
    asked, told = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    objectives: dict[
        str, Any
    ] = {}  # Any: a function of cvxpy, which is loaded for a policy of one's own alone
    while (data := read_frame(asked)) is not None:
        one = msgspec.msgpack.decode(data, type=Asked, dec_hook=_array_of)
        if hasattr(signal, "alarm"):
            signal.alarm(math.ceil(one.seconds) + SPARE_SECONDS)
        told.write(frame_of(_answer(one, folder, objectives)))
        told.flush()
        if hasattr(signal, "alarm"):
            signal.alarm(0)
    return 0


def _answer(asked: Asked, folder: Path | None, objectives: dict[str, Any]) -> Answered:  # Any: see above
    try:
        if asked.policy in POLICIES:
            from runtime.solvers.sharing import solve_shares

            return Answered(solve_shares(asked.policy, asked.problem))
        if folder is None or not asked.policy.endswith(SUFFIX):
            return Answered(why=f"{asked.policy}: there is no such policy")
        from runtime.solvers.own import load_objective, solve_own

        name = asked.policy.removesuffix(SUFFIX)
        if name not in objectives:
            objectives[name] = load_objective(folder, name)
        return Answered(solve_own(name, objectives[name], asked.problem))
    except (BadProblem, NotSolved) as error:
        return Answered(why=str(error), is_own=isinstance(error, BadOwnPolicy))


def frame_of(value: Struct) -> bytes:
    """Return a message as it goes through a pipe."""
    data = msgspec.msgpack.encode(value, enc_hook=_parts_of)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def read_frame(source: BinaryIO) -> bytes | None:
    """Return the next message's bytes; None where the input ends."""
    head = source.read(LENGTH_BYTES)
    length = int.from_bytes(head, "big")
    if len(head) < LENGTH_BYTES or length > FRAME_BYTES_MAX:
        return None
    data = source.read(length)
    return data if len(data) == length else None


def decode_answer(data: bytes) -> Answered | None:
    """Return what a process wrote; None where that is no answer."""
    try:
        return msgspec.msgpack.decode(data, type=Answered, dec_hook=_array_of)
    except (msgspec.MsgspecError, ValueError, TypeError):
        return None


def _parts_of(value: Any) -> Any:  # Any: msgspec asks for whatever it does not know
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes()
    raise NotImplementedError(type(value).__name__)


def _array_of(wanted: Any, parts: Any) -> Any:  # Any: see above
    """Return an array, if it is of the kind that the field has."""
    kind, shape, data = parts
    _, type_of_numbers = get_args(wanted)
    if np.dtype(kind) != np.dtype(get_args(type_of_numbers)[0]):
        raise ValueError(kind)
    return np.frombuffer(data, dtype=kind).reshape(shape)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
