"""What an agent knows beside its region's log: rows that an answer taught it, and what it has offered or claimed itself."""

from collections.abc import Iterable, Sequence

from core.device_shares import left_of, part_of
from core.images.capacity import Capacity
from core.nouns.ids import AttemptKey
from core.nouns.placement import NodeRow
from core.nouns.quantities import Amount


class Overlay:
    """Each thing that takes room has a key; a key is put once and dropped once, whatever happens between."""

    def __init__(self) -> None:
        self.learnt: dict[int, tuple[NodeRow, int]] = {}
        self._needs: dict[object, tuple[tuple[int, Amount], ...]] = {}
        self._taken: dict[int, Amount] = {}
        self._parts: dict[int, list[int]] = {}
        """By node, of what is taken: parts of one device each."""
        self._victims: dict[object, tuple[AttemptKey, ...]] = {}

    def put(
        self, key: object, needs: Iterable[tuple[int, Amount]], victims: Sequence[AttemptKey] = ()
    ) -> list[int]:
        """This much is taken under this key and nothing else; which nodes it changes.

        needs     as `takings_of` has them: each part of a device by itself
        victims   who are to go for it: nobody else can have their room
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
        """Nothing is taken under this key any more; which nodes it changes."""
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
        """All that take something."""
        return tuple(self._needs)

    def taken_by(self, key: object) -> tuple[tuple[int, Amount], ...]:
        """What is taken under a key."""
        return self._needs.get(key, ())

    def victims(self, without: Iterable[object] = ()) -> frozenset[AttemptKey]:
        """Who is to go for something that takes room, these keys left out."""
        if not self._victims:
            return frozenset()
        left_out = set(without)
        return frozenset(
            victim for key, mine in self._victims.items() if key not in left_out for victim in mine
        )

    def knows(self, node: int) -> bool:
        """Whether a node may be other than the log shows it."""
        return node in self.learnt or node in self._taken

    def nodes(self) -> list[int]:
        """Those of which that is so."""
        return sorted({*self.learnt, *self._taken})

    def row(self, capacity: Capacity, node: int, without: Iterable[object] = ()) -> NodeRow:
        """A node as the agent believes it to be; of what these keys take, as if it did not."""
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

    def rows(self, capacity: Capacity, without: Iterable[object] = ()) -> tuple[NodeRow, ...]:
        """All that are not as the log shows them: what a decision is recomputed with."""
        return tuple(self.row(capacity, node, without) for node in self.nodes() if capacity.has_node(node))
