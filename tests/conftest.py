"""What every test may rely on."""

import signal
from collections.abc import Iterator

import pytest
import structlog

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So a shell without job control starts what it puts in the background, and every command that is interrupted here would go on.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """A command line sets up logs for its whole process; the next test in this one must not notice."""
    yield
    structlog.reset_defaults()
