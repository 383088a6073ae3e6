"""The violations that no operator has acknowledged, numbered from 1 over all lives of the auditor.

The auditor and the file beside the logs (runtime/status/violation_file.py) each keep a book and change it by the same functions, so both
hold the same after each acknowledgement. A book keeps `VIOLATIONS_KEPT_MAX` violations at most, and counts the others.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar

from core.nouns.limits import VIOLATIONS_KEPT_MAX

Found = TypeVar("Found")


class ViolationBook(Generic[Found]):
    """The violations found, and up to which number they are acknowledged."""

    def __init__(
        self, kept: Mapping[int, Found] | None = None, count: int = 0, acknowledged: int = 0
    ) -> None:
        self.kept = dict(kept or {})
        """Violations by number, in the order of their numbers; the first that are not acknowledged for which there was room."""
        self.count = count
        """Number of violations that are not acknowledged, kept or not."""
        self.acknowledged = acknowledged
        """Number of violations acknowledged so far, which is the number of the newest of them."""

    @property
    def newest(self) -> int:
        """The number of the newest violation."""
        return self.acknowledged + self.count

    def add(self, found: Found) -> bool:
        """Count a violation; return whether there is room to keep the violation."""
        self.count += 1
        if len(self.kept) >= VIOLATIONS_KEPT_MAX:
            return False
        self.kept[self.newest] = found
        return True

    def unacknowledged(self, up_to: int) -> int:
        """Return how many violations an acknowledgement up to a number would acknowledge.

        0 if the number is older than the last acknowledgement, or beyond the newest violation and so of a book that was lost.
        """
        return up_to - self.acknowledged if self.acknowledged < up_to <= self.newest else 0

    def acknowledge(self, up_to: int) -> dict[int, Found]:
        """Acknowledge up to a number; return the kept violations that leave the book."""
        done = self.unacknowledged(up_to)
        if not done:
            return {}
        gone = {number: one for number, one in self.kept.items() if number <= up_to}
        self.kept = {number: one for number, one in self.kept.items() if number > up_to}
        self.count -= done
        self.acknowledged = up_to
        return gone
