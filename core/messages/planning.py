"""What operators ask the planner: whether the problems of a concern are solved, and why not."""

from core.messages.base import Answer, Message
from core.nouns.instant import Nanoseconds


class ShowConcern(Message, frozen=True, tag="show-concern", forbid_unknown_fields=True):
    """Tell whether the planner has a concern's newest problem solved, and why not. A concern that there is not was never solved."""

    concern: str
    """As components/planner/concerns/ names it."""
    key: str = ""
    """Of the concern's keys; most have one alone, the empty one."""


class ConcernShown(Answer, frozen=True, tag="concern-shown"):
    """The state of one key of a concern."""

    has_solver: bool
    """Whether the planner's installation has a solver."""
    is_solving: bool
    failures: int
    """In a row, the newest included; 0: the last problem was solved, or there was none."""
    why: str
    """Of the newest failure, a sentence; empty: there was none."""
    again_in: Nanoseconds
    """Until it looks again whether there is something to solve; -1: once something changes."""


MESSAGES: tuple[type[Message], ...] = (ShowConcern, ConcernShown)
