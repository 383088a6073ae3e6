"""The emulated nodes of a worker that is a process, with a file that outlives it.

Emulated tasks end with their process, and the broker finds that out at the worker's first whole report. But it takes a
report for a late repeat unless it comes after those before, and a worker must obey nothing older than what it obeyed; so
how often a worker has looked, and the highest sequence it obeyed, are on disk.
"""

from pathlib import Path

import msgspec
from msgspec import Struct

from core.component import Effect
from runtime.clock import Clock
from runtime.effects import Done
from runtime.spool import EmulatedSpool


class NodesFileError(Exception):
    """The file is damaged; the text says what to do."""


class Kept(Struct, frozen=True):
    """What the file holds."""

    starts: int = 0
    sequence: int = 0


class NodesOnDisk:
    """Emulated nodes, and what must not be forgotten of them."""

    def __init__(self, name: str, clock: Clock, path: Path) -> None:
        """Raises NodesFileError, and OSError when the file cannot be read."""
        self._path = path
        self._kept = _read(path)
        self._spool = EmulatedSpool(name, clock)
        self._spool.starts, self._spool.sequence = self._kept.starts, self._kept.sequence

    # Nodes of runtime/process.py.

    def attach(self, done: Done) -> None:
        """A worker has just started."""
        self._spool.attach(done)

    def begin(self, effect: Effect) -> None:
        """Do it, and keep what it changed before the worker can act on it: what it hears comes with its next turn."""
        self._spool.begin(effect)
        self._keep(Kept(self._spool.starts, self._spool.sequence))

    async def run(self) -> None:
        """Let tasks save and end, for ever."""
        await self._spool.run()

    def close(self) -> None:
        """Let go of the timer."""
        self._spool.close()

    def _keep(self, kept: Kept) -> None:
        """Whole or not at all. Not synced: what a power cut takes from the file it takes from the tasks too."""
        if kept == self._kept:
            return
        self._kept = kept
        unfinished = self._path.with_suffix(".tmp")
        unfinished.write_bytes(msgspec.json.encode(kept))
        unfinished.replace(self._path)


def _read(path: Path) -> Kept:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        return Kept()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kept)
    except msgspec.MsgspecError as error:
        text = f"{path} is damaged ({error}); put back a copy, or start this worker under another name"
        raise NodesFileError(text) from error
