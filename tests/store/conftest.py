"""A log whose archive files have few facts, for each test of archives."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.sqlite import SqliteLog, SqliteStore
from tests.store.archived_logs import LOG, SMALL


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred facts in a file, sixteen in a block."""
    monkeypatch.setattr("store.archiving.FACTS_MAX", SMALL)
    monkeypatch.setattr("store.archive_file.BLOCK_ROWS", 16)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The log's file."""
    return tmp_path / f"{LOG}.sqlite"


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    """A new log, open."""
    opened = await SqliteStore(tmp_path).open(LOG, "id-1")
    yield opened
    await opened.close()
