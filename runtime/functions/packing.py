"""Arguments, values, failures and code of functions, as bytes. Callers and executors pack and unpack; a server and a router never do.

Pickle protocol 5 packs; cloudpickle packs only where plain pickle cannot: functions, and classes that live in a caller's `__main__`.
Unpacking runs code of whoever packed: of one tenant alone, in that tenant's own processes.
"""

import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any  # Any: arguments and values are of every type.

import cloudpickle

from core.nouns.function_limits import CALL_BYTES_MAX
from runtime.functions.errors import RemoteFailure

PROTOCOL = 5
TEXT_MAX = 16 * 1024
"""Characters of a failure's traceback and of its words: the beginning and the end of longer ones are kept."""
FOLDER = str(Path(__file__).parent)
MAIN = b"__main__"

Function = Callable[..., Any]


def pack_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Return the arguments of a call as bytes. Raises whatever pickling them raises."""
    return pack_value((args, kwargs))


def unpack_arguments(data: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call. Raises whatever unpickling them raises."""
    args, kwargs = pickle.loads(data)  # noqa: S301  # of one tenant, in its own process
    return args, kwargs


def pack_value(value: Any) -> bytes:
    """Return a value as bytes. Raises whatever pickling it raises."""
    try:
        data = pickle.dumps(value, PROTOCOL)
    except Exception:  # noqa: BLE001  # a value's own code raises anything
        return _by_value(value)
    # Plain pickle names a class of `__main__`, which is another module in each process.
    return _by_value(value) if MAIN in data else data


def unpack_value(data: bytes) -> Any:
    """Return a value. Raises whatever unpickling it raises."""
    return pickle.loads(data)  # noqa: S301  # of one tenant, in its own process


def pack_failure(error: BaseException) -> bytes:
    """Return an exception and its traceback as bytes, `CALL_BYTES_MAX` at most. Never raises."""
    words = _cut("".join(traceback.format_exception_only(error)).strip())
    trace = _cut("".join(traceback.format_exception(type(error), error, _of_function(error))))
    return pickle.dumps((_packed_exception(error), words, trace), PROTOCOL)


def unpack_failure(data: bytes) -> Exception:
    """Return the exception of a failed call, or a `RemoteFailure` in its place; its remote traceback is a note.

    Raises whatever unpickling raises if `data` is not of `pack_failure`.
    """
    packed, words, trace = pickle.loads(data)  # noqa: S301  # of one tenant, in its own process
    error = _exception_of(packed) or RemoteFailure(words)
    error.add_note(f"In the executor:\n{trace}")
    return error


def pack_code(function: Function, init: Function | None) -> bytes:
    """Return a function and what runs once before its first call as bytes. Raises whatever pickling them raises."""
    return _by_value((function, init))


def unpack_code(data: bytes) -> tuple[Function, Function | None]:
    """Return a function and its `init`. Raises whatever unpickling them raises."""
    function, init = pickle.loads(data)  # noqa: S301  # of one tenant, in its own process
    return function, init


def _by_value(value: Any) -> bytes:
    data: bytes = cloudpickle.dumps(value, PROTOCOL)
    return data


def _packed_exception(error: BaseException) -> bytes:
    """Return an exception as bytes; empty if the bytes are too many, or would not become the exception again."""
    try:
        data = pack_value(error)
    except Exception:  # noqa: BLE001  # an exception's own code raises anything
        return b""
    is_kept = len(data) <= CALL_BYTES_MAX // 2 and type(_exception_of(data)) is type(error)
    return data if is_kept else b""


def _exception_of(data: bytes) -> Exception | None:
    """Return the exception that was packed; None if there is none here: a caller may lack its class."""
    try:
        error = pickle.loads(data)  # noqa: S301  # of one tenant, in its own process
    except Exception:  # noqa: BLE001  # an exception's own code raises anything
        return None
    # A caller that an executor's KeyboardInterrupt or SystemExit ended would have pressed no key.
    return error if isinstance(error, Exception) else None


def _of_function(error: BaseException) -> Any:
    """Return the exception's traceback without the frames of this package at its top."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(FOLDER):
        trace = trace.tb_next
    return trace


def _cut(text: str) -> str:
    half = TEXT_MAX // 2
    return text if len(text) <= TEXT_MAX else f"{text[:half]}\n…\n{text[-half:]}"
