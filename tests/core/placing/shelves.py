"""A pool with several clusters, pods and power domains, rules of every sort, and events that happen to it at random."""

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from core.nouns.fleet import NodeGroup
from core.nouns.ids import TenantName
from core.nouns.quantities import Amount
from core.placing.index.layout import NO_NODE, RACKS_PER_POD, Layout
from core.placing.index.request_classes import RequestClass, SharedCodes
from core.placing.index.table import JOURNAL_LENGTH, NodeTable
from core.rules.placement.avoid_empty import AvoidEmpty
from core.rules.placement.best_fit import BestFit
from core.rules.placement.fullest import FullestPod, FullestRack
from core.rules.placement.gpu_type import GpuType
from core.rules.placement.plan import Plan
from core.rules.placement.planned_work import PlannedWork
from core.rules.placement.power_headroom import PowerHeadroom
from core.rules.placement.reserved_start import ReservedStart
from core.rules.placement.rule import (
    NOBODY,
    Flags,
    Level,
    NodePreference,
    NodeValidator,
    Numbers,
    Present,
    Request,
    Rows,
    UnitPreference,
)

TOTAL = Amount(8000, 64_000, 512)
GPUS = tuple(range(0, 9000, 1000))
CPUS = (2500, 8000, 64_000, 64_000, 64_000)
MEMORIES = (0, 100, 512, 512, 512)


class EmptiestCluster(UnitPreference):
    """A preference above nodes: how much of a cluster is in use."""

    name = "emptiest_cluster"
    level = Level.CLUSTER

    def score(self, free: Any, total: Any) -> Any:
        """0 of one that is empty."""
        return (total - free) * (self.steps - 1) // total


class OwnNodes(NodeValidator):
    """Nobody goes where tenant 3 is but tenant 3: reads who asks, and not what."""

    name = "own_nodes"
    traits = frozenset({"tenant"})

    def allows(self, rows: Rows, request: Request) -> Flags:
        """Whether it is another's."""
        return np.not_equal(rows.owner, 3) | (request.tenant == "t3")

    def allows_at(self, present: Present, node: int, request: Request) -> bool:
        """The same of one."""
        return present.owner(node) != 3 or request.tenant == "t3"


class NearOwn(NodePreference):
    """Nodes of one's own first."""

    name = "near_own"
    traits = frozenset({"tenant"})

    def score(self, rows: Rows, request: Request) -> Numbers:
        """0 where the tenant's own tasks are."""
        return np.not_equal(rows.owner, int(request.tenant[1:]))


class ThriftyNodes(NodeValidator):
    """Some CPUs stay: reads what is asked for."""

    name = "thrifty_nodes"
    traits = frozenset({"need"})

    def allows(self, rows: Rows, request: Request) -> Flags:
        """Whether 2 CPUs are left."""
        return np.greater_equal(rows.cpu, request.need.cpu_milli + 2000)

    def allows_at(self, present: Present, node: int, request: Request) -> bool:
        """The same of one."""
        return present.capacity.available(node).cpu_milli >= request.need.cpu_milli + 2000


PLAN = Plan((
    GpuType(),
    OwnNodes(),
    ThriftyNodes(),
    ReservedStart(),
    EmptiestCluster(4),
    PlannedWork(3),
    AvoidEmpty(2),
    NearOwn(2),
    BestFit(4),
    FullestRack(3),
    FullestPod(16),
    PowerHeadroom(8),
))  # fmt: skip


