"""The event loop of a process: uvloop's where it is installed (the `fast` extra), asyncio's own otherwise.

The simulated world has a loop of its own (`virtual_loop.py`).
"""

import asyncio
from collections.abc import Callable, Coroutine
from importlib.metadata import version
from typing import Any, TypeVar

Loop = asyncio.AbstractEventLoop
Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end in a loop of its own, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=_loop_factory()[1]) as runner:
        return runner.run(work)


def loop_name() -> str:
    """Whose loop `run` takes."""
    return _loop_factory()[0]


def _loop_factory() -> tuple[str, Callable[[], Loop]]:
    try:
        import uvloop  # an extra: whoever did not install it runs without
    except ImportError:
        return "asyncio", asyncio.new_event_loop
    return f"uvloop {version('uvloop')}", uvloop.new_event_loop
