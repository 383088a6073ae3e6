"""Functions on warm executors, as a task sees them: a module with `@mizzen.function` is imported, and its functions run here, as before.

A task has no tenant's credentials, so that it calls nothing on executors. The installed package has the whole decorator
(mizzen/functions/decorator.py) and takes the exceptions from here, so that one `except` is right in both.
"""

from __future__ import annotations

import functools

TYPE_CHECKING = False
"""Tools that read types take it for true; the module that has it would cost a script more than all of ours."""

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn  # Any: a function's arguments and values are of every type.

NO_CREDENTIALS = "a task has no tenant's credentials, so it cannot call {name} on executors; call it as {name}(…), which runs here"


class FunctionError(Exception):
    """A call has no value. An exception that the function raised is raised as it is, and is no subclass of this."""


class CallFailed(FunctionError):
    """The function ran for too long, its executor died of it, or what it raised or returned could not be brought here."""


class CallLost(FunctionError):
    """Whether the call ran is not known, and it may not be begun twice."""


class CallRefused(FunctionError):
    """The call was not begun, and will not be."""


class CallTooLarge(CallRefused):
    """The arguments or the code of a call are too large for a message; arguments go by file."""


class NoPlane(FunctionError):
    """There is no plane to call functions on, or it does not let this process in."""


class Function:
    """A decorated function. It is called here as before; on executors it is called elsewhere."""

    def __init__(self, function: Callable[..., Any], init: Callable[[], object] | None) -> None:
        functools.update_wrapper(self, function)
        self.__mizzen_function__ = function
        self.__mizzen_init__ = init

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function here."""
        return self.__mizzen_function__(*args, **kwargs)

    def call(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise NoPlane: a task calls no function on executors."""
        raise NoPlane(NO_CREDENTIALS.format(name=getattr(self, "__name__", "it")))

    acall = map = amap = call


def function(
    function: Callable[..., Any] | None = None,
    *,
    init: Callable[[], object] | None = None,
    **options: Any,  # noqa: ARG001  # they are for executors
) -> Any:
    """Let a function be called on warm executors, elsewhere; here it stays as it was. All options are taken."""

    def decorated(function: Callable[..., Any]) -> Function:
        return Function(function, init)

    return decorated if function is None else decorated(function)
