"""Where a request's data is, or where its user wants it: in these zones alone, or there rather than elsewhere."""

from core.nouns.reasons import Reason
from core.placing.layout import Cluster
from core.rules.placement.rule import ClusterPreference, ClusterValidator, Request


class InZones(ClusterValidator):
    """Hard: what must be near runs in none but its zones."""

    name = "in_zones"
    traits = frozenset({"zones", "must_be_near"})
    reason = Reason.WRONG_ZONE

    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Whether the zone is one of them, if it must be."""
        return not request.must_be_near or cluster.zone in request.zones


class NearData(ClusterPreference):
    """Soft: nodes in a zone that has the data before those that read it from afar."""

    name = "near_data"
    traits = frozenset({"zones"})

    def score(self, cluster: Cluster, request: Request) -> int:
        """1 of a zone that has none of it."""
        return int(bool(request.zones) and cluster.zone not in request.zones)
