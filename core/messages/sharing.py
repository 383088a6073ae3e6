"""How shared pools are set, and how their shares come: an operator names a policy, a planner has it solved and tells the queue."""

from core.messages.base import Answer, Message
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


MESSAGES: tuple[type[Message], ...] = (
    SetPolicy,
    PolicyAnswered,
    SetShares,
    SharesAnswered,
)
