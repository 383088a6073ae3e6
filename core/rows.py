"""Packed node rows: what a batch of a region's facts changed, as one array beside them.

An agent at 100,000 nodes copies rows into its arrays instead of working out, fact by fact, what became of each node. Agents with
partitions fold no holdings: rows are all that they know of nodes.

A row does not tell what is free on each shared device, only the sum: an agent that folds facts reads such nodes from the image.

rows    (n, 7) int64: node, GPU milli, CPU milli and memory bytes available, 1 where tasks may be placed, of the GPU milli those on
        shared devices, and 1 where only agents that fold every fact may place tasks (core/placing/index/kept.py); nodes ascending
"""

from collections.abc import Container, Iterable

import numpy as np
from numpy.typing import NDArray

from core.images.capacity import Capacity

COLUMNS = 7
_LITTLE_ENDIAN = np.dtype("<i8")
Row = tuple[int, int, int, int, int, int, int]
"""One row, as above."""


def row_of(capacity: Capacity, node: int, kept: Container[int] = ()) -> Row:
    """Return the row of a node as the image has it now.

    kept   nodes on which only agents that fold every fact may place tasks
    """
    room = capacity.available(node)
    shared = sum(capacity.devices.free(node).values()) if node in capacity.devices.by_node else 0
    is_open = 1 if capacity.is_open(node) else 0
    return (
        node,
        room.gpu_milli,
        room.cpu_milli,
        room.memory_bytes,
        is_open,
        shared,
        1 if node in kept else 0,
    )


def pack_rows(capacity: Capacity, nodes: Iterable[int], kept: Container[int] = ()) -> bytes:
    """Return the packed rows of these nodes as the image has them now."""
    rows = [row_of(capacity, node, kept) for node in sorted(set(nodes))]
    return np.array(rows, dtype=_LITTLE_ENDIAN).tobytes()


def unpack_rows(data: bytes) -> NDArray[np.int64]:
    """Return what `pack_rows` packed: shape (n, 7)."""
    return np.frombuffer(data, dtype=_LITTLE_ENDIAN).reshape(-1, COLUMNS)
