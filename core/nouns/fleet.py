"""What a region is made of: nodes in racks, pods and zones, served by workers."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.nouns.ids import WorkerName
from core.nouns.quantities import Amount

UNNUMBERED = -1
"""The first node and rack of a group that its region is to number at the join."""


CPU_TYPE = "cpu"
"""The GPU type of slots that are CPUs: a device like any other, for machines without GPUs."""
ANY_TYPE = "any"
"""Asks for whichever GPU type; no node is of it."""
_RUNS_PROGRAMS = " (real)"


def node_type_of(gpu_type: str, *, runs_programs: bool) -> str:
    """A GPU type on nodes that run programs, or on emulated ones: two sorts of hardware, never taken for each other."""
    return f"{gpu_type}{_RUNS_PROGRAMS}" if runs_programs else gpu_type


def gpu_type_of(node_type: str) -> tuple[str, bool]:
    """The GPU type that `node_type_of` was made of, and whether such nodes run programs."""
    return node_type.removesuffix(_RUNS_PROGRAMS), node_type.endswith(_RUNS_PROGRAMS)


def will_do(node_type: str, asked: Sequence[str], *, is_for_gpus: bool) -> bool:
    """Return whether nodes of a type are accepted.

    asked        accepted node types; a node type of `ANY_TYPE` accepts all types that run programs, or all that are emulated
    is_for_gpus  true if GPUs are needed: `ANY_TYPE` then accepts no CPU slots
    """
    if node_type in asked:
        return True
    gpu_type, runs_programs = gpu_type_of(node_type)
    if is_for_gpus and gpu_type == CPU_TYPE:
        return False
    return node_type_of(ANY_TYPE, runs_programs=runs_programs) in asked


class NodeGroup(Struct, frozen=True):
    """A run of like nodes that one worker serves: `count` nodes, numbered from `first`, filling racks in order.

    Nodes are numbers so that a fact names a thousand of them in a few bytes; a node's name is derived.
    """

    first: int
    count: int
    total: Amount
    gpu_type: str
    rack_first: int
    """The rack of the first node. Racks are numbered through the region, a pod's racks together, a zone's pods together."""
    nodes_per_rack: int
    zone: str = "zone-0"
    power_domain: str = ""
    """What fails together when a main switchboard does (Twine's MSB); independent of racks and zones."""
    pool: str = "training"
    """What the nodes are used for; each belongs to one pool."""
    runs_programs: bool = False
    """A machine that runs what users wrote; others are emulated: their tasks take time, checkpoint and fail."""
    gpu_memory: int = 0
    """Bytes of one GPU; 0: unknown."""
    island: int = 0
    """GPUs joined by NVLink, of one node or of several; 0: unknown."""
    into_rack: int = 0
    """How many places of its rack are before the first node: a group whose nodes were given to several pools may be split inside a rack."""

    @property
    def node_type(self) -> str:
        """What its nodes are, for jobs that look for a place."""
        return node_type_of(self.gpu_type, runs_programs=self.runs_programs)

    def numbers(self) -> range:
        """The numbers of its nodes."""
        return range(self.first, self.first + self.count)

    def rack_of(self, node: int) -> int:
        """The rack that holds this node of the group."""
        return self.rack_first + (self.into_rack + node - self.first) // self.nodes_per_rack

    def part(self, first: int, count: int, pool: str) -> "NodeGroup":
        """Return a run of its nodes as a group of its own, in a pool."""
        into_rack = (self.into_rack + first - self.first) % self.nodes_per_rack
        return replace(
            self, first=first, count=count, rack_first=self.rack_of(first), into_rack=into_rack, pool=pool
        )

    def is_followed_by(self, other: "NodeGroup") -> bool:
        """Return whether another group goes on where this one ends, so that both may be one."""
        end = self.first + self.count
        return other == self.part(end, other.count, self.pool)


class Inventory(Struct, frozen=True):
    """All that one worker serves."""

    worker: WorkerName
    groups: tuple[NodeGroup, ...]

    def numbers(self) -> list[int]:
        """The numbers of all its nodes, ascending within each group."""
        return [number for group in self.groups for number in group.numbers()]

    def ailing(self, told: tuple[tuple[int, str], ...]) -> tuple[tuple[int, str], ...]:
        """Return the ill nodes, each with its illness, as reported by their worker; `UNNUMBERED` means all that run programs.

        A machine that reports `UNNUMBERED` does not know its number: where the region's inventory is known, this is called again.
        """
        found = dict(told)
        text = found.pop(UNNUMBERED, "")
        for group in self.groups:
            if text and group.runs_programs:
                found |= dict.fromkeys((UNNUMBERED,) if group.first == UNNUMBERED else group.numbers(), text)
        return tuple(sorted(found.items()))

    def pooled(self, nodes: Sequence[tuple[int, int]], pool: str) -> "Inventory":
        """Return the inventory with those of these nodes that it has in a pool. Groups are split, and joined again where they are alike.

        nodes   runs by their first and last, ascending
        """
        found: list[NodeGroup] = []
        parts = (
            group.part(first, count, pool if is_named else group.pool)
            for group in self.groups
            for first, count, is_named in cut(group.first, group.count, nodes)
        )
        for part in parts:
            if found and found[-1].is_followed_by(part):
                found[-1] = replace(found[-1], count=found[-1].count + part.count)
            else:
                found.append(part)
        return replace(self, groups=tuple(found))


def cut(first: int, count: int, runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, bool]]:
    """Yield a run of numbers in parts, each by its first number, how many, and whether it is in one of the other runs.

    runs   by their first and last, ascending
    """
    at, end = first, first + count
    for run_first, run_last in runs[bisect_left(runs, at, key=lambda run: run[1]) :]:
        if run_first >= end:
            break
        begin, after = max(at, run_first), min(end, run_last + 1)
        if at < begin:
            yield at, begin - at, False
        yield begin, after - begin, True
        at = after
    if at < end:
        yield at, end - at, False
