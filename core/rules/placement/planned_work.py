"""Nodes with planned work come last: a task that starts there will have to leave."""

from core.rules.placement.rule import NodePreference, Numbers, Request, Rows


class PlannedWork(NodePreference):
    """1 where work is planned, else 0."""

    name = "planned_work"
    is_about_task = True

    def is_idle(self, rows: Rows) -> bool:
        """Return whether no work was ever planned on a node."""
        return not rows.has_plans

    def score(self, rows: Rows, request: Request) -> Numbers:
        """Return 1 where a maintenance of the region includes the node, else 0."""
        return rows.upkeep
