"""How long the output of tasks stays after their share was forgotten: until it is old, or much has come after it."""

from collections.abc import Container
from pathlib import Path

import structlog

from core.nouns.instant import Instant, Nanoseconds
from runtime.tasks.cleanup import Rubbish
from runtime.tasks.layout import TENANT, WORK

logger = structlog.get_logger()


class Retention:
    """Keeps one spool's outputs within their limits."""

    def __init__(self, outputs: Path, rubbish: Rubbish, bytes_max: int, span: Nanoseconds) -> None:
        self._outputs = outputs
        self._rubbish = rubbish
        self._bytes_max = bytes_max
        self._span = span
        self._measured: dict[str, tuple[int, int]] = {}
        """Bytes and last change, of attempts that have ended and so stay as they are."""

    def sweep(self, live: Container[str], now: Instant) -> None:
        """Drop what is too old, and the oldest while there is too much. `live` names attempts that still have a share."""
        names = sorted(path.name for path in self._outputs.iterdir() if path.name not in live)
        self._measured = {name: self._measured.get(name) or self._measure(name) for name in names}
        total = sum(size for size, _ in self._measured.values())
        for name, (size, changed_at) in sorted(self._measured.items(), key=lambda item: item[1][1]):
            if total <= self._bytes_max and now - changed_at <= self._span:
                break
            try:
                self._rubbish.throw(self._outputs / name)
            except OSError as error:
                logger.error("output_not_dropped", attempt=name, error=str(error))
                continue
            del self._measured[name]
            total -= size
            logger.info("output_dropped", attempt=name, size=size)

    def _measure(self, name: str) -> tuple[int, int]:
        """What tasks wrote; not what they left where they ran, which may be a large tree."""
        size = changed_at = 0
        directory = self._outputs / name
        for path in (
            path for task in directory.iterdir() if task.name not in (TENANT, WORK) for path in task.iterdir()
        ):
            found = path.stat()
            size += found.st_size
            changed_at = max(changed_at, found.st_mtime_ns)
        return size, changed_at or directory.stat().st_mtime_ns
