"""What functions may use on emulated nodes: a steady amount, or what tasks that serve functions hold there."""

from collections.abc import Callable

from core.messages.executors import BookRead
from core.nouns.ids import TenantName
from core.nouns.quantities import Amount


class SteadyBook:
    """An amount that only whoever made it changes."""

    def __init__(self, size: Amount, lent: tuple[tuple[TenantName, Amount], ...] = ()) -> None:
        self._read = BookRead(size, lent)
        self._changed: Callable[[], None] | None = None

    def lent(self) -> BookRead:
        """Return it."""
        return self._read

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back whenever it is resized, from now on."""
        self._changed = changed

    def resize(self, size: Amount, lent: tuple[tuple[TenantName, Amount], ...] = ()) -> None:
        """Let functions use this much from now on."""
        self._read = BookRead(size, lent)
        if self._changed is not None:
            self._changed()
