"""Archiving the old facts of one log, beside its reader: a file at a time, whenever there are enough facts for one.

The log's keeper deletes them by itself. An error here leaves the facts where they are: the archiver tries again at each look, logs
a line when the error is another than before, and one when a look succeeds again.
"""

import structlog

from core.nouns.ids import LogName
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import ARCHIVE_INTERVAL, ARCHIVE_PAUSE
from runtime.clock import Clock
from runtime.wake import Wake
from store.errors import LogError
from store.port import LogReader

logger = structlog.get_logger()


class Archiver:
    """Archives what is older than `keep`."""

    def __init__(self, log: LogName, reader: LogReader, clock: Clock, keep: Nanoseconds) -> None:
        self.name = f"archive.{log}"
        self._log = log
        self._reader = reader
        self._clock = clock
        self._keep = keep
        self._wake = Wake(clock)
        self._problem: object = None
        """The error of the last look, as far as it tells one sort from another; None: there was none."""

    async def run(self) -> None:
        """Look for old facts, for ever."""
        while True:
            pause = ARCHIVE_PAUSE if await self._archive() else ARCHIVE_INTERVAL
            next_look = after(self._clock.now(), pause)
            while self._clock.now() < next_look:
                await self._wake.wait(next_look)

    def close(self) -> None:
        """Let go of its timer."""
        self._wake.close()

    async def _archive(self) -> bool:
        """Write one file, if one is due; whether one was."""
        try:
            done = await self._reader.archive(Instant(self._clock.now() - self._keep))
        except (LogError, OSError) as error:
            problem = (type(error), error.errno if isinstance(error, OSError) else str(error))
            if problem != self._problem:
                logger.error("facts_not_archived", log=self._log, error=str(error))
            self._problem = problem
            return False
        if self._problem is not None:
            logger.info("facts_archived_again", log=self._log)
        self._problem = None
        if done is None:
            return False
        logger.info(
            "facts_archived",
            log=self._log,
            first=done.first,
            last=done.last,
            path=done.path,
            bytes=done.bytes,
        )
        return True
