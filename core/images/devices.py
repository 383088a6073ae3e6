"""Of nodes on which parts of devices are held: which devices are shared, how much of each is held, and how much promised.

Kept for such nodes alone. Whole devices have no numbers: as many of a node are free as its free GPU milli come to, without
what is free on shared ones.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from core.device_shares import device_for, part_of
from core.nouns.operation import TaskMove, job_and_rank, task_number
from core.nouns.placement import Claim, nodes_of_ranks
from core.nouns.quantities import MILLI


class SharedNode(Struct):
    """One node's shared devices, by number."""

    used: dict[int, int] = field(default_factory=dict)
    """Milli held or ending."""
    promised: dict[int, int] = field(default_factory=dict)
    """Milli promised, of those that are free."""

    def free(self) -> dict[int, int]:
        """Milli on each, neither held nor promised."""
        promised = self.promised
        return {device: max(0, MILLI - used - promised.get(device, 0)) for device, used in self.used.items()}


class SharedDevices(Struct):
    """All of a region's."""

    by_node: dict[int, SharedNode] = field(default_factory=dict)

    def free(self, node: int) -> dict[int, int]:
        """Milli on each of a node's shared devices, neither held nor promised."""
        known = self.by_node.get(node)
        return known.free() if known is not None else {}

    def free_if_kept(self, node: int) -> dict[int, int]:
        """The same, with what is promised."""
        known = self.by_node.get(node)
        return {device: MILLI - used for device, used in known.used.items()} if known is not None else {}

    def put(self, node: int, part: int) -> int:
        """A part is held there. Returns on which device: the fullest that holds it, or a new one."""
        known = self.by_node.setdefault(node, SharedNode())
        device = device_for(known.free(), part)
        known.used[device] = known.used.get(device, 0) + part
        return device

    def remove(self, node: int, device: int, part: int) -> None:
        """A part is not held any more."""
        known = self.by_node[node]
        known.used[device] -= part
        if not known.used[device]:
            del known.used[device]
            known.promised.pop(device, None)
        self._tidy(node, known)

    # What an attempt has of them: by task that needs a part, its node and the number of the device.

    def place(
        self, claim: Claim, parts: dict[int, tuple[int, int]], tasks: Iterable[int], is_lost: Sequence[bool]
    ) -> None:
        """These tasks get devices on the nodes where they are, the largest first; on a lost node not yet."""
        for task in sorted(tasks, key=lambda task: (-part_of_task(claim, task), task)):
            node = parts[task][0]
            if not is_lost[node]:
                parts[task] = node, self.put(node, part_of_task(claim, task))

    def move(
        self,
        claim: Claim,
        parts: dict[int, tuple[int, int]],
        moves: Iterable[TaskMove],
        is_lost: Sequence[bool],
    ) -> None:
        """Some tasks left their nodes, and some came to others."""
        mine = [move for move in moves if move.node_from != move.node_to and part_of_task(claim, move.task)]
        self.leave(claim, {move.task: parts.pop(move.task) for move in mine if move.task in parts}, is_lost)
        arrived = {move.task: (move.node_to, -1) for move in mine if move.node_to >= 0}
        parts.update(arrived)
        self.place(claim, parts, arrived, is_lost)

    def leave(self, claim: Claim, parts: Mapping[int, tuple[int, int]], is_lost: Sequence[bool]) -> None:
        """These tasks hold nothing any more."""
        for task, (node, device) in parts.items():
            if not is_lost[node]:
                self.remove(node, device, part_of_task(claim, task))

    def lose(self, nodes: Iterable[int]) -> None:
        """Nothing is held on these."""
        for node in nodes:
            self.by_node.pop(node, None)

    def promise(self, node: int, more: Mapping[int, int]) -> None:
        """This much more of its shared devices is promised."""
        known = self.by_node.get(node)
        if known is not None:
            for device, milli in more.items():
                known.promised[device] = known.promised.get(device, 0) + milli

    def promise_nothing(self, node: int) -> None:
        """Of its shared devices nothing is promised any more."""
        known = self.by_node.get(node)
        if known is not None:
            known.promised = {}

    def _tidy(self, node: int, known: SharedNode) -> None:
        if not known.used:
            del self.by_node[node]


def tasks_with_parts(claim: Claim) -> dict[int, tuple[int, int]]:
    """Its tasks that need a part of a device, each on its node and on no device yet."""
    return {
        task_number(number, rank): (node, -1)
        for number, (job, spread) in enumerate(zip(claim.jobs, claim.spreads, strict=True))
        if part_of(job.need.gpu_milli)
        for rank, node in enumerate(nodes_of_ranks(spread))
    }


def part_of_task(claim: Claim, task: int) -> int:
    """What a task needs of one device beside whole ones."""
    return part_of(claim.jobs[job_and_rank(task)[0]].need.gpu_milli)
