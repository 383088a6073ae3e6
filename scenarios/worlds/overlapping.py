"""Misfortune that lasts until everybody who began it has ended it: several may do the same to the same thing at once."""

from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Lasting(Generic[Value]):
    """What goes on, one entry for each that began it, in the order in which they did."""

    def __init__(self, changed: Callable[[], object] = lambda: None) -> None:
        """`changed` is called after each beginning and each end."""
        self._entries: list[list[Value]] = []
        self._changed = changed

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def values(self) -> list[Value]:
        """Of each that goes on."""
        return [value for (value,) in self._entries]

    def begin(self, value: Value) -> Callable[[], None]:
        """Another one. Returns what ends this one and no other; it does no harm once that is over."""
        entry = [value]
        self._entries.append(entry)
        self._changed()

        def end() -> None:
            # By identity: two may be equal.
            left = [one for one in self._entries if one is not entry]
            if len(left) < len(self._entries):
                self._entries = left
                self._changed()

        return end

    def forget(self) -> None:
        """All are over, and nobody is told."""
        self._entries = []
