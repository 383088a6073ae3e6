"""award → claim → end of one workload, as a model small enough to visit every state of: a queue, two regions,
and in each a store with room for one attempt, agents and a worker. Messages may be lost, repeated, late and
out of order; logs are read late but without gaps; the queue may crash, agents die, tasks fail and the user
cancel at any moment. What is kept out, and why that loses nothing, is said where it is left out. Not modelled
at all are failure of a keeper's disk, two keepers of one log, and the recorded consent that two attempts may
run (`region abandon`, `move_after`).
"""

from collections.abc import Iterator

from tests.model.followers import Agents, Worker
from tests.model.job_queue import Queue
from tests.model.layout import LIVE, OVER, REGIONS, Action, Field, Layout, Phase, Status, Victim
from tests.model.placement_store import Store
from tests.model.rules import Bounds, Rules


class AwardProtocol:
    """The model, for the explorer."""

    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self.layout = Layout(bounds)
        queue = Queue(self.layout, rules)
        self.actions = queue.actions()
        # By award; none of these can happen before the award was said, which saves asking each.
        self.actions_about: list[tuple[Field, list[Action]]] = []
        for region in range(len(REGIONS)):
            store = Store(self.layout, rules, queue, region)
            agents = Agents(self.layout, queue, store, region)
            worker = Worker(self.layout, rules, region)
            self.actions += store.actions() + agents.actions() + worker.actions()
            for epoch in self.layout.epochs:
                actions = queue.actions_about(region, epoch) + store.actions_about(epoch)
                actions += agents.actions_about(epoch) + worker.actions_about(epoch)
                self.actions_about.append((self.layout.award_said[region][epoch], actions))

    def initial(self) -> list[int]:
        state = 0
        for free in self.layout.free:
            state = free.put(state, 1)
        if self.layout.bounds.has_victim:
            state = self.layout.victim[0].put(self.layout.free[0].put(state, 0), Victim.RUNS)
        return [state]

    def successors(self, state: int) -> Iterator[tuple[str, int, bool]]:
        for label, fire, is_sure in self.actions:
            after = fire(state)
            if after != state:
                yield label, after, is_sure(state)
        for award_said, actions in self.actions_about:
            if award_said.of(state):
                for label, fire, is_sure in actions:
                    after = fire(state)
                    if after != state:
                        yield label, after, is_sure(state)

    def violations(self, state: int) -> list[str]:
        """Everything that is wrong here. An attempt is live from its grant to its end in a region's log."""
        layout = self.layout
        broken: list[str] = []
        live: list[tuple[int, int]] = []
        running = 0
        for region, name in enumerate(REGIONS):
            epochs = [epoch for epoch in layout.epochs if layout.award_said[region][epoch].of(state)]
            held = [(region, epoch) for epoch in epochs if layout.status[region][epoch].of(state) in LIVE]
            running += sum(layout.runs[region][epoch].of(state) for epoch in epochs)
            lost = layout.lost[region].of(state)
            others = layout.victim[region].of(state) != Victim.NOBODY
            if layout.free[region].of(state) + len(held) + lost + others != 1:
                broken.append(f"{name}'s capacity does not sum to its total")
            live += held
        if len(live) > 1:
            broken.append("two attempts are live")
        if running > 1:
            broken.append("two workers run tasks of the workload")
        if (live or running) and layout.phase.of(state) == Phase.ENDED:
            broken.append("a finished workload holds or runs something")
        if any(not layout.stands(region, epoch, state) for region, epoch in live):
            broken.append("an attempt is live whose award does not stand")
        if any(
            layout.award_said[0][epoch].of(state) and layout.award_said[1][epoch].of(state)
            for epoch in layout.epochs
        ):
            broken.append("one epoch names two awards")
        if layout.refused_unread.of(state):
            broken.append("a claim was refused for an award that stands, only not yet read")
        if layout.bounds.has_victim:
            broken += self._broken_promises(state)
        return broken

    def is_quiet(self, state: int) -> bool:
        """Ended, or out of the epochs that are modelled; and nothing held, running, waiting to be told or,
        once ended, remembered.
        """
        layout = self.layout
        phase = layout.phase.of(state)
        if phase != Phase.ENDED and (phase != Phase.PENDING or layout.epoch.of(state) < layout.bounds.epochs):
            return False
        for region in range(len(REGIONS)):
            for epoch in layout.epochs:
                status = layout.status[region][epoch].of(state)
                is_kept = status != Status.UNKNOWN and (phase == Phase.ENDED or status not in OVER)
                if is_kept or layout.runs[region][epoch].of(state) or layout.report[region][epoch].of(state):
                    return False
            if not layout.free[region].of(state) and layout.victim[region].of(state) != Victim.RUNS:
                return False
        return True

    def describe(self, state: int) -> str:
        layout = self.layout
        parts = [f"{Phase(layout.phase.of(state)).name.lower()} {layout.epoch.of(state)}"]
        if layout.is_cancelled.of(state):
            parts.append("cancel requested")
        for region, name in enumerate(REGIONS):
            for epoch in layout.epochs:
                status = layout.status[region][epoch].of(state)
                is_running = layout.runs[region][epoch].of(state)
                if status != Status.UNKNOWN or is_running:
                    tasks = ", tasks run" if is_running else ""
                    parts.append(f"{name}: {epoch} {Status(status).name.lower()}{tasks}")
        return "; ".join(parts)

    def _broken_promises(self, state: int) -> list[str]:
        layout = self.layout
        broken: list[str] = []
        has_promise = any(layout.status[0][epoch].of(state) == Status.PROMISED for epoch in layout.epochs)
        if has_promise and layout.victim[0].of(state) == Victim.NOBODY:
            broken.append("a promise holds nothing, though its victim has left")
        if layout.stopped_for_nothing.of(state):
            broken.append("a victim was told to stop for a promise that was withdrawn")
        return broken
