"""Nodes that are empty stay empty: whole nodes are what large gangs need."""

import numpy as np

from core.rules.placement.rule import NodePreference, Numbers, Request, Rows


class AvoidEmpty(NodePreference):
    """1 of an empty node, 0 of one on which something runs."""

    name = "avoid_empty"

    def score(self, rows: Rows, request: Request) -> Numbers:
        """Whether all its GPUs are free."""
        return np.equal(rows.gpu, rows.gpu_total)
