"""Shared devices: a part of a device goes where some device is shared already and holds it."""

import numpy as np

from core.rules.placement.rule import NodePreference, Numbers, Request, Rows


class SharedDevices(NodePreference):
    """1 where a part of a device would break into a whole one. On the node itself the fullest device that holds it is taken."""

    name = "shared_devices"
    traits = frozenset({"need", "together"})

    def concerns(self, request: Request) -> bool:
        """To whole devices all nodes are alike."""
        return request.part > 0

    def score(self, rows: Rows, request: Request) -> Numbers:
        """By whether all that is looked for together finds room on shared devices."""
        shared, part = rows.shared, request.part
        if not part or not shared.shape[1]:
            return np.zeros(len(shared), dtype=np.int32)
        held = (shared // np.int16(part)).sum(axis=1, dtype=np.int32)
        broken: Numbers = held < request.together
        return broken.astype(np.int32)
