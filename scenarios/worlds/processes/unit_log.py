"""What a real process says of itself in its file: when it came up, what it died of, what its log was when it stopped."""

import json
from pathlib import Path
from typing import Any

BROKEN = "BrokenInvariant"
MISTAKE_FIELD = "place"
"""Told with a death that should not happen, and with no other (runtime/process.py)."""


class UnitLog:
    """One process's file, read as it grows."""

    def __init__(self, path: Path) -> None:
        self.is_up = False
        """Whether this life has said that it began."""
        self.death = ""
        """What it died of by itself since it was up last; empty if it is up, or was killed."""
        self.mistake = ""
        """The same, if that is nothing that it may die of."""
        self.stopped: dict[str, str] = {}
        """By log, the digest of what a keeper had when it stopped in order."""
        self._path = path
        self._offset = 0
        self._has_told = False
        """Of this life's death."""

    def read(self) -> None:
        """Whatever is new, whole lines only."""
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._offset:
                    self._offset = 0  # It had grown too long, and this is another one.
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data.rfind(b"\n") + 1
        self._offset += whole
        for line in data[:whole].splitlines():
            self._take(_fields(line))

    def ended(self, *, was_killed: bool, exit_code: int) -> None:
        """The process is no more. A death that it did not tell of is a mistake, unless somebody killed it."""
        self.read()
        if not was_killed and not self._has_told:
            self.death = self.mistake = f"it ended with exit code {exit_code}, and did not say why"
        self.is_up = self._has_told = False

    def _take(self, said: dict[str, Any]) -> None:  # Any: as JSON has it
        match said.get("event"):
            case "unit_started":
                self.is_up = True
                self.death = self.mistake = ""
            case "unit_died":
                self.is_up, self._has_told = False, True
                self.death = str(said.get("error", ""))
                if MISTAKE_FIELD in said or self.death.startswith(BROKEN):
                    self.mistake = self.death
            case "keeper_stopped":
                self.stopped[str(said.get("log"))] = str(said.get("digest"))


def _fields(line: bytes) -> dict[str, Any]:  # Any: as JSON has it
    """Of a log line; nothing of what is none, as a user's program may write it."""
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
