"""Packed node rows: what a batch of a region's facts changed, as one array beside them.

An agent at 100,000 nodes copies rows into its arrays instead of working out, fact by fact, what became of each node.

A row does not tell what is free on shared devices: nodes that have some are read from the image.

rows    (n, 5) int64: node, GPU milli, CPU milli and memory bytes available, 1 where tasks may be placed; nodes ascending
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from core.images.capacity import Capacity

COLUMNS = 5
_LITTLE_ENDIAN = np.dtype("<i8")


def pack_rows(capacity: Capacity, nodes: Iterable[int]) -> bytes:
    """The rows of these nodes as the image has them now."""
    rows = []
    for node in sorted(set(nodes)):
        room = capacity.available(node)
        rows.append(
            (node, room.gpu_milli, room.cpu_milli, room.memory_bytes, 1 if capacity.is_open(node) else 0)
        )
    return np.array(rows, dtype=_LITTLE_ENDIAN).tobytes()


def unpack_rows(data: bytes) -> NDArray[np.int64]:
    """What `pack_rows` packed: shape (n, 5)."""
    return np.frombuffer(data, dtype=_LITTLE_ENDIAN).reshape(-1, COLUMNS)
