"""Nodes on which work is planned come last: whoever starts there will have to leave."""

from core.rules.placement.rule import NodePreference, Numbers, Request, Rows


class PlannedWork(NodePreference):
    """1 where work is planned, else 0."""

    name = "planned_work"

    def is_idle(self, rows: Rows) -> bool:
        """Whether no work was ever planned."""
        return not rows.has_plans

    def score(self, rows: Rows, request: Request) -> Numbers:
        """As the region's maintenances say."""
        return rows.upkeep
