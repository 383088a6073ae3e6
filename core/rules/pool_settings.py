"""The check of a pool's settings: rules, reserve and limit."""

from core.nouns.harvest import GRACE_MAX, HarvestSettings
from core.nouns.instant import SECOND
from core.nouns.limits import NUMBER_MAX
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
    if not 0 <= settings.price <= NUMBER_MAX:
        found.append("price: it must not be negative")
    return found + [f"harvest.{problem}" for problem in _problems_of_harvest(settings.harvest)]


def _problems_of_harvest(harvest: HarvestSettings | None) -> list[str]:
    if harvest is None:
        return []
    found = []
    if not 0 < harvest.grace <= GRACE_MAX:
        found.append(
            f"grace: it must be more than 0, and {GRACE_MAX // SECOND} s at most, for granted work has to start in time"
        )
    if not 0 <= harvest.keep <= NUMBER_MAX:
        found.append("keep: it must not be negative")
    if not 0 <= harvest.after <= NUMBER_MAX:
        found.append("after: it must not be negative")
    if not 0 <= harvest.price <= NUMBER_MAX:
        found.append("price: it must not be negative")
    return found


def reason_of(settings: PoolSettings) -> Reason:
    """Return the reason of a refusal of such settings: problems of the rules have a reason of their own."""
    of_rules = problems_of_setting(settings.rules)
    return of_rules[0] if of_rules else Reason.INVALID
