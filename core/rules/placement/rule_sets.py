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


def plan_of(_: str) -> Plan:
    """What a pool of this name is searched by if nothing else is set for it."""
    return PLAIN
