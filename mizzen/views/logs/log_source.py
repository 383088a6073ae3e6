"""Where a log is read from: the reader beside its keeper on a running plane, or its file, with or without a plane."""

from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bus.port import Bus
from core.fact import Fact
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, region_log
from core.nouns.limits import READ_BYTES_MAX, READ_FACTS_MAX
from mizzen.connect.plane import DIRECTORY, find_plane
from mizzen.terminal.output import CommandError, explained
from mizzen.views import plane_reads as reading
from store.errors import LogError
from store.port import LogReader
from store.rows import facts_of
from store.sqlite import SqliteStore

SUFFIX = ".sqlite"
REGION_PREFIX = region_log(RegionName(""))

Result = TypeVar("Result")


class Source(Protocol):
    """One log, to be read. All of it raises CommandError."""

    log: LogName

    async def head(self) -> int:
        """How far it has come."""

    def each_from(self, first: int, count: int) -> AsyncIterator[Fact]:
        """Facts from `first` on, up to its head, at most so many."""

    def each_about(self, about: str, after: int) -> AsyncIterator[Fact]:
        """Facts about one thing behind a sequence, up to its head."""


class PlaneSource:
    """A log of a running plane."""

    def __init__(self, bus: Bus, log: LogName) -> None:
        self.log = log
        self._bus = bus

    async def head(self) -> int:
        return await reading.head_of(self._bus, self.log)

    def each_from(self, first: int, count: int) -> AsyncIterator[Fact]:
        return reading.each_from(self._bus, self.log, first, count)

    def each_about(self, about: str, after: int) -> AsyncIterator[Fact]:
        return reading.each_about(self._bus, self.log, about, after)


class FileSource:
    """A log's file."""

    def __init__(self, reader: LogReader, log: LogName) -> None:
        self.log = log
        self._reader = reader

    async def head(self) -> int:
        with explained(LogError):
            return (await self._reader.head()).sequence

    async def each_from(self, first: int, count: int) -> AsyncIterator[Fact]:
        while count > 0:
            with explained(LogError):
                page = await self._reader.read(first, min(count, READ_FACTS_MAX), READ_BYTES_MAX)
                facts = facts_of(self.log, page.rows)
            for fact in facts:
                yield fact
            if not facts:
                return
            first += len(facts)
            count -= len(facts)

    async def each_about(self, about: str, after: int) -> AsyncIterator[Fact]:
        while True:
            with explained(LogError):
                rows = await self._reader.read_about(about, after, READ_FACTS_MAX, READ_BYTES_MAX)
                facts = facts_of(self.log, rows)
            for fact in facts:
                yield fact
            if not rows:
                return
            after = rows[-1].sequence


def is_path(log: str) -> bool:
    """Whether a file is meant, and not the name of a log."""
    return log.endswith(SUFFIX) or "/" in log


def name_of(path: Path) -> LogName:
    """The log whose file this is."""
    return LogName(path.name.removesuffix(SUFFIX))


def image_name_of(path: Path) -> LogName:
    """The same, of a log whose image is wanted: which one that is, its name says. Raises CommandError."""
    name = name_of(path)
    if name != GLOBAL_LOG and not name.startswith(REGION_PREFIX):
        text = f"{path} is named neither global{SUFFIX} nor {REGION_PREFIX}NAME{SUFFIX}, so it cannot be told whose log it is"
        raise CommandError(text)
    return name


async def with_file(path: Path, work: Callable[[Source], Coroutine[Any, Any, Result]]) -> Result:
    """Do something with a log's file. Raises CommandError."""
    reader = await SqliteStore(path.parent).reader(name_of(path))
    try:
        return await work(FileSource(reader, name_of(path)))
    finally:
        await reader.close()


def log_file(log: str) -> Path:
    """The file of a log, by its path, or by its name where a plane is or was kept up here. Raises CommandError."""
    if is_path(log):
        return _checked(Path(log))
    found = file_by_name(log)
    if found is None:
        text = f"no file of a log {log} is found from here; name its path, which ends in {SUFFIX}"
        raise CommandError(text)
    return found


def file_by_name(log: str) -> Path | None:
    """In the directory of the plane that is found from here, or of one that was kept up here and has stopped."""
    try:
        plane = find_plane()
    except CommandError:
        here = Path.cwd()
        folders = [folder / DIRECTORY for folder in (here, *here.parents)]
    else:
        # Of a plane that only its address is known of, whatever lies here may be another's.
        folders = [Path(plane.directory)] if plane.directory else []
    paths = [folder / f"{log}{SUFFIX}" for folder in folders]
    return next((path for path in paths if path.is_file()), None)


def _checked(path: Path) -> Path:
    """Raises CommandError when there is no log."""
    if not path.exists():
        raise CommandError(f"{path} is not there; name a log's file, which ends in {SUFFIX}")
    if not path.is_file() or path.suffix != SUFFIX:
        raise CommandError(f"{path} is no log; a log's file ends in {SUFFIX}")
    return path
