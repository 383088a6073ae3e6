"""What every test may rely on."""

import faulthandler
import os
import signal
from collections.abc import Generator, Iterator

import pytest
import structlog

BEYOND_TIMEOUT_SECONDS = 180
STDERR = pytest.StashKey[int]()
"""The descriptor of the test process's own stderr, which is not captured."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So a shell without job control starts what it puts in the background, and every command that is interrupted here would go on.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """A command line sets up logs for its whole process; the next test in this one must not notice."""
    yield
    structlog.reset_defaults()


def pytest_configure(config: pytest.Config) -> None:
    """Keep stderr for the stacks of a process that hangs."""
    config.stash[STDERR] = os.dup(2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End a test process that cannot be stopped, with all stacks: under xdist its test has failed, and the others go on.

    The timeout raises an error in the test, once. A lock that is never given, or a teardown without end, hangs all the same.
    """
    _wind_up(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Pytest itself stops the timer at each failure, for a debugger; its teardown is still to come."""
    if isinstance(node, pytest.Item):
        _wind_up(node)


def _wind_up(item: pytest.Item) -> None:
    marker, config = item.get_closest_marker("timeout"), item.config
    timeout = marker.args[0] if marker else config.getoption("timeout") or config.getini("timeout")
    if not config.getoption("usepdb"):
        seconds = float(timeout) + BEYOND_TIMEOUT_SECONDS
        faulthandler.dump_traceback_later(seconds, exit=True, file=config.stash[STDERR])
