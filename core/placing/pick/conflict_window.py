"""The number of best nodes among which an agent draws (Protean's N0), by the conflicts among its recent claims.

Without conflicts, an agent draws only among nodes that are equally good. Many conflicts mean that other agents choose the same
nodes from the same view; then the agent draws among more. Outcomes before a change of N0 are no evidence for the new value, so
each change begins a new window.

source    Protean §3 (N0 tuned by the conflicts of a sliding window); spec/protean-parsync.md §6.4 (why it is capped)
"""

from collections import deque

from core.nouns.limits import BEST_MAX, CONFLICT_WINDOW, CONFLICTS_MANY

_FIRST = 8
"""The least N0 above 1, which is a draw among equals (chosen)."""


class ConflictWindow:
    """The last outcomes of an agent's claims, and the N0 derived from them."""

    def __init__(self) -> None:
        self.best = 1
        """N0 for `Choice.best`; a search cuts the value to a share of the candidates (core/placing/pick/nodes.py, `best_of`)."""
        self._outcomes: deque[bool] = deque(maxlen=CONFLICT_WINDOW)

    def heard(self, *, is_conflict: bool) -> None:
        """Record that a claim was granted, or that it met a conflict."""
        self._outcomes.append(is_conflict)
        conflicts = sum(self._outcomes)
        if conflicts >= CONFLICTS_MANY:
            self._change(min(BEST_MAX, max(_FIRST, 2 * self.best)))
        elif not conflicts and len(self._outcomes) == CONFLICT_WINDOW:
            self._change(self.best // 2 if self.best > _FIRST else 1)

    def _change(self, best: int) -> None:
        self.best = best
        self._outcomes.clear()
