"""The problem of which nodes belong to which pool: counts of like nodes, not nodes.

Nodes are in one class if nothing tells them apart for the problem. An answer says how many nodes of each class belong to each pool. For
each pool, node type and power domain, what the pool has without that domain is to be at least what it needs. The objectives, in order:

1. least shortage: what a pool with all its domains lacks counts `SHORT_NOW`, and what it lacks after the loss of its worst domain 1, by GPU
2. least cost of moves, less what it is worth to move idle nodes to pools with work that waits for room; and at equal cost, pools that spread
   have the least in their largest domain
"""

from msgspec import Struct

SHORT_NOW = 10
"""GPUs short after the loss of a domain that weigh as much as one GPU short already. Chosen: what lacks now comes first."""
MOVE = 1_000
"""Cost of a move of a node on which nothing is. The other costs are relative to this."""
MOVE_FROM_FREE = 999
"""The same of a node in the pool `free`: it is preferred, and fewer than a thousand such moves are never worth one move more."""
MOVE_IN_USE = 20_000
"""Cost of a move of a node in use: work must make way."""
WANT = 1_900
"""Worth of a node of mean size for work that waits for room: more than the move of an idle node, and less than that of one in use. A pool with
such work that loses a node loses as much."""
SPREAD = 500
"""Cost, were all GPUs of every type in one domain of pools that spread: less than any move."""
assert SPREAD < MOVE_FROM_FREE < MOVE < WANT < MOVE_IN_USE


class NodeClass(Struct, frozen=True, array_like=True, order=True):
    """Like nodes, all open. Types, zones, domains and pools are places in the problem's lists."""

    node_type: int
    zone: int
    domain: int
    pool: int
    """Where they are."""
    going: int
    """Where an earlier plan takes them: they are closed until they are vacant. `pool` if no plan does."""
    is_in_use: bool
    gpus: int
    """Of one node."""
    count: int

    @property
    def is_going(self) -> bool:
        """Whether they wait to be vacant for a move."""
        return self.going != self.pool


class PoolingProblem(Struct, frozen=True):
    """Of one region. Node types that no pool needs or wants are left out, and nodes that take no work."""

    pools: tuple[str, ...]
    node_types: tuple[str, ...]
    zones: tuple[str, ...]
    domains: tuple[str, ...]
    needs: tuple[tuple[int, ...], ...]
    """(pools, types) GPUs."""
    survives: tuple[bool, ...]
    """(pools,) whether it is to have what it needs without any one domain."""
    spreads: tuple[bool, ...]
    """(pools,) whether it is spread over domains."""
    wants: tuple[tuple[int, ...], ...]
    """(pools, types) GPUs that refused work waits for: so many more than the pool has are worth moving idle nodes for."""
    classes: tuple[NodeClass, ...]
    free: int = -1
    """The pool of nodes that no pool has been given; -1: there is none."""
    moves_max: int = 1 << 31
    """Nodes that may be moved, or wait to be moved, at once."""

    def cost(self, one: NodeClass, pool: int) -> int:
        """Return the cost of one node of a class in a pool. A move that has begun costs a move, and one that is called off nothing."""
        if pool == one.pool:
            return 0
        if one.is_in_use and pool != one.going:
            return MOVE_IN_USE
        return MOVE_FROM_FREE if one.pool == self.free else MOVE


class Moved(Struct, frozen=True, array_like=True):
    """So many nodes of a class are to be in a pool that they are not in now. Those that are going there are counted, too."""

    node_class: int
    """Place in the problem's classes."""
    pool: int
    count: int


class Pooled(Struct, frozen=True):
    """An answer."""

    moves: tuple[Moved, ...]
    """In the order of classes and pools; whatever is not named stays in its pool, or is called back to it."""
    cost: int
    """Of the moves, as in `PoolingProblem.cost`."""
    objective: float
    """Cost of the moves, less worth of what pools with work that waits gain, plus cost of what is in largest domains (core/pooling/figures.py)."""
    bound: float
    """No answer has a lesser objective, at this shortage."""
    gap: float
    """(objective − bound) ÷ the greater of cost and `MOVE`."""
    short_now: tuple[tuple[int, ...], ...]
    """(pools, types) GPUs that each pool lacks with all its domains, once the moves are made."""
    short: tuple[tuple[int, ...], ...]
    """(pools, types) the same, after the loss of its worst domain if it is to survive that."""
    has: tuple[tuple[int, ...], ...]
    """(pools, types) GPUs that each pool has with all its domains, once the moves are made."""
    left: tuple[tuple[int, ...], ...]
    """(pools, types) GPUs that each pool has after the loss of its worst domain, whether or not it is to survive that."""
