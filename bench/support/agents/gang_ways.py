"""Other ways to keep gangs of different agents apart, to measure beside the shipped one, which looks at an agent's own pods first.

    LeastLoadedPod   the pod with the most capacity for the gang comes first
    AmongTheBest     the unit is drawn among the 64 tightest ones that hold the gang (Protean's N0)

Both choose for gangs that no owned rack holds; tasks on one node, and gangs in an owned rack, are placed as ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from msgspec.structs import replace

import core.placing.pool
from core.nouns.workload import Extent
from core.placing.index.request_classes import RequestClass
from core.placing.pick.draw import drawn
from core.placing.pick.nodes import Choice, Picker, Placed, best_of
from core.rules.placement.rule import Numbers

N0 = 64


class LeastLoadedPod(Picker):
    """A pod with much capacity is further from full, so that another agent's claim there leaves room."""

    def place(
        self,
        one: RequestClass,
        tasks: int,
        choice: Choice,
        pack: Extent = Extent.ANY,
        spread: Extent = Extent.ANY,
    ) -> Placed | None:
        """As `Picker.place`, with that pod as the own one."""
        if choice.partition < 0 and len(one.pod_cap):
            choice = replace(choice, stripe=int(one.pod_cap.argmax()), stripes=max(2, len(one.pod_cap)))
        return super().place(one, tasks, choice, pack, spread)


class AmongTheBest(Picker):
    """Agents that look for like gangs then rarely choose the same unit."""

    def _tightest(self, caps: Numbers, tasks: int, choice: Choice, units_per_pod: int) -> int | None:
        if choice.partition >= 0:
            return super()._tightest(caps, tasks, choice, units_per_pod)
        enough = np.flatnonzero(caps >= tasks)
        if not len(enough):
            return None
        some = enough[np.argsort(caps[enough], kind="stable")[: best_of(N0, len(enough))]]
        return int(some[drawn(choice.seed, len(some))])


GANG_WAYS: dict[str, type[Picker]] = {"least_loaded_pod": LeastLoadedPod, "gang_n0": AmongTheBest}


@contextmanager
def picking_by(way: type[Picker]) -> Iterator[None]:
    """Make the indexes that are built from here on pick by this way."""
    names = vars(core.placing.pool)
    before = names["Picker"]
    names["Picker"] = way
    try:
        yield
    finally:
        names["Picker"] = before
