"""A section of the queue's image: the fleet's regions, how far their logs are known, and which of them are given up."""

from msgspec import field

from core.events.log import LogOpened
from core.events.queue import AttemptClosed, AwardReturned, RegionAdded, WorkloadBound
from core.events.regions import RegionAbandoned, RegionReadmitted
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import RegionName


class Regions(Section):
    """The fleet's regions, and how far each one's log is known to have come."""

    FOLDS = {
        RegionAdded: "_added",
        AwardReturned: "_cited",
        WorkloadBound: "_cited",
        AttemptClosed: "_cited",
        LogOpened: "_opened",
        RegionAbandoned: "_abandoned",
        RegionReadmitted: "_readmitted",
    }

    sequences: dict[RegionName, int] = field(default_factory=dict)
    """Of the newest fact of each region's log that a fact here rests on: a shorter log there is not the one we knew."""
    fleet: str = ""
    log_id: str = ""
    term: int = 0
    revisions: dict[RegionName, int] = field(default_factory=dict)
    """Revision of each region's abandonment or readmission; no entry: the region was never abandoned."""
    abandoned: dict[RegionName, int] = field(default_factory=dict)
    """Regions that are given up, and when they were."""

    def _added(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, RegionAdded)
        self.sequences.setdefault(event.region, 0)

    def _cited(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AwardReturned | WorkloadBound | AttemptClosed)
        self.sequences[event.region] = max(self.sequences[event.region], event.region_sequence)

    def _opened(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, LogOpened)
        self.fleet, self.log_id, self.term = event.fleet, event.log_id, event.term

    def _abandoned(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, RegionAbandoned)
        self.revisions[event.region] = event.revision
        self.abandoned[event.region] = fact.at

    def _readmitted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, RegionReadmitted)
        self.revisions[event.region] = event.revision
        self.abandoned.pop(event.region, None)
