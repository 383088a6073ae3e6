"""What operators ask the job queue about whole regions, and its answers."""

from msgspec import Struct

from core.messages.base import Answer, Message
from core.nouns.ids import RegionName
from core.nouns.instant import Nanoseconds


class AbandonRegion(Message, frozen=True, tag="abandon-region", forbid_unknown_fields=True):
    """Give a region up: what was awarded there goes on elsewhere, although it may still run there. Nothing more is placed there."""

    region: RegionName
    revision: int
    """Of the region, as the operator saw it; another one is refused as superseded."""
    is_forced: bool = False
    """Also if the region answers."""
    by: str = ""


class ReadmitRegion(Message, frozen=True, tag="readmit-region", forbid_unknown_fields=True):
    """Have work placed in a region again that was given up."""

    region: RegionName
    revision: int
    by: str = ""


class RegionAnswered(Answer, frozen=True, tag="region-answered"):
    """It is so, from this revision on."""

    region: RegionName
    revision: int


class ListRegions(Message, frozen=True, tag="list-regions", forbid_unknown_fields=True):
    """Tell which regions there are, and which of them answer."""


class ListedRegion(Struct, frozen=True):
    """One region in a list."""

    region: RegionName
    is_known: bool
    """Whether its log was ever read since the queue started."""
    silent_for: Nanoseconds
    """Since when it is not heard; -1: it is."""
    is_abandoned: bool
    revision: int
    nodes: int
    """As its log was last known."""
    awards: int
    """That stand there."""
    left_behind: int
    """Attempts that were given up there, and may still run."""


class RegionsListed(Answer, frozen=True, tag="regions-listed"):
    """All of them, by name."""

    rows: tuple[ListedRegion, ...]


MESSAGES: tuple[type[Message], ...] = (
    AbandonRegion,
    ReadmitRegion,
    RegionAnswered,
    ListRegions,
    RegionsListed,
)
