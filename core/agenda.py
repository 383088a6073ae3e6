"""Deadlines by key: what `due` reads and what `Woken` acts on."""

from bisect import bisect_left, insort
from collections.abc import Hashable
from typing import Generic, TypeVar

from core.nouns.instant import Instant

Key = TypeVar("Key", bound=Hashable)


class Agenda(Generic[Key]):
    """One deadline for each key, in order. Keys of one agenda must be comparable, because they break ties."""

    def __init__(self) -> None:
        self._at: dict[Key, Instant] = {}
        self._ordered: list[tuple[Instant, Key]] = []

    def __len__(self) -> int:
        return len(self._ordered)

    def __contains__(self, key: Key) -> bool:
        return key in self._at

    def put(self, key: Key, at: Instant) -> None:
        """Set the key's deadline, in place of any it had."""
        self.drop(key)
        self._at[key] = at
        insort(self._ordered, (at, key))

    def drop(self, key: Key) -> None:
        """Forget the key's deadline, if it has one."""
        at = self._at.pop(key, None)
        if at is not None:
            del self._ordered[bisect_left(self._ordered, (at, key))]

    def at(self, key: Key) -> Instant | None:
        """The key's deadline."""
        return self._at.get(key)

    def due(self) -> Instant | None:
        """The earliest deadline."""
        return self._ordered[0][0] if self._ordered else None

    def passed(self, now: Instant, count_max: int = 256) -> list[Key]:
        """Keys whose deadline has come, earliest first, at most so many."""
        keys: list[Key] = []
        for at, key in self._ordered:
            if at > now or len(keys) == count_max:
                break
            keys.append(key)
        return keys
