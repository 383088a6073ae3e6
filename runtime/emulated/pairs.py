"""Shares of one worker that run on one device: a guest, and the share of the attempt beside which it was placed."""

from core.messages.workers import PrepareTasks
from core.nouns.ids import AttemptKey, ShareKey


class Pairs:
    """The shares of one worker, by the attempts that they name. Shares that have ended stay until they are dropped."""

    def __init__(self) -> None:
        self._of: dict[AttemptKey, dict[ShareKey, None]] = {}
        self._beside: dict[AttemptKey, dict[ShareKey, None]] = {}

    def add(self, command: PrepareTasks) -> None:
        """Add a share that is prepared."""
        self._of.setdefault(command.key.attempt, {})[command.key] = None
        if command.beside is not None:
            self._beside.setdefault(command.beside, {})[command.key] = None

    def drop(self, command: PrepareTasks) -> None:
        """Drop a share that is forgotten."""
        for index, attempt in ((self._of, command.key.attempt), (self._beside, command.beside)):
            if attempt is not None and command.key in index.get(attempt, ()):
                del index[attempt][command.key]
                if not index[attempt]:
                    del index[attempt]

    def mates(self, command: PrepareTasks) -> list[ShareKey]:
        """Return the shares beside which this one was placed, and those that were placed beside this one."""
        hosts = self._of.get(command.beside, {}) if command.beside is not None else {}
        return [*hosts, *self._beside.get(command.key.attempt, ())]
