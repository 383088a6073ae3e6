"""Power domains of which much is in use come last: what fails or is throttled together is not all lit together."""

from typing import Any

from core.rules.placement.rule import Level, UnitPreference


class PowerHeadroom(UnitPreference):
    """How much of a power domain is in use."""

    name = "power_headroom"
    level = Level.DOMAIN

    def score(self, free: Any, total: Any) -> Any:
        """0 of one that is empty."""
        return (total - free) * (self.steps - 1) // total
