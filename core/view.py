"""An agent's view of its region as arrays: the index that searches read, kept equal to the image's columns.

Structure of arrays, one entry a node. Only nodes that a fact touched are copied, before the next search.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from core.images.capacity import Capacity
from core.nouns.placement import NodeRow
from core.nouns.quantities import Amount

Ints = NDArray[np.int64]


class Room:
    """What is available on every node: a search's working copy.

    gpu, cpu, memory   (nodes,) available, in GPU milli, CPU milli and bytes; 0 where nothing may be placed
    rack               (nodes,) rack number
    kind               (nodes,) code of the node type; -1 where there is no node
    """

    __slots__ = ("cpu", "gpu", "kind", "memory", "rack")

    def __init__(self, gpu: Ints, cpu: Ints, memory: Ints, rack: Ints, kind: Ints) -> None:
        self.gpu, self.cpu, self.memory, self.rack, self.kind = gpu, cpu, memory, rack, kind

    def copy(self) -> "Room":
        """One that may be changed."""
        return Room(self.gpu.copy(), self.cpu.copy(), self.memory.copy(), self.rack, self.kind)

    def take(self, needs: Iterable[tuple[int, Amount]]) -> None:
        """Take so much from these nodes."""
        for node, amount in needs:
            self.gpu[node] -= amount.gpu_milli
            self.cpu[node] -= amount.cpu_milli
            self.memory[node] -= amount.memory_bytes

    def set(self, row: NodeRow) -> None:
        """Believe this row instead."""
        amount = row.free if row.is_open else Amount()
        self.gpu[row.node], self.cpu[row.node] = amount.gpu_milli, amount.cpu_milli
        self.memory[row.node] = amount.memory_bytes


class NodeView:
    """The arrays, and which of their entries are out of date."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._dirty: set[int] = set()
        self._room = Room(*(np.zeros(0, dtype=np.int64) for _ in range(5)))
        self.codes: dict[str, int] = {}
        """Node types by code, in the order in which they joined."""
        self.gpu_total = 0
        """GPU milli of all nodes, lost ones too."""
        self.touch(range(len(capacity.node_type)))

    def touch(self, nodes: Iterable[int]) -> None:
        """These nodes changed in the image."""
        self._dirty.update(nodes)

    def forget(self) -> None:
        """Whatever was copied is copied again."""
        self._room = Room(*(np.zeros(0, dtype=np.int64) for _ in range(5)))
        self.codes.clear()
        self.touch(range(len(self._capacity.node_type)))

    def put_rows(self, rows: Ints) -> None:
        """Take rows (core/rows.py) for what facts made of their nodes: what a refresh would work out, copied at once."""
        self._make_room()
        room, nodes = self._room, rows[:, 0]
        is_open = rows[:, 4]
        room.gpu[nodes] = rows[:, 1] * is_open
        room.cpu[nodes] = rows[:, 2] * is_open
        room.memory[nodes] = rows[:, 3] * is_open
        self._dirty.difference_update(nodes.tolist())

    def room(self) -> Room:
        """A copy of what is available now, for a search to change as it likes."""
        self._refresh()
        return self._room.copy()

    def _make_room(self) -> None:
        capacity, room = self._capacity, self._room
        size = len(capacity.node_type)
        # A node may join under a number between those that are there: the arrays are long enough, and know nothing of it.
        if size > len(room.gpu) or any(
            room.kind[node] < 0 and capacity.node_type[node] for node in self._dirty
        ):
            self._grow(size)

    def _refresh(self) -> None:
        self._make_room()
        capacity, room = self._capacity, self._room
        gpu, cpu, memory = capacity.gpu, capacity.cpu, capacity.memory
        for node in sorted(self._dirty):
            if not capacity.is_open(node):
                room.gpu[node] = room.cpu[node] = room.memory[node] = 0
            else:
                room.gpu[node] = max(0, gpu.free[node] - gpu.reserved[node])
                room.cpu[node] = max(0, cpu.free[node] - cpu.reserved[node])
                room.memory[node] = max(0, memory.free[node] - memory.reserved[node])
        self._dirty.clear()

    def _grow(self, size: int) -> None:
        capacity = self._capacity
        was = len(self._room.gpu)
        more = np.zeros(size - was, dtype=np.int64)
        for name in capacity.node_type:
            if name:
                self.codes.setdefault(name, len(self.codes))
        self._room = Room(
            np.concatenate([self._room.gpu, more]),
            np.concatenate([self._room.cpu, more]),
            np.concatenate([self._room.memory, more]),
            np.array(capacity.rack, dtype=np.int64),
            np.array([self.codes.get(name, -1) for name in capacity.node_type], dtype=np.int64),
        )
        self.gpu_total = sum(capacity.gpu.total)
        self._dirty.update(range(was, size))
