"""Arguments and options of commands that call functions."""

from typing import Annotated

from cyclopts import Parameter

Target = Annotated[
    str, Parameter(name="MODULE:NAME", help="The function, in a module that is importable from here.")
]
Gpus = Annotated[
    str, Parameter(help="The device of an executor, as in cpu:1 or any:0.5, in place of the function's own.")
]
Memory = Annotated[str, Parameter(help="The memory of an executor, as in 2GiB.")]
Within = Annotated[str, Parameter(help="The time in which a call is to begin, as in 10s.")]
Timeout = Annotated[str, Parameter(help="A call that runs for longer has failed.")]
