"""What pools need, how nodes follow, and a plan of moves of nodes from pool to pool."""

from enum import StrEnum

from msgspec import Struct

from core.nouns.pool import PERMILLE

NodeRuns = tuple[tuple[int, int], ...]
"""Node numbers as runs, each by its first and its last, ascending."""
PART_AT_ONCE = PERMILLE // 10


class PoolingPolicy(Struct, frozen=True):
    """How nodes of a region may follow the needs of its pools."""

    is_automatic: bool = True
    """Whether plans are applied as they are recorded. Otherwise an operator applies them."""
    at_once: int = PART_AT_ONCE
    """Permille of the region's nodes that one plan may move, those included that wait to be vacant."""


class MoveReason(StrEnum):
    """Why a planner looked for a plan."""

    NEED = "need"
    """A need or another setting of pools changed, or a plan could not move more nodes at once."""
    HARDWARE = "hardware"
    """Nodes joined, were lost or closed, or came back."""
    WORK = "work"
    """Work of a pool was refused for room while nodes of other pools were idle."""
    TIME = "time"
    """The last plan is half an hour old."""


class NodesMove(Struct, frozen=True, array_like=True):
    """Nodes that are to move from one pool to another."""

    pool_from: str
    pool_to: str
    nodes: NodeRuns
    in_use: int = 0
    """Of these, those on which there was something: they are closed until they are vacant."""


class PoolStanding(Struct, frozen=True, array_like=True):
    """GPUs of one node type in one pool, once the moves of a plan are made. Nodes that are lost or closed do not count."""

    pool: str
    node_type: str
    needs: int
    has: int
    left: int
    """After the loss of the power domain in which it has most."""
    short: int
    """What it lacks of its needs: after that loss if it is to survive it, otherwise with all domains."""


class PoolsBasis(Struct, frozen=True):
    """What a plan was made from."""

    sequence: int = 0
    """Of the region's log."""
    revision: int = 0
    """Of the region's pool settings."""
    digest: str = ""
    """Of the region's nodes by type, power domain and pool (core/pooling/classes.py): another one is other hardware, or another plan."""
    wants: tuple[tuple[str, str], ...] = ()
    """Pools and node types for which refused work waited, ascending."""


class PoolsPlan(Struct, frozen=True):
    """Which nodes are to move, and what pools have then."""

    number: int = 0
    """Grows by one with each plan of a region; 0: there was none."""
    moves: tuple[NodesMove, ...] = ()
    standings: tuple[PoolStanding, ...] = ()
    """By pool and type, of those that have needs."""
    cost: int = 0
    """Of the moves, in thousandths of the move of an empty node."""
    bound: int = 0
    """The solver's: no answer has a lesser objective (core/pooling/problem.py), at as little shortage."""
    gap: int = 0
    """Millionths of the cost by which the objective may be above that."""
    is_bounded: bool = False
    """Whether it moves as many nodes as are allowed at once, and lessens a shortage but does not end it: another plan follows when these have
    moved."""
    why: MoveReason = MoveReason.NEED
    after: str = ""
    """The digest of its basis once the plan is applied; empty if nodes that were to move came into use meanwhile: then a plan follows at once."""
    basis: PoolsBasis = PoolsBasis()

    @property
    def nodes(self) -> int:
        """Return how many nodes are to move."""
        return sum(last - first + 1 for move in self.moves for first, last in move.nodes)
