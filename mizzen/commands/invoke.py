"""`mizzen invoke`: one call of a function on a warm executor, whose value is printed as JSON."""

from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.function_options import Gpus, Memory, Target, Timeout, Within
from mizzen.terminal.options import Json
from mizzen.terminal.output import CommandError, tell_json


def invoke(
    function: Target,
    /,
    *arguments: Annotated[str, Parameter(help="Arguments, each in JSON; one that begins with - behind --.")],
    kwargs: Annotated[str, Parameter(help="Named arguments, a JSON object.")] = "",
    gpus: Gpus = "",
    memory: Memory = "",
    within: Within = "",
    timeout: Timeout = "",
    json: Json = False,  # noqa: ARG001  # the value is JSON in any case; a problem is told so
) -> None:
    """Call a function on an executor of the plane, and print its value as JSON."""
    from mizzen.actions.function_calls import arguments_of, function_named
    from mizzen.functions.map_files import problem_of
    from mizzen.functions.session import close

    args, named = arguments_of(arguments, kwargs)
    found = function_named(function, gpus=gpus, memory=memory, within=within, timeout=timeout)
    try:
        value = found.call(*args, **named)
    except Exception as error:
        notes = [line for note in getattr(error, "__notes__", ()) for line in note.splitlines()]
        raise CommandError(problem_of(error), problems=notes) from error
    finally:
        close()
    try:
        tell_json(value)
    except (TypeError, ValueError) as error:
        text = f"the value of {function} cannot be written as JSON: {error}; let the function return what JSON has"
        raise CommandError(text) from error
