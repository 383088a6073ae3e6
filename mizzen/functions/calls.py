"""One call: the request that the session says, and the answer as a value or an exception."""

import threading
from asyncio import AbstractEventLoop, Future
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol  # Any: arguments and values are of every type.

from msgspec import Struct

from core.nouns.function import CallAnswer, CallOutcome, FunctionSpec
from core.nouns.function_limits import CALL_BYTES_MAX
from core.nouns.instant import Nanoseconds
from mizzen.functions.description import Description
from mizzen.sdk.mizzen.functions import CallFailed, CallLost, CallRefused, CallTooLarge
from runtime.functions.errors import RemoteFailure
from runtime.functions.packing import pack_arguments, unpack_failure, unpack_value

Ended = Sequence[tuple[Any, CallAnswer]]
"""Calls that have ended: of each the key by which its waiter knows the call, and the answer."""


class Waiter(Protocol):
    """Waits for answers. Equal waiters are told together."""

    def take(self, ended: Ended) -> None:
        """Take answers, in the session's thread. Must not wait."""


class Request(Struct):
    """One call, from its waiter to the session."""

    function: FunctionSpec
    pickled: bytes
    """Code of the function, for servers that want it."""
    arguments: bytes
    within: Nanoseconds
    is_once: bool
    waiter: Waiter
    key: Any = None
    number: int = 0
    """Of the caller's calls; 0: the session has not taken it yet."""


def request_of(
    description: Description,
    spec: FunctionSpec,
    arguments: tuple[tuple[Any, ...], dict[str, Any]],
    within: Nanoseconds,
    waiter: Waiter,
    key: Any = None,
) -> Request:
    """Return a request. Raises CallTooLarge, and whatever pickling the arguments raises."""
    data = pack_arguments(*arguments)
    if len(data) > CALL_BYTES_MAX:
        text = (
            f"the arguments of {description.name} have {len(data)} bytes, and {CALL_BYTES_MAX} are the most"
        )
        raise CallTooLarge(f"{text}; write them to a file that nodes see, and pass its name")
    return Request(spec, description.pickled, data, within, description.options.is_once, waiter, key)


def value_of(answer: CallAnswer, name: str) -> Any:
    """Return the value of a call of this function, or raise what became of the call instead.

    Raises the exception that the function raised, or CallFailed, CallLost or CallRefused.
    """
    match answer.outcome:
        case CallOutcome.DONE:
            try:
                return unpack_value(answer.value)
            except Exception as error:
                raise CallFailed(f"the value of {name} cannot be unpickled here: {error}") from error
        case CallOutcome.FAILED:
            raise _failure_of(answer, name)
        case CallOutcome.LOST:
            raise CallLost(f"{name}: {answer.problem}")
        case CallOutcome.REFUSED:
            raise CallRefused(f"{name}: {answer.problem}")


def _failure_of(answer: CallAnswer, name: str) -> Exception:
    """Return the exception that the function raised, if it came whole."""
    if not answer.value:
        return CallFailed(f"{name}: {answer.problem}")
    try:
        error = unpack_failure(answer.value)
    except Exception:  # noqa: BLE001  # a class's own code raises anything
        return CallFailed(f"{name}: {answer.problem}")
    if not isinstance(error, RemoteFailure):
        return error
    failure = CallFailed(f"{name}: {error}")
    for note in error.__notes__:
        failure.add_note(note)
    return failure


class OneAnswer:
    """Waits for one call, in the thread that called."""

    def __init__(self) -> None:
        self._answer: CallAnswer | None = None
        self._has_come = threading.Lock()
        self._has_come.acquire()

    def take(self, ended: Ended) -> None:
        """Take the answer, and let the thread go on."""
        ((_, self._answer),) = ended
        self._has_come.release()

    def wait(self) -> CallAnswer:
        """Return the answer, once there is one."""
        self._has_come.acquire()
        assert self._answer is not None
        return self._answer


class OnLoop(NamedTuple):
    """Waits for calls whose keys are futures of one event loop. The loop is woken once for all answers that come together."""

    loop: AbstractEventLoop

    def take(self, ended: Ended) -> None:
        """Give the futures their answers, in the thread of their loop."""
        tell(self.loop, _resolve, ended)


def _resolve(ended: Sequence[tuple["Future[CallAnswer]", CallAnswer]]) -> None:
    for future, answer in ended:
        if not future.done():
            future.set_result(answer)


def tell(loop: AbstractEventLoop, hear: Any, *told: Any) -> None:  # Any: a callback and what it takes
    """Call back in the thread of a loop, unless the loop is closed: nothing waits there any more."""
    try:
        loop.call_soon_threadsafe(hear, *told)
    except RuntimeError:
        if not loop.is_closed():
            raise
