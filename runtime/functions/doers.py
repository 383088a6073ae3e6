"""The doer of a function server in a process of its own, beside the worker's spool."""

from collections.abc import Mapping
from pathlib import Path

from runtime.clock import Clock
from runtime.functions.book import DeviceBook
from runtime.functions.doer import FunctionDoer
from runtime.functions.emulated import EmulatedExecutors
from runtime.tasks.environment import INHERITED, ONE_THREAD
from runtime.tasks.layout import Layout


def function_doer_of(
    spool: Path, clock: Clock, inherited: Mapping[str, str], *, is_emulated: bool
) -> FunctionDoer | EmulatedExecutors:
    """Return it. Executors see the few variables that tasks see, and no password of the plane.

    spool        of the worker
    inherited    the environment of this process
    is_emulated  whether the worker's nodes are
    """
    layout = Layout(spool)
    book = DeviceBook(clock, layout.book)
    if is_emulated:
        return EmulatedExecutors(clock, book)
    environ = {name: inherited[name] for name in INHERITED if name in inherited} | ONE_THREAD
    return FunctionDoer(clock, book, layout.book / "code", environ)
