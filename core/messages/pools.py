"""What operators ask a region's placement store about its pools."""

from core.messages.base import Answer, Message
from core.nouns.ids import RegionName
from core.nouns.pool import PoolSettings


class SetPool(Message, frozen=True, tag="set-pool"):
    """From now on a pool is searched by these rules, and so much of it stays free."""

    region: RegionName
    pool: str
    settings: PoolSettings
    revision: int
    """Of the region's pool settings, as the operator saw them; another one is refused as superseded."""
    by: str = ""


class PoolAnswered(Answer, frozen=True, tag="pool-answered"):
    """A pool has these settings."""

    pool: str
    settings: PoolSettings
    revision: int


MESSAGES: tuple[type[Message], ...] = (SetPool, PoolAnswered)
