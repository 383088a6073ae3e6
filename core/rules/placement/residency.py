"""Where a request's user wants it: in these zones alone; and where its data is: there rather than elsewhere."""

from core.nouns.cluster import Cluster
from core.nouns.reasons import Reason
from core.rules.placement.rule import ClusterPreference, ClusterValidator, Request


class InZones(ClusterValidator):
    """Hard: what names zones runs in none but these."""

    name = "in_zones"
    traits = frozenset({"zones"})
    reason = Reason.WRONG_ZONE

    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Whether the zone is one of them, if there are any."""
        return not request.zones or cluster.zone in request.zones


class NearData(ClusterPreference):
    """Soft: nodes in a zone that has the data before those that read it from afar."""

    name = "near_data"
    traits = frozenset({"near"})

    def score(self, cluster: Cluster, request: Request) -> int:
        """1 of a zone that has none of it."""
        return int(bool(request.near) and cluster.zone not in request.near)
