"""The event loop of a process: the fast one where it is installed."""

import asyncio
import sys

import pytest

from runtime.loop import loop_name, run


async def _module() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def test_loop_is_the_one_that_is_named() -> None:
    """Whichever is installed here."""
    assert loop_name().partition(" ")[0] == run(_module())


def test_loop_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever installed no uvloop runs on asyncio's own."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert ("asyncio", "asyncio") == (loop_name(), run(_module()))
