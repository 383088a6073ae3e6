"""What operators say to a store about its nodes, and how to read what it decided about tasks."""

from typing import Any

from core.component import Decision
from core.events.control import OperationsBegun
from core.fact import Event
from core.messages.base import Refused
from core.messages.nodes import DrainNodes, MoveMaintenance, PlanMaintenance, UndrainNodes
from core.nouns.instant import seconds
from core.nouns.maintenance import MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.operation import ControlSpec, OperationKind
from core.nouns.reasons import Reason
from tests.builders import EU
from tests.components.support.machine import Machine
from tests.matching import facts, said_once

RESTART, MOVE, UPDATE = OperationKind.RESTART, OperationKind.MOVE, OperationKind.UPDATE
START, STOP = OperationKind.START, OperationKind.STOP
ALONE = ControlSpec(unavailable_max=1)
"""Nobody is asked, and one of its tasks may be unavailable."""


def kinds(decision: Decision) -> list[type[Event]]:
    """What sorts of facts are recorded."""
    return [type(event) for event in facts(decision)]


def begun(decision: Decision) -> list[int]:
    """Which operations begin."""
    return [n for event in facts(decision) if isinstance(event, OperationsBegun) for n in event.operations]


def why_not(decision: Decision) -> Reason:
    """Why a request was refused."""
    return Reason(said_once(decision, Refused).reason)


def drain(machine: Machine[Any], *nodes: int, deadline: int = 0) -> Decision:
    """An operator wants these nodes empty."""
    scope = Scope(ScopeKind.NODE, tuple(map(str, nodes)))
    revision = machine.state.image.maintenance.revision
    return machine.hear(DrainNodes(EU, scope, "new cables", revision, deadline, "olga"))


def undrain(machine: Machine[Any], *nodes: int) -> Decision:
    """And not any more."""
    scope = Scope(ScopeKind.NODE, tuple(map(str, nodes)))
    return machine.hear(UndrainNodes(EU, scope, machine.state.image.maintenance.revision, "olga"))


def plan(
    machine: Machine[Any], *nodes: int, kind: MaintenanceKind = MaintenanceKind.POWER, starts_in: float = 60
) -> str:
    """Work on these nodes, of which notice is given at once. Returns its name."""
    planned = machine.state.image.maintenance.planned
    scope = Scope(ScopeKind.NODE, tuple(map(str, nodes)))
    span = seconds(starts_in)
    machine.hear(PlanMaintenance(EU, scope, kind, span, seconds(60), span, planned, "switchboard", "olga"))
    name = f"m-{planned + 1}"
    machine.hear(MoveMaintenance(EU, name, MaintenancePhase.NOTICED))
    return name