def groups(nodes: int = 1600, nodes_per_rack: int = 4) -> list[NodeGroup]:
    """Two GPU types in two zones; 16 power domains, each of them some racks here and there; the last rack is not full."""
    found, each = [], nodes // 16
    for number in range(16):
        gpu_type, zone = ("H100", "A100")[number // 8], f"zone-{number // 4 % 2}"
        racks = -(-each // nodes_per_rack)
        found.append(
            NodeGroup(
                number * each,
                each - (number % 3 == 0),
                TOTAL,
                gpu_type,
                number * racks,
                nodes_per_rack,
                zone=zone,
                power_domain=f"power-{number * 7 % 16}",
            )
        )
    return found


def request(
    gpu_milli: int = 1000, gpu_type: str = "H100", cpu_milli: int = 1000, tenant: str = "t1", memory: int = 1
) -> Request:
    """One that the rules above tell from others."""
    return Request(Amount(gpu_milli, cpu_milli, memory), gpu_type, tenant=TenantName(tenant))


REQUESTS = (
    request(1000),
    request(8000),
    request(2500, tenant="t3"),
    request(4000, "A100", 16_000, "t2"),
    request(0, "A100", 500, memory=0),
    Request(Amount(), "H100", tenant=TenantName("t3")),
    replace(request(2000), barred=(11, 12)),
)


class Engine(NamedTuple):
    """What is tried: the real one, or one with a bug planted in it."""

    table: Callable[..., NodeTable] = NodeTable
    shared: Callable[..., SharedCodes] = SharedCodes
    one: Callable[..., RequestClass] = RequestClass


REAL = Engine()
ROW_COLUMNS = ("gpu", "cpu", "memory", "is_open", "upkeep", "owner", "start")
UNIT_COLUMNS = ("racks", "pods", "domains", "clusters")
CLASS_COLUMNS = ("key", "cap", "rack_cap", "pod_cap", "pod_min", "pod_ties")


class Shelf:
    """A table, classes of it, and what may happen to them."""

    def __init__(self, engine: Engine = REAL, nodes: int = 1600) -> None:
        self.layout = Layout(groups(nodes))
        self.slots = np.flatnonzero(self.layout.node != NO_NODE)
        self.table = engine.table(self.layout, PLAN.units)
        self.rows = {name: getattr(self.table, name).copy() for name in ROW_COLUMNS}
        """The same columns, kept plainly: what the table should have."""
        self.refill(random.Random(0))
        shared: dict[Any, SharedCodes] = {}
        for asked in REQUESTS:
            for traits in PLAN.shared:
                key = (traits, *(getattr(asked, trait) for trait in sorted(traits)))
                shared.setdefault(key, engine.shared(PLAN, traits, self.table, asked))
        self.shared = shared
        self.classes = [
            engine.one(
                PLAN,
                self.table,
                asked,
                [
                    shared[traits, *(getattr(asked, trait) for trait in sorted(traits))]
                    for traits in PLAN.shared
                ],
            )
            for asked in REQUESTS
        ]

    # What may happen.

    def refill(self, dice: random.Random) -> None:
        """Every row anew."""
        count = len(self.slots)
        is_open = np.asarray(dice.choices((True, True, True, False), k=count))
        gpu, cpu, memory = (np.asarray(dice.choices(values, k=count)) for values in (GPUS, CPUS, MEMORIES))
        for name, column in zip(ROW_COLUMNS, (gpu, cpu, memory, is_open), strict=False):
            self.rows[name][self.slots] = column * is_open
        self.table.fill(self.slots, gpu, cpu, memory, is_open)

    def put(self, slot: int, gpu: int, cpu: int, memory: int, *, is_open: bool) -> None:
        """A row as it is now."""
        for name, value in zip(ROW_COLUMNS, (gpu, cpu, memory, 1), strict=False):
            self.rows[name][slot] = value if is_open else 0
        self.table.set(slot, gpu, cpu, memory, is_open=is_open)

    def put_many(self, dice: random.Random) -> None:
        """Rows of nodes here and there at once, some of them as they are."""
        rows = []
        for slot in dice.sample(self.slots.tolist(), dice.randrange(1, 40)):
            values = [int(self.rows[name][slot]) for name in ROW_COLUMNS[:4]]
            if dice.random() < 0.8:
                values[dice.randrange(3)] = dice.choice((0, 1000, 8000))
            if dice.random() < 0.1:
                values[3] = 1 - values[3]
            for name, value in zip(ROW_COLUMNS, values, strict=False):
                self.rows[name][slot] = value if values[3] else 0
            rows.append((slot, values[0], values[1], values[2], values[3]))
        self.table.set_many(rows)

    def change(self, slot: int, column: str, value: int) -> None:
        """A row in which one thing changed."""
        row = {name: int(self.rows[name][slot]) for name in ("gpu", "cpu", "memory", "is_open")}
        row[column] = value
        self.put(slot, row["gpu"], row["cpu"], row["memory"], is_open=bool(row["is_open"]))

    def set_upkeep(self, slot: int, upkeep: int) -> None:
        """Work is planned, or done."""
        self.rows["upkeep"][slot] = upkeep
        self.table.set_upkeep(slot, upkeep)

    def set_owner(self, slot: int, owner: int) -> None:
        """Somebody comes or goes."""
        self.rows["owner"][slot] = owner
        self.table.set_owner(slot, owner)

    def set_start(self, slot: int, start: int) -> None:
        """It is kept for the start of somebody, or not any more."""
        self.rows["start"][slot] = start
        self.table.set_start(slot, start)

    def storm(self, slot: int) -> None:
        """More changes than the journal has room for, all of one row."""
        for count in range(JOURNAL_LENGTH + 1):
            self.set_upkeep(slot, count % 3)

    def exchange(self, slot: int, dice: random.Random) -> None:
        """Two racks of a pod change places: what is free in the pod is what it was, and so may its sums be."""
        size, pod = self.layout.rack_slots, slot // self.layout.pod_slots * self.layout.pod_slots
        racks = [pod + size * dice.randrange(RACKS_PER_POD) for _ in range(2)]
        names = ("gpu", "cpu", "memory", "is_open")
        rows = [[[int(self.rows[name][rack + at]) for name in names] for at in range(size)] for rack in racks]
        for rack, theirs in zip(racks, reversed(rows), strict=True):
            for at, (gpu, cpu, memory, is_open) in enumerate(theirs):
                if self.layout.node[rack + at] != NO_NODE:
                    self.put(rack + at, gpu, cpu, memory, is_open=bool(is_open))

    def happen(self, dice: random.Random) -> None:
        """One event."""
        slot = int(self.slots[int(dice.random() * len(self.slots))])
        what = dice.random()
        if what < 0.45:
            self.put(
                slot,
                dice.choice(GPUS),
                dice.choice(CPUS),
                dice.choice(MEMORIES),
                is_open=dice.random() < 0.9,
            )
        elif what < 0.6:
            self.change(slot, "gpu", dice.choice(GPUS))
        elif what < 0.7:
            self.change(slot, "cpu", dice.choice((0, 2500, 3000, 64_000)))
        elif what < 0.745:
            self.change(slot, "memory", dice.choice((0, 1, 512)))
        elif what < 0.747:
            self.exchange(slot, dice)
        elif what < 0.75:
            self.put_many(dice)
        elif what < 0.8:
            self.change(slot, "is_open", dice.randrange(2))
        elif what < 0.88:
            self.set_upkeep(slot, dice.randrange(3))
        elif what < 0.9:
            self.set_start(slot, dice.choice((0, 11, 12, 13)))
        elif what < 0.9995:
            self.set_owner(slot, dice.choice((NOBODY, 1, 1, 2, 2, 3)))
        elif what < 0.9999:
            self.storm(slot)
        else:
            self.refill(dice)

    # What must hold.

    def scratch(self) -> NodeTable:
        """A table with the same rows, filled at once."""
        mine, other, at = self.rows, NodeTable(self.layout, PLAN.units), self.slots
        other.mark(mine["upkeep"], mine["owner"], mine["start"])
        gpu, cpu, memory = (mine[name][at] for name in ("gpu", "cpu", "memory"))
        other.fill(at, gpu, cpu, memory, mine["is_open"][at] > 0)
        return other

    def difference(self, some: Sequence[RequestClass] | None = None) -> str:
        """The first column of a unit or of a class that is not what it is when made from scratch; empty if there is none."""
        other = self.scratch()
        if other.gpu_free != self.table.gpu_free:
            return "gpu_free"
        for name in ROW_COLUMNS:
            if not np.array_equal(getattr(self.table, name), getattr(other, name)):
                return name
        for name in UNIT_COLUMNS:
            mine, fresh = getattr(self.table, name), getattr(other, name)
            if mine.free != fresh.free or not np.array_equal(mine.code, fresh.code):
                return name
        for one in self.classes if some is None else some:
            one.update()
            shared = [SharedCodes(PLAN, traits, other, one.request) for traits in PLAN.shared]
            fresh_one = RequestClass(PLAN, other, one.request, shared)
            fresh_one.update()
            for name in CLASS_COLUMNS:
                if not np.array_equal(getattr(one, name), getattr(fresh_one, name)):
                    return f"{name} of {one.request}"
            for mine_codes, fresh_codes in zip(one.shared, shared, strict=True):
                at = self.in_clusters(one)
                if not np.array_equal(mine_codes.code[at], fresh_codes.code[at]):
                    return f"code of {one.request}"
        return ""

    def in_clusters(self, one: RequestClass) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """The slots where a class may run at all."""
        pods = np.isin(self.layout.cluster_of_pod, one.clusters)
        return np.repeat(pods, self.layout.pod_slots)

    def run(self, seed: int, events: int) -> str:
        """So many events, with reads in between, some of which are checked; the first difference."""
        dice = random.Random(seed)
        for number in range(events):
            self.happen(dice)
            if dice.random() < 0.15:  # The first ones often after one event, the last ones after many.
                one = self.classes[int(dice.random() ** 4 * len(self.classes))]
                one.update()
                if dice.random() < 0.1 and (found := self.difference([one])):
                    return f"event {number}: {found}"
        for number in range(40):
            self.exchange(int(self.slots[dice.randrange(len(self.slots))]), dice)
            if found := self.difference():
                return f"exchange {number}: {found}"
        return self.difference()
