"""A section of the queue's image: how much data regions may hold, how fast it may travel, and what plans may do."""

from msgspec import Struct, field

from core.events.data import DataPolicySet, LinkSet, StorageSet
from core.fact import Fact
from core.images.base import Section
from core.nouns.data import DEFAULT_POLICY, UNSTATED, DataPolicy
from core.nouns.ids import RegionName
from core.nouns.limits import SHIP_BYTES_PER_SECOND


class StorageRow(Struct):
    """One region's."""

    bytes: int = UNSTATED
    revision: int = 0


class LinkRow(Struct):
    """From one region to another."""

    rate: int
    """Bytes a second of all copies together."""
    revision: int


class DataSettings(Section):
    """As operators last set them."""

    FOLDS = {StorageSet: "_storage_set", LinkSet: "_link_set", DataPolicySet: "_policy_set"}

    storage: dict[RegionName, StorageRow] = field(default_factory=dict)
    links: dict[str, LinkRow] = field(default_factory=dict)
    """By `link_key`."""
    policy: DataPolicy = DEFAULT_POLICY
    policy_revision: int = 0

    def storage_of(self, region: RegionName) -> int:
        """Return the bytes of datasets that a region may hold; `UNSTATED` if no operator has said."""
        row = self.storage.get(region)
        return UNSTATED if row is None else row.bytes

    def rate_of(self, source: RegionName, target: RegionName) -> int:
        """Return the bytes a second of a link; of one that no operator set, `SHIP_BYTES_PER_SECOND`."""
        row = self.links.get(link_key(source, target))
        return SHIP_BYTES_PER_SECOND if row is None else row.rate

    def link_revision(self, source: RegionName, target: RegionName) -> int:
        """Of what is said of a link; 0: nothing is."""
        row = self.links.get(link_key(source, target))
        return 0 if row is None else row.revision

    def storage_revision(self, region: RegionName) -> int:
        """Of what is said of a region's storage; 0: nothing is."""
        row = self.storage.get(region)
        return 0 if row is None else row.revision

    def _storage_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StorageSet)
        self.storage[event.region] = StorageRow(event.bytes, event.revision)

    def _link_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, LinkSet)
        self.links[link_key(event.source, event.target)] = LinkRow(event.rate, event.revision)

    def _policy_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DataPolicySet)
        self.policy, self.policy_revision = event.policy, event.revision


def link_key(source: RegionName, target: RegionName) -> str:
    """Return the key of the link from one region to another."""
    return f"{source}>{target}"
