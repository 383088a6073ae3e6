"""Zones: only those that the user names, and preferably those that have the job's data."""

from core.nouns.cluster import Cluster
from core.nouns.reasons import Reason
from core.rules.placement.rule import ClusterPreference, ClusterValidator, Request


class InZones(ClusterValidator):
    """Hard: a job that names zones runs only in these."""

    name = "in_zones"
    traits = frozenset({"zones"})
    reason = Reason.WRONG_ZONE

    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Return whether the job names no zones, or names the cluster's."""
        return not request.zones or cluster.zone in request.zones


class NearData(ClusterPreference):
    """Soft: nodes in a zone that has the data come before nodes that would read from another zone."""

    name = "near_data"
    is_about_task = True
    traits = frozenset({"near"})

    def score(self, cluster: Cluster, request: Request) -> int:
        """Return 1 for a zone without the job's data, else 0; 0 if the job names no such zones."""
        return int(bool(request.near) and cluster.zone not in request.near)
