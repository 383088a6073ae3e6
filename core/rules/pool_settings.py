"""Whether a pool may be set so."""

from core.nouns.limits import NAME_LENGTH_MAX
from core.nouns.pool import PERMILLE, PoolSettings
from core.rules.headroom import Headroom
from core.rules.placement.rule_sets import RULE_SETS


def problems_with(settings: PoolSettings, pool: str, headroom: Headroom) -> list[str]:
    """Every one of them, each with its field."""
    found = []
    if settings.rules and settings.rules not in RULE_SETS:
        named = settings.rules[:NAME_LENGTH_MAX]
        found.append(f"rules: there is no rule set {named}; there are {', '.join(sorted(RULE_SETS))}")
    zones = [zone for zone in headroom.zones.values() if zone.pool == pool]
    most = max((zone.nodes for zone in zones), default=0)
    if settings.reserve < 0:
        found.append("reserve: it must not be negative")
    elif zones and settings.reserve > most:
        found.append(f"reserve: no zone of {pool} has more than {most} nodes")
    if not 0 < settings.limit <= PERMILLE:
        found.append(f"limit: it is from 1 to {PERMILLE} permille; to keep all work away, drain the pool")
    return found
