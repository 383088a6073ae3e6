"""The decorator `mizzen.function`, and the function that it makes: called here as before, and on warm executors by `call` and `map`.

import mizzen

@mizzen.function(gpus="any:1", init=load, within="10s")
def score(prompt):
    return model(prompt)

score.call("one")
for value in score.map(prompts):
    print(value)
"""

import asyncio
import functools
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from threading import Lock
from typing import Any, Generic, ParamSpec, TypeVar, overload  # Any: arguments and values are of every type.

from mizzen.functions.needs import GPUS, Options, Span, options_of, span_of

TYPE_CHECKING = False
"""A module with a function is imported without the connection to a plane: that is loaded for the first call."""

if TYPE_CHECKING:
    from mizzen.functions.description import Description
    from mizzen.functions.maps import MapKind

P = ParamSpec("P")
R = TypeVar("R")
Init = Callable[[], object]


class Function(Generic[P, R]):
    """A function that is called here as before, and elsewhere by `call`, `map` and their asynchronous sisters.

    Every call ends: with a value, with the exception that the function raised, or with CallFailed, CallLost or CallRefused.
    """

    def __init__(self, function: Callable[P, R], init: Init | None, options: Options) -> None:
        functools.update_wrapper(self, function)
        self.__mizzen_function__ = function
        self.__mizzen_init__ = init
        self.options = options
        self._described: Description | None = None
        self._lock = Lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here."""
        return self.__mizzen_function__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<mizzen function {self.__mizzen_function__!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Function, (self.__mizzen_function__, self.__mizzen_init__, self.options)

    @property
    def description(self) -> "Description":
        """The function as its calls describe it: as it is when this is first asked for, and from then on. Raises CallRefused."""
        from mizzen.functions.description import describe

        with self._lock:
            if self._described is None:
                self._described = describe(self.__mizzen_function__, self.__mizzen_init__, self.options)
            return self._described

    def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function once on an executor, and return its value. Raises whatever became of the call instead, and NoPlane."""
        from mizzen.functions.calls import OneAnswer, request_of, value_of
        from mizzen.functions.session import session

        found, one = session(), self.description
        waiter = OneAnswer()
        request = request_of(one, one.spec(found.tenant), (args, kwargs), one.options.within, waiter)
        try:
            found.give(request)
            answer = waiter.wait()
        except BaseException:
            found.drop((request,))
            raise
        value: R = value_of(answer, one.name)
        return value

    async def acall(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """As `call`, in an event loop. To cancel it is to wait no more: the call may run."""
        from mizzen.functions.calls import OnLoop, request_of, value_of

        found, one = await _session_on_loop(), self.description
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        spec = one.spec(found.tenant)
        request = request_of(one, spec, (args, kwargs), one.options.within, OnLoop(loop), future)
        try:
            found.give(request)
            answer = await future
        except BaseException:
            found.drop((request,))
            raise
        value: R = value_of(answer, one.name)
        return value

    def map(
        self,
        iterable: Iterable[Any],
        *,
        as_completed: bool = False,
        return_exceptions: bool = False,
        within: Span = None,
    ) -> Iterator[Any]:
        """Yield the value of each input, in the order of inputs, while later inputs run. Inputs are pulled a bounded distance ahead.

        as_completed       yield pairs of an input's place, from 0 on, and its value, as calls end
        return_exceptions  yield exceptions in the place of values; otherwise the first one is raised in its place, and ends the map
        within             the time in which each call is to begin, in place of the function's own
        """
        from mizzen.functions.maps import Arrivals, Map, mapped
        from mizzen.functions.session import session

        kind = self._kind(within, as_completed=as_completed, return_exceptions=return_exceptions)
        arrivals = Arrivals()
        return mapped(Map(self.description, kind, session(), arrivals), arrivals, iterable)

    async def amap(
        self,
        iterable: Iterable[Any] | AsyncIterable[Any],
        *,
        as_completed: bool = False,
        return_exceptions: bool = False,
        within: Span = None,
    ) -> AsyncIterator[Any]:
        """As `map`, in an event loop; inputs may come asynchronously too."""
        from mizzen.functions.maps import LoopArrivals, Map, mapped_on_loop

        kind = self._kind(within, as_completed=as_completed, return_exceptions=return_exceptions)
        arrivals = LoopArrivals()
        one = Map(self.description, kind, await _session_on_loop(), arrivals)
        async with aclosing(mapped_on_loop(one, arrivals, iterable)) as values:
            async for value in values:
                yield value

    def _kind(self, within: Span, *, as_completed: bool, return_exceptions: bool) -> "MapKind":
        from mizzen.functions.maps import MapKind

        span = span_of(within, "within") or self.options.within
        return MapKind(as_completed, return_exceptions, span)


@overload
def function(function: Callable[P, R], /) -> Function[P, R]: ...


@overload
def function(
    *,
    gpus: str = GPUS,
    memory: str = "",
    init: Init | None = None,
    once: bool = False,
    within: Span = None,
    timeout: Span = None,
    name: str | None = None,
    directory: str | None = None,
) -> Callable[[Callable[P, R]], Function[P, R]]: ...


def function(
    function: Callable[..., Any] | None = None,
    /,
    *,
    gpus: str = GPUS,
    memory: str = "",
    init: Init | None = None,
    once: bool = False,
    within: Span = None,
    timeout: Span = None,
    name: str | None = None,
    directory: str | None = None,
) -> Any:
    """Let a function be called on warm executors. Raises ValueError for an option that cannot be so.

    gpus       the device of one executor: cpu:1 is a core, any:1 a GPU, any:0.5 half of one
    memory     the memory of one executor, as in 2GiB; empty: none is set aside
    init       runs once in each executor, before its first call
    once       no call is begun twice; a call of which nothing is known any more raises CallLost
    within     the time in which a call is to begin: sooner ones go first, later ones are refused
    timeout    a call that runs for longer has failed, and its executor is ended
    name       in `mizzen functions`; its module and name, if left out
    directory  all nodes see it, and executors import the function's module from it; "": they get the code pickled. Left out: the
               directory of the module, if that lies under the current directory; pickled otherwise
    """
    options = options_of(
        gpus=gpus, memory=memory, within=within, timeout=timeout, once=once, name=name, directory=directory
    )

    def decorated(function: Callable[..., Any]) -> Function[..., Any]:
        return Function(function, init, options)

    return decorated if function is None else decorated(function)


async def _session_on_loop() -> Any:  # Any: a Session, whose module is loaded here
    """Return the session of this process; the loop goes on while the session connects. Raises NoPlane."""
    from mizzen.functions.session import session, session_now

    return session_now() or await asyncio.to_thread(session)
