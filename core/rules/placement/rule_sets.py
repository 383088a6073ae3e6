"""Rule sets by name: which rules, in which order, each with its steps. A setting says which one a pool has."""

from core.placing.classes import Plan
from core.rules.placement.avoid_empty import AvoidEmpty
from core.rules.placement.best_fit import BestFit
from core.rules.placement.fullest import FullestPod, FullestRack
from core.rules.placement.gpu_type import GpuType
from core.rules.placement.planned_work import PlannedWork
from core.rules.placement.power_headroom import PowerHeadroom

PLAIN = Plan((
    GpuType(),
    PlannedWork(2),
    AvoidEmpty(2),
    BestFit(8),
    FullestRack(16),
    FullestPod(8),
    PowerHeadroom(4),
))  # fmt: skip
RULE_SETS = {"plain": PLAIN}


def rule_set_name(name: str) -> str:
    """The same; of none, or of one that this build does not have any more, the one that pools have unasked."""
    return name if name in RULE_SETS else "default" if "default" in RULE_SETS else "plain"


def rule_set(name: str) -> Plan:
    """The rule set of that name."""
    return RULE_SETS[rule_set_name(name)]
