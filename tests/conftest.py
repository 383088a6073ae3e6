"""What every test may rely on."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """A command line sets up logs for its whole process; the next test in this one must not notice."""
    yield
    structlog.reset_defaults()
