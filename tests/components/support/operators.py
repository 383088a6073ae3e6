"""What operators say to a task control and its store, and where their operations stand."""

from core.messages.nodes import DrainNodes, PlanMaintenance, UndrainNodes
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.maintenance import MaintenanceKind, Scope, ScopeKind
from core.nouns.operation import OperationPhase
from tests.builders import EU
from tests.components.support.task_control import Pair

FIVE_MINUTES, IN_TEN_MINUTES = seconds(300), seconds(600)


def drain(pair: Pair, *nodes: int, deadline: int = 0) -> None:
    """An operator wants these nodes empty."""
    scope = Scope(ScopeKind.NODE, tuple(map(str, nodes)))
    revision = pair.store.state.image.maintenance.revision
    pair.hear(DrainNodes(EU, scope, "new cables", revision, deadline, "olga"))


def undrain(pair: Pair, *nodes: int) -> None:
    """And not any more."""
    scope = Scope(ScopeKind.NODE, tuple(map(str, nodes)))
    pair.hear(UndrainNodes(EU, scope, pair.store.state.image.maintenance.revision, "olga"))


def plan(
    pair: Pair,
    *nodes: int,
    kind: MaintenanceKind = MaintenanceKind.POWER,
    starts_in: Nanoseconds = IN_TEN_MINUTES,
    lead: Nanoseconds = FIVE_MINUTES,
) -> None:
    """Work on these nodes for a quarter of an hour."""
    scope = Scope(ScopeKind.NODE, tuple(map(str, nodes)))
    planned = pair.store.state.image.maintenance.planned
    pair.hear(PlanMaintenance(EU, scope, kind, starts_in, seconds(900), lead, planned, "switchboard", "olga"))


def phases(pair: Pair) -> list[OperationPhase]:
    """Of all operations of `w-1`, in order."""
    return [operation.phase for _, operation in sorted(pair.row().operations.items())]
