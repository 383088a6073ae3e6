"""Closures: why nothing new is placed on some nodes, by what closes them: a drain, a maintenance, the quarantine, or suspicion."""

from msgspec import Struct, field

from core.nouns.maintenance import ClosureKind, Scope


class ClosedNode(Struct):
    """Since when a source closes one node, and why."""

    at: int
    reason: str
    until_checked: bool = False
    """A passed check opens it again; what else is in quarantine waits for an operator."""


class Closure(Struct):
    """Why nothing new is placed on some nodes."""

    kind: ClosureKind
    nodes: tuple[tuple[int, int], ...]
    """As runs."""
    reason: str
    at: int
    deadline: int = 0
    """Nanoseconds from then, after which what is still there is stopped; 0: it waits for consent."""
    by: str = ""
    each: dict[int, ClosedNode] = field(default_factory=dict)
    """By node, where each has its own reason: in quarantine, or suspected."""
    scope: Scope | None = None
    """Of a drain: how its nodes were named."""
    lasts: int = 0
    """Nanoseconds from `at` after which a drain for defragmentation, or for another pool, lifts itself; 0: an operator lifts the drain."""
    key: str = ""
    """Of the request for a drain."""
    pool: str = ""
    """Of a drain for a move between pools: the pool into which each node comes as soon as it is vacant."""
