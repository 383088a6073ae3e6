"""The check of a pool's settings: rules, reserve and limit."""

from core.nouns.pool import PERMILLE, UNSET, PoolSettings
from core.nouns.reasons import Reason
from core.rules.headroom import Headroom
from core.rules.placement.rule_sets import problems_of_setting


def problems_with(
    settings: PoolSettings, pool: str, headroom: Headroom, known: PoolSettings = UNSET
) -> list[str]:
    """Return every problem of the settings, each with its field.

    known   the pool's settings now: nodes may have left a pool since its reserve was set
    """
    of_rules = problems_of_setting(settings.rules)
    found = [f"rules: {problem}" for problem in (of_rules[1] if of_rules else ())]
    zones = [zone for zone in headroom.zones.values() if zone.pool == pool]
    most = max((zone.nodes for zone in zones), default=0)
    if settings.reserve < 0:
        found.append("reserve: it must not be negative")
    elif zones and settings.reserve > most and settings.reserve != known.reserve:
        found.append(f"reserve: no zone of {pool} has more than {most} nodes")
    if not 0 < settings.limit <= PERMILLE:
        found.append(f"limit: it is from 1 to {PERMILLE} permille; to keep all work away, drain the pool")
    return found


def reason_of(settings: PoolSettings) -> Reason:
    """Return the reason of a refusal of such settings: problems of the rules have a reason of their own."""
    of_rules = problems_of_setting(settings.rules)
    return of_rules[0] if of_rules else Reason.INVALID
