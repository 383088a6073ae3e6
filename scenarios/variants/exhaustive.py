"""Ours: one global queue, and every region that could hold the work looks for a place (MAST's design 6)."""

from scenarios.variant import Variant


class Exhaustive(Variant, frozen=True):
    """Work is bound to a region when it can start there."""
