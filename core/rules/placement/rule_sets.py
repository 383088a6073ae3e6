"""Rule sets: the rules by which a pool is searched, their order and their steps. A setting of the pool names the set.

A rule is one file, and one line in `RULES`. A set lists rules by name, preferences with their steps: `best_fit:8`.

Clusters of one type are compared before nodes: the fullest zone first. Then nodes are compared, by these rules in order:
  planned_work     a task that starts there will have to leave, which outweighs all later rules
  near_data        reading from another zone lasts as long as the task does
  priced_value     in `default`: values the remainder, whole nodes, shared devices, cores and GPU types at once, and so finely
                   that later rules decide only among nodes that are alike
  avoid_empty      large gangs wait for whole nodes, and a node once broken into stays so for long
  shared_devices   a device once broken into serves no task of whole devices; applies to parts of devices only
  best_fit         by the GPU
  islands          after the fit: a remainder is lost to all work, a broken island only to tasks that need the island whole
  fullest_rack,    racks and pods are kept whole for gangs
  fullest_pod
  power_headroom   last, because the rule is a precaution and not a cost
That is 17 bits of 31 in `plain`, and 27 in `default`. docs/decisions/0020-priced-value.md gives the reason for the place of
priced value.
"""

from collections.abc import Sequence
from functools import lru_cache

from core.nouns.limits import RULES_LENGTH_MAX
from core.nouns.prices import NO_PRICES, Prices
from core.nouns.reasons import Reason
from core.rules.placement.avoid_empty import AvoidEmpty
from core.rules.placement.best_fit import BestFit
from core.rules.placement.best_fit_published import BestFitPublished
from core.rules.placement.by_name import ByName
from core.rules.placement.capacity import Capacity
from core.rules.placement.errors import BadRuleSet
from core.rules.placement.fgd import Fgd
from core.rules.placement.fragmentation import Fragmentation
from core.rules.placement.fullest import FullestPod, FullestRack, FullestZone
from core.rules.placement.gpu_memory import GpuMemory
from core.rules.placement.gpu_type import GpuType
from core.rules.placement.islands import Islands
from core.rules.placement.open_node import OpenNode
from core.rules.placement.plan import Plan
from core.rules.placement.planned_work import PlannedWork
from core.rules.placement.pool import Pool
from core.rules.placement.power_headroom import PowerHeadroom
from core.rules.placement.priced_value import PricedValue
from core.rules.placement.reserved_start import ReservedStart
from core.rules.placement.residency import InZones, NearData
from core.rules.placement.rule import ClusterValidator, NodeValidator, Preference, Rule
from core.rules.placement.shared_devices import SharedDevices
from core.rules.placement.tenant_isolation import TenantIsolation

RULES: dict[str, type[Rule]] = {
    rule.name: rule
    for rule in (
        AvoidEmpty,
        BestFit,
        BestFitPublished,
        ByName,
        Capacity,
        Fgd,
        Fragmentation,
        FullestPod,
        FullestRack,
        FullestZone,
        GpuMemory,
        GpuType,
        InZones,
        Islands,
        NearData,
        OpenNode,
        PlannedWork,
        Pool,
        PowerHeadroom,
        PricedValue,
        ReservedStart,
        SharedDevices,
        TenantIsolation,
    )
}
LASTING: tuple[ClusterValidator, ...] = (GpuType(), GpuMemory(), Capacity(), Pool(), InZones())
"""Hard rules with answers that time does not change."""
PASSING: tuple[NodeValidator, ...] = (OpenNode(), TenantIsolation(), ReservedStart())
"""Hard rules on the present state of a node."""
HARD: tuple[str, ...] = tuple(rule.name for rule in (*LASTING, *PASSING))
"""Names of the hard rules, which are part of every set: a store re-checks them all."""
STEPS_MAX = 1 << 16
SHOWN_MAX = 40
"""Characters shown of an unknown name."""

PLAIN_RULES = (
    "fullest_zone:4",
    "planned_work:2",
    "near_data:2",
    "avoid_empty:2",
    "shared_devices:2",
    "best_fit:8",
    "islands:2",
    "fullest_rack:16",
    "fullest_pod:8",
    "power_headroom:4",
)
DEFAULT_RULES = (
    "fullest_zone:4",
    "planned_work:2",
    "near_data:2",
    "priced_value:16384",
    "avoid_empty:2",
    "shared_devices:2",
    "best_fit:8",
    "islands:2",
    "fullest_rack:4",
    "fullest_pod:4",
    "power_headroom:2",
)
BEST_FIT_PUBLISHED_RULES = ("best_fit_published:101", "by_name")
FGD_RULES = ("fgd:101", "by_name")
"""Sets as published: one score of whole numbers from 0 to 100, and ties by name."""


