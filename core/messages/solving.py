"""How a planner hears from its solver: notices of its host, which never cross the bus."""

from msgspec import Struct

from core.messages.base import Notice


class Solved(Notice, frozen=True, tag="solved"):
    """The solver has the answer to a problem."""

    concern: str
    key: str
    revision: int
    """As in `Solve`: of the recorded answer that this one is to replace."""
    answer: Struct


class Unsolved(Notice, frozen=True, tag="unsolved"):
    """The solver has no answer to a problem."""

    concern: str
    key: str
    revision: int
    why: str
    """A sentence."""
    is_for_good: bool = False
    """Whether asking again is of no use: there is no solver in this process."""
