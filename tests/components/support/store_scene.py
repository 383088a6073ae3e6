"""The part of a store's little life in which nodes are worked on and a service's tasks are touched."""

from typing import Any

from msgspec.structs import replace

from core.messages.agents import SetAgents
from core.messages.control import (
    ChangeAttempt,
    ExpireAcks,
    FinishOperations,
    ForgetControl,
    MarkStuck,
)
from core.messages.functions import CountFunctions
from core.messages.nodes import (
    CancelMaintenance,
    CloseNodes,
    DrainNodes,
    LiftDrain,
    MoveMaintenance,
    OpenNodes,
    PlanMaintenance,
    RecordDomainLoss,
    ReleaseNodes,
    UndrainNodes,
)
from core.messages.pools import ApplyPools, SetPool, SetPoolingPolicy, SetPoolsPlan
from core.messages.preemption import SetPreemption
from core.messages.store import RecordJoin, RecordReturn
from core.nouns.agents import AgentSettings
from core.nouns.function import FunctionCount
from core.nouns.ids import FunctionId, WorkerName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import ACK_LEASE, CONTROL_RETENTION, STUCK_SPAN
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.operation import OperationKind, Outcome
from core.nouns.pool import PoolSettings
from core.nouns.pooling import PoolingPolicy
from core.nouns.preemption import PreemptionSettings
from core.nouns.workload import EndCause
from tests.builders import EU, EU_LOG, an_inventory, attempt
from tests.components.support.machine import Machine
from tests.components.support.placement_store import (
    agreed,
    begin,
    consent,
    end,
    fail,
    gone,
    operate,
    revise,
    serve,
    up,
)
from tests.components.support.pool_plans import a_plan

NODE_0 = Scope(ScopeKind.NODE, ("0",))
W9 = WorkerName("w9")


def nodes_are_worked_on(machine: Machine[Any]) -> None:
    """Drained, planned for, suspected, in quarantine, lost together, and well again."""
    machine.hear(RecordJoin(EU, an_inventory("w9", 8, 2)))
    machine.hear(SetPool(EU, "training", PoolSettings("plain", reserve=1, limit=900), 0, "olga"))
    machine.hear(SetPool(EU, "training", PoolSettings(), 1, "olga"))
    machine.hear(SetPoolingPolicy(EU, PoolingPolicy(is_automatic=False, at_once=500), 2, "olga"))
    machine.hear(SetPoolsPlan(EU, a_plan(machine, {8: "service"}), "planner"))
    machine.hear(ApplyPools(EU, 1, "olga"))
    machine.hear(SetAgents(EU, AgentSettings("parsync"), 4, 0, "olga"))
    machine.hear(SetAgents(EU, AgentSettings(), 4, 1, "olga"))
    counts = (FunctionCount(FunctionId("ml/score/0123abcd"), 5, ran=seconds(1)),)
    machine.hear(CountFunctions(EU, "r0", "router-1", 1, seconds(60), counts))
    machine.hear(SetPreemption(EU, PreemptionSettings(claim_max=9), 0, "olga"))
    machine.hear(SetPreemption(EU, PreemptionSettings(), 1, "olga"))
    machine.hear(DrainNodes(EU, NODE_0, "its fan rattles", 0, 0, "olga"))
    machine.hear(UndrainNodes(EU, NODE_0, 1, "olga"))
    free = Scope(ScopeKind.NODE, ("9",))
    machine.hear(DrainNodes(EU, free, "to free nodes", 2, 0, "olga", lasts=seconds(60)))
    machine.hear(LiftDrain(EU, "d-2"))
    for number in range(2):
        span = seconds(60)
        planned = PlanMaintenance(
            EU, NODE_0, MaintenanceKind.REBOOT, span, span, span, number, "kernel", "olga"
        )
        machine.hear(planned)
    machine.hear(MoveMaintenance(EU, "m-1", MaintenancePhase.NOTICED))
    machine.hear(CancelMaintenance(EU, "m-1", "not today", "olga"))
    machine.hear(CancelMaintenance(EU, "m-2", "not today", "olga"))
    for kind in (ClosureKind.SUSPECT, ClosureKind.QUARANTINE):
        seen = machine.sequence(EU_LOG)
        machine.hear(CloseNodes(EU, kind, (0, 1), "missed beats", sequence=seen))
    machine.hear(OpenNodes(EU, ClosureKind.SUSPECT, (0, 1), "heard", machine.sequence(EU_LOG)))
    machine.hear(
        ReleaseNodes(EU, Scope(ScopeKind.RACK, ("0",)), "looked at", "olga", machine.sequence(EU_LOG))
    )
    machine.hear(RecordDomainLoss(EU, "power-1", (W9,), machine.sequence(EU_LOG)))
    machine.hear(RecordReturn(EU, W9, machine.sequence(EU_LOG)))


def a_service_is_touched(machine: Machine[Any]) -> None:
    """One task restarts, one moves, one fails, an ack grows stale, an operation takes long; then all of it ends."""
    name = "w-5"
    key = attempt(name)
    claim = serve(machine, workload=name)
    agreed(machine, OperationKind.RESTART, 0, workload=name)
    machine.wait(Nanoseconds(STUCK_SPAN))
    machine.hear(MarkStuck(EU, *key, (1,)))
    gone(machine, 0, workload=name)
    revise(machine, (0, 0, 0), agent="", workload=name)
    up(machine, 0, workload=name)
    operate(machine, OperationKind.MOVE, 1, workload=name)
    consent(machine, 2, workload=name)
    machine.wait(Nanoseconds(ACK_LEASE))
    machine.hear(ExpireAcks(EU, *key, (2,)))
    machine.hear(FinishOperations(EU, *key, (2,), Outcome.WITHDRAWN))
    fail(machine, 2, workload=name)
    agreed(machine, OperationKind.START, 2, workload=name)
    revise(machine, (2, 1, 3), workload=name)
    begin(machine, 3, workload=name)
    job = replace(claim.jobs[0], tasks=5)
    machine.hear(ChangeAttempt(EU, *key, 1, (job,)))
    end(machine, name, EndCause.CANCELLED)
    machine.wait(Nanoseconds(CONTROL_RETENTION))
    machine.hear(ForgetControl(EU, *key))
