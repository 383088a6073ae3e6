"""Shared devices: a part of a device goes to a node where a shared device holds the part."""

import numpy as np

from core.rules.placement.rule import NodePreference, Numbers, Request, Rows


class SharedDevices(NodePreference):
    """1 where a part would break a whole device. On the node, the part goes to the fullest shared device that holds the part."""

    name = "shared_devices"
    traits = frozenset({"need", "together"})

    def concerns(self, request: Request) -> bool:
        """Return whether the tasks need parts of devices; for whole devices all nodes are equal."""
        return request.part > 0

    def score(self, rows: Rows, request: Request) -> Numbers:
        """Return 0 where all tasks placed together fit on shared devices, or where the pool has no shared devices, else 1."""
        shared, part = rows.shared, request.part
        if not part or not shared.shape[1]:
            return np.zeros(len(shared), dtype=np.int32)
        held = (shared // np.int16(part)).sum(axis=1, dtype=np.int32)
        broken: Numbers = held < request.together
        return broken.astype(np.int32)
