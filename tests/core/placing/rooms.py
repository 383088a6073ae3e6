"""Small pools in which one rule decides, and who is picked there."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from core.events.region import NodesJoined
from core.fact import Event
from core.images.capacity import Capacity
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import TenantName, WorkerName
from core.nouns.workload import JobSpec, Kind
from core.placing.index.overlay import Overlay
from core.placing.index.table import NodeTable
from core.placing.pick.nodes import Choice
from core.placing.placer import Placer
from core.placing.pool_set import Asker
from core.rules.placement.plan import Plan
from core.rules.placement.rule import Request, Rule
from core.rules.placement.rule_sets import LASTING, PASSING
from tests.builders import NODE, a_claim, a_job, a_region, amount, granted

SEEDS = range(20)


def a_group(first: int, count: int = 1, **parts: Any) -> NodeGroup:  # Any: fields of a group
    """Nodes of eight GPUs, each in a rack of its own that has its number, unless told otherwise."""
    asked = {"total": NODE, "gpu_type": "H100", "rack_first": first, "nodes_per_rack": 1, **parts}
    return NodeGroup(first, count, **asked)


def here(*groups: NodeGroup) -> NodesJoined:
    """The fact that one worker serves these."""
    return NodesJoined(WorkerName("w0"), Inventory(WorkerName("w0"), groups))


def used(node: int, gpus: float, workload: str = "", *, tenant: str = "ml", is_alone: bool = False) -> Event:
    """Somebody holds so many GPUs of a node."""
    claim = a_claim(workload or f"w-{node}", placed={node: 1}, gpus=gpus, kind=Kind.BATCH)
    jobs = tuple(alone(job) for job in claim.jobs) if is_alone else claim.jobs
    return granted(replace(claim, tenant=TenantName(tenant), jobs=jobs))


def alone(job: JobSpec) -> JobSpec:
    """The same, sharing its nodes with no other tenant."""
    return replace(job, is_alone=True)


def request(gpus: float = 1, **parts: Any) -> Request:  # Any: fields of a request
    """For one task."""
    return Request(
        **{"need": amount(gpus), "node_type": a_job().node_types[0], "tenant": TenantName("me"), **parts}
    )


def hard_and(*rules: Rule) -> Plan:
    """A set of all hard rules and these."""
    return Plan((*LASTING, *PASSING, *rules))


def placer_by(plan: Plan, capacity: Capacity) -> Placer:
    """A region that is searched by these rules, by somebody who knows who is where."""
    placer = Placer(capacity, Overlay(), lambda _: plan)
    placer.find((alone(a_job(1, 99)),), Asker(), Choice("nobody"))
    placer.refresh()
    return placer


def picked(
    plan: Plan,
    events: Iterable[Event],
    wanted: Request,
    prepare: Callable[[NodeTable], None] = lambda _: None,
) -> set[int]:
    """The nodes that one task is given by any of many draws; none when there is no place."""
    pools = placer_by(plan, a_region(*events).capacity).pools
    for pool in pools.by_name.values():
        prepare(pool.table)
    found = set()
    for seed in SEEDS:
        for pool in pools.pools_for(wanted):
            placed = pool.place(wanted, 1, Choice(f"w-{seed}"))
            if placed is not None:
                found.add(int(pool.layout.node[placed[0][0]]))
                break
    return found
