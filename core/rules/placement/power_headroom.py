"""Power domains with much in use come last, so that nodes that fail or are throttled together are not all busy."""

from typing import Any

from core.rules.placement.rule import Level, UnitPreference


class PowerHeadroom(UnitPreference):
    """The share of a power domain in use, in steps."""

    name = "power_headroom"
    level = Level.DOMAIN

    def score(self, free: Any, total: Any) -> Any:
        """Return 0 for an empty power domain, `steps` - 1 for a full one."""
        return (total - free) * (self.steps - 1) // total
