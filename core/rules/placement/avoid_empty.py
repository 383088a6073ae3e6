"""Nodes that are empty stay empty, because large gangs need whole nodes."""

import numpy as np

from core.rules.placement.rule import NodePreference, Numbers, Request, Rows


class AvoidEmpty(NodePreference):
    """1 for an empty node, 0 for a node with GPUs in use."""

    name = "avoid_empty"
    is_about_empty = True

    def score(self, rows: Rows, request: Request) -> Numbers:
        """Return 1 where all GPUs of the node are available, else 0."""
        return np.equal(rows.gpu, rows.gpu_total)
