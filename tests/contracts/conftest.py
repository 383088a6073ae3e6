"""Each contract on logs is asked of every place where a log can be."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.port import Log
from tests.contracts.logs import LOG, WORLDS, World


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """Each place where a log can be."""
    return WORLDS[request.param](tmp_path)


@pytest.fixture
async def log(world: World) -> AsyncIterator[Log]:
    """A new log, open."""
    opened = await world.store.open(LOG, "id-1")
    yield opened
    await opened.close()