def plan_of(names: Sequence[str]) -> Plan:
    """Return a set prepared for use, with all hard rules. Raises BadRuleSet."""
    rules, _, problems = _read(names)
    if problems:
        raise BadRuleSet(problems)
    return Plan((*LASTING, *PASSING, *rules))


def _read(names: Sequence[str]) -> tuple[list[Rule], list[str], list[str]]:
    """Return the rules, the names that no rule has, and all problems."""
    rules: list[Rule] = []
    unknown: list[str] = []
    problems: list[str] = []
    for text in names:
        name, _, steps = text.partition(":")
        if name not in RULES:
            unknown.append(name)
            soft = ", ".join(sorted(RULES.keys() - set(HARD)))
            problems.append(f"{name[:SHOWN_MAX]}: there is no rule of this name; there are {soft}")
        elif name in HARD:
            problems.append(f"{name}: it is a hard rule, which every set has")
        elif any(rule.name == name for rule in rules):
            problems.append(f"{name}: it is named twice")
        elif not issubclass(RULES[name], Preference):
            problems += [f"{name}: it has no steps"] if steps else []
            rules += [] if steps else [RULES[name]()]
        elif not (steps.isascii() and steps.isdigit() and 1 <= int(steps[:9]) <= STEPS_MAX):
            problems.append(f"{name}: say its steps, 1 (off) to {STEPS_MAX}, as in {name}:4")
        else:
            rules.append(RULES[name](int(steps)))  # type: ignore[call-arg]  # Preferences take their steps.
    too_long = Plan.problem_of(rules)
    return rules, unknown, [*problems, *([too_long] if too_long else [])]


PLAIN, DEFAULT = plan_of(PLAIN_RULES), plan_of(DEFAULT_RULES)
RULE_SETS = {
    "plain": PLAIN,
    "default": DEFAULT,
    "best_fit_published": plan_of(BEST_FIT_PUBLISHED_RULES),
    "fgd": plan_of(FGD_RULES),
}


# Rule sets as settings name them.


def problems_of_setting(text: str) -> tuple[Reason, tuple[str, ...]] | None:
    """Return why a pool cannot be searched by this setting: the reason and all problems; None if the setting is valid.

    text      the name of a set, or rules by comma, as in `best_fit:8,islands:2,fragmentation`; empty: not set
    """
    if not text or text in RULE_SETS:
        return None
    if len(text) > RULES_LENGTH_MAX:
        return Reason.BAD_RULE_SET, (f"{len(text)} characters; {RULES_LENGTH_MAX} are the most",)
    names = _names_in(text)
    if len(names) > len(RULES):
        return Reason.BAD_RULE_SET, (f"it names {len(names)} rules, and there are {len(RULES)}",)
    _, unknown, problems = _read(names)
    if unknown == [text]:
        sets = ", ".join(sorted(RULE_SETS))
        problems.append(f"{text[:SHOWN_MAX]}: there is no set of this name either; there are {sets}")
    if not problems:
        return None
    return Reason.UNKNOWN_RULE if unknown else Reason.BAD_RULE_SET, tuple(problems)


def rule_set_name(text: str) -> str:
    """Return the setting, or `default` if the setting is empty or names rules that this build does not know (any more)."""
    return text if _plan_by(text) is not None else "default"


def rule_set(text: str, prices: Prices = NO_PRICES) -> Plan:
    """Return the plan for a setting: the same object each time, because another one would discard all classes of the pool.

    prices   prices of the region
    """
    plan = _plan_by(text) or DEFAULT
    if not prices or not any(rule.reads_prices for rule in plan.rules):
        return plan
    return _plan_at(text if _plan_by(text) else "", prices)


@lru_cache(maxsize=16)
def _plan_at(text: str, prices: Prices) -> Plan:
    """Return the plan with these prices. Few are kept: each set of tables takes about a megabyte."""
    return Plan([rule.knowing(prices) for rule in rule_set(text).rules])


@lru_cache(maxsize=64)
def _plan_by(text: str) -> Plan | None:
    """Return the plan of a named set or of listed rules; None if the setting is empty or invalid."""
    if not text or text in RULE_SETS:
        return RULE_SETS.get(text)
    return None if problems_of_setting(text) else plan_of(_names_in(text))


def _names_in(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
