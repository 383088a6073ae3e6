"""Among how many of the best nodes an agent draws (Protean's N0), by how often its claims met others'.

While it is quiet, an agent takes one of the nodes that are equally good. Conflicts say that others choose the same ones from
the same view; then it draws among more. What was heard before a change says nothing of how things are after it, so each
change begins a new window.

source    Protean §3 (N0 tuned by the conflicts of a sliding window); spec/protean-parsync.md §6.4 (why it is capped)
"""

from collections import deque

from core.nouns.limits import BEST_MAX, CONFLICT_WINDOW, CONFLICTS_MANY

_FIRST = 8
"""The least number that differs from drawing among equals (chosen)."""


class ConflictWindow:
    """The last outcomes of an agent's claims, and the N0 that follows from them."""

    def __init__(self) -> None:
        self.best = 1
        """For `Choice.best`, which is cut to a share of the candidates when it is used (core/placing/pick/nodes.py, `best_of`)."""
        self._outcomes: deque[bool] = deque(maxlen=CONFLICT_WINDOW)

    def heard(self, *, is_conflict: bool) -> None:
        """A claim was granted, or met another's."""
        self._outcomes.append(is_conflict)
        conflicts = sum(self._outcomes)
        if conflicts >= CONFLICTS_MANY:
            self._change(min(BEST_MAX, max(_FIRST, 2 * self.best)))
        elif not conflicts and len(self._outcomes) == CONFLICT_WINDOW:
            self._change(self.best // 2 if self.best > _FIRST else 1)

    def _change(self, best: int) -> None:
        self.best = best
        self._outcomes.clear()
