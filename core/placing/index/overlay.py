"""An agent's knowledge beyond its region's log: rows learnt from answers, and capacity that the agent has offered or claimed."""

from collections.abc import Callable, Iterable, Sequence

from core.device_shares import left_of, part_of
from core.images.capacity import Capacity
from core.nouns.ids import AttemptKey
from core.nouns.placement import NodeRow
from core.nouns.quantities import Amount


class Overlay:
    """Rows learnt, and capacity taken under keys: one key for each offer or claim, put and later dropped.

    learnt    by node: a row, and the sequence of the log at which the row was true
    """

    def __init__(self) -> None:
        self.learnt: dict[int, tuple[NodeRow, int]] = {}
        self._needs: dict[object, tuple[tuple[int, Amount], ...]] = {}
        self._taken: dict[int, Amount] = {}
        self._parts: dict[int, list[int]] = {}
        """Taken parts of devices by node, in milli."""
        self._victims: dict[object, tuple[AttemptKey, ...]] = {}

    def put(
        self, key: object, needs: Iterable[tuple[int, Amount]], victims: Sequence[AttemptKey] = ()
    ) -> list[int]:
        """Take capacity under a key, in place of what the key took before; return the nodes that change.

        needs     as from `takings_of`: each part of a device as an entry of its own
        victims   attempts to preempt for the key, which other searches must not choose
        """
        changed = self.drop(key)
        if victims:
            self._victims[key] = tuple(victims)
        self._needs[key] = kept = tuple(needs)
        for node, amount in kept:
            self._taken[node] = self._taken.get(node, Amount()).plus(amount)
            if part_of(amount.gpu_milli):
                self._parts.setdefault(node, []).append(part_of(amount.gpu_milli))
        return [*changed, *(node for node, _ in kept)]

    def drop(self, key: object) -> list[int]:
        """Release all capacity under a key; return the nodes that change."""
        needs = self._needs.pop(key, ())
        self._victims.pop(key, None)
        for node, amount in needs:
            left = self._taken[node].minus(amount)
            if left == Amount():
                del self._taken[node]
            else:
                self._taken[node] = left
            if part_of(amount.gpu_milli):
                self._parts[node].remove(part_of(amount.gpu_milli))
                if not self._parts[node]:
                    del self._parts[node]
        return [node for node, _ in needs]

    def keys(self) -> tuple[object, ...]:
        """Return the keys with taken capacity."""
        return tuple(self._needs)

    def taken_by(self, key: object) -> tuple[tuple[int, Amount], ...]:
        """Return the capacity taken under a key: nodes with amounts."""
        return self._needs.get(key, ())

    def victims(self, without: Iterable[object] = ()) -> frozenset[AttemptKey]:
        """Return the victims of all keys but these."""
        if not self._victims:
            return frozenset()
        left_out = set(without)
        return frozenset(
            victim for key, mine in self._victims.items() if key not in left_out for victim in mine
        )

    def knows(self, node: int) -> bool:
        """Return whether a node's row may differ from the log."""
        return node in self.learnt or node in self._taken

    def nodes(self) -> list[int]:
        """Return the nodes with rows that may differ from the log, ascending."""
        return sorted({*self.learnt, *self._taken})

    def row(self, capacity: Capacity, node: int, without: Iterable[object] = ()) -> NodeRow:
        """Return a node's row as the agent believes, as if the keys in `without` took no capacity."""
        row = self.learnt[node][0] if node in self.learnt else capacity.node_row(node)
        taken = self._taken.get(node)
        if taken is None:
            return row
        free = row.free.minus(taken)
        parts = list(self._parts.get(node, ()))
        for key in without:
            for mine, amount in self._needs.get(key, ()):
                if mine == node:
                    free = free.plus(amount)
                    if part_of(amount.gpu_milli):
                        parts.remove(part_of(amount.gpu_milli))
        at_least = Amount(max(0, free.gpu_milli), max(0, free.cpu_milli), max(0, free.memory_bytes))
        return NodeRow(node, at_least, row.is_open, left_of(row.parts, parts) if parts else row.parts)

    def rows(
        self,
        capacity: Capacity,
        without: Iterable[object] = (),
        of: Callable[[int], bool] = lambda _: True,
    ) -> tuple[NodeRow, ...]:
        """Return all rows that may differ from the log, from which a decision can be recomputed.

        of   whether a node is among those asked for
        """
        nodes = [node for node in self.nodes() if of(node) and capacity.has_node(node)]
        return tuple(self.row(capacity, node, without) for node in nodes)
