"""How shared pools are set, and how their shares come: an operator names a policy, a planner has it solved and tells the queue."""

from core.messages.base import Answer, Message
from core.nouns.instant import Nanoseconds
from core.nouns.sharing import PoolShares, SharingSettings


class SetPolicy(Message, frozen=True, tag="set-policy", forbid_unknown_fields=True):
    """From the next round on, shared pools go by these settings."""

    settings: SharingSettings
    revision: int
    """Of the settings, as whoever asks saw it; another one is refused as superseded."""
    by: str = ""


class PolicyAnswered(Answer, frozen=True, tag="policy-answered"):
    """These settings are set."""

    settings: SharingSettings
    revision: int


class SetShares(Message, frozen=True, tag="set-shares"):
    """From the next round on, jobs are owed these shares."""

    shares: PoolShares
    """Their revision follows on the one that they replace; of any other they are refused as superseded."""
    policy: str
    sequence: int
    """Of the queue's log, up to which the planner had read when it asked its solver."""


class SharesAnswered(Answer, frozen=True, tag="shares-answered"):
    """The queue has shares of this revision."""

    revision: int


class ShowShares(Message, frozen=True, tag="show-shares"):
    """Tell whether the planner has shares solved, and why not."""


class SharesShown(Answer, frozen=True, tag="shares-shown"):
    """The state of the planner's loop for shared pools."""

    has_solver: bool
    """Whether its installation has a solver."""
    is_solving: bool
    failures: int
    """In a row, the newest included; 0: shares were solved last, or never asked for."""
    why: str
    """Of the newest failure, a sentence; empty: there was none."""
    again_in: Nanoseconds
    """Until it looks again whether shares are to be solved; -1: once something changes."""


MESSAGES: tuple[type[Message], ...] = (
    SetPolicy,
    PolicyAnswered,
    SetShares,
    SharesAnswered,
    ShowShares,
    SharesShown,
)
