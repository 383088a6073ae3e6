"""The model's agents and workers: those who own no log. An agent may forget everything at any time; a worker
keeps on its disk the highest sequence it has heard and the ends it must still report.
"""

from functools import partial

from tests.model.job_queue import Queue
from tests.model.layout import LIVE, REGIONS, Action, Layout, Report, Status, always, never
from tests.model.placement_store import Store
from tests.model.rules import Rules


class Agents:
    """A region's `allocation_agent`s, and the broker, which owns nothing: it hands an award to whichever
    agent it likes, as often as it hears it.
    """

    def __init__(self, layout: Layout, queue: Queue, store: Store, region: int) -> None:
        self.layout, self.queue, self.store, self.region = layout, queue, store, region

    def actions(self) -> list[Action]:
        name = f"an agent of {REGIONS[self.region]}"
        return [
            Action(f"{name} dies, or is told no", partial(self.drop, agent), never)
            for agent in range(self.layout.bounds.agents)
        ]

    def actions_about(self, epoch: int) -> list[Action]:
        name = f"an agent of {REGIONS[self.region]}"
        says_award = partial(self.queue.says_award, self.region, epoch)
        actions: list[Action] = []
        for agent in range(self.layout.bounds.agents):
            label = f"{name} is handed ExecuteAward({epoch}), says SubmitClaim"
            actions.append(Action(label, partial(self.hear_award, agent, epoch), says_award))
            label = f"{name} gives up; DeclineAward({epoch}) is heard"
            actions.append(Action(label, partial(self.give_up, agent, epoch), never))
        return actions

    def hear_award(self, agent: int, epoch: int, state: int) -> int:
        if self.layout.words_lost[self.region][epoch].of(state):
            return state
        state = self.layout.claim_said[self.region][agent][epoch].put(state, 1)
        return self._sorted(self.layout.in_hand[self.region][agent].put(state, epoch))

    def drop(self, agent: int, state: int) -> int:
        return self._sorted(self.layout.in_hand[self.region][agent].put(state, 0))

    def give_up(self, agent: int, epoch: int, state: int) -> int:
        """Heard at once. A late DeclineAward needs no bit: it does what WithdrawAward does, and that may be
        heard at any time from the award on.
        """
        if self.layout.in_hand[self.region][agent].of(state) != epoch:
            return state
        return self.store.decline(epoch, self.drop(agent, state))

    def _sorted(self, state: int) -> int:
        """Agents are interchangeable: of two states that differ in their order only, keep one."""
        agents = self.layout.agent[self.region]
        values = [agent.of(state) for agent in agents]
        if values[0] > values[-1]:
            state = agents[0].put(agents[-1].put(state, values[0]), values[-1])
        return state


class Worker:
    """A region's worker. A region's log is in the order of epochs, and of one epoch start comes before stop
    and stop before "recorded", so the sequences in its commands compare as the epochs do, which is all that
    the model keeps. Two commands for one epoch in the wrong order are safe: whoever heard the stop has an end
    to report, and so will not start.
    """

    def __init__(self, layout: Layout, rules: Rules, region: int) -> None:
        self.layout, self.rules, self.region = layout, rules, region
        self.heard, self.is_cut = layout.heard[region], layout.is_cut[region]
        self.status, self.runs = layout.status[region], layout.runs[region]
        self.report = layout.report[region]

    def actions(self) -> list[Action]:
        name = f"{REGIONS[self.region]}'s worker"
        actions: list[Action] = []
        if not self.rules.worker_keeps_highest_on_disk:
            actions.append(Action(f"{name} restarts, and forgets what it heard", self.forget_heard, never))
        if self.layout.bounds.has_cuts:
            actions.append(Action(f"{name} is cut off for long, and stops its tasks", self.cut, never))
            actions.append(Action(f"{name} is back, and joins", self.join, always))
        return actions

    def actions_about(self, epoch: int) -> list[Action]:
        name = f"{REGIONS[self.region]}'s worker"
        is_said = partial(self._says_start, epoch)
        actions = [
            Action(f"{name} hears StartTasks({epoch}), runs", partial(self.hear_start, epoch), is_said),
            Action(f"{name} finishes attempt {epoch}", partial(self.finish, epoch), always),
            Action(f"{name} loses the tasks of attempt {epoch}", partial(self.fail, epoch), never),
            Action(f"{name} hears StopTasks({epoch}), is empty", partial(self.hear_stop, epoch), always),
            Action(f"{name} hears its end of {epoch} recorded", partial(self.hear_recorded, epoch), always),
        ]
        if not self.rules.end_reported_until_recorded:
            label = f"bus loses the one report of the end of {epoch}"
            actions.append(Action(label, partial(self.lose_report, epoch), never))
        return actions

    def hear_start(self, epoch: int, state: int) -> int:
        start_said = self.layout.start_said[self.region][epoch].of(state)
        if not start_said or self.runs[epoch].of(state) or self.report[epoch].of(state):
            return state
        if self.rules.cut_worker_joins_first and self.is_cut.of(state):
            return state
        heard = self.heard.of(state)
        if self.rules.worker_refuses_older and epoch <= heard:
            return state
        return self.heard.put(self.runs[epoch].put(state, 1), max(epoch, heard))

    def finish(self, epoch: int, state: int) -> int:
        return self._stop(epoch, Report.COMPLETED, state) if self.runs[epoch].of(state) else state

    def fail(self, epoch: int, state: int) -> int:
        return self._stop(epoch, Report.EMPTY, state) if self.runs[epoch].of(state) else state

    def hear_stop(self, epoch: int, state: int) -> int:
        """Also where the start was never heard: empty, and the start will be refused. Late stops need no
        step: they find an end to report, or one recorded, and change nothing.
        """
        is_said = self.status[epoch].of(state) == Status.ENDING and not self.is_cut.of(state)
        if not is_said or self.report[epoch].of(state):
            return state
        return self._stop(epoch, Report.EMPTY, self.heard.put(state, max(epoch, self.heard.of(state))))

    def hear_recorded(self, epoch: int, state: int) -> int:
        """The store's answer to a report of an attempt that is not live, be it ended or already forgotten."""
        is_answered = self.status[epoch].of(state) not in LIVE and not self.is_cut.of(state)
        return self.report[epoch].put(state, Report.NOTHING) if is_answered else state

    def lose_report(self, epoch: int, state: int) -> int:
        return self.report[epoch].put(state, Report.NOTHING)

    def forget_heard(self, state: int) -> int:
        return self.heard.put(self._stop_all(state), 0)

    def cut(self, state: int) -> int:
        return self.is_cut.put(self._stop_all(state), 1)

    def join(self, state: int) -> int:
        """Back in contact: the store hears that nothing runs, and answers with its log's head, below which
        the worker will take no command.
        """
        if not self.is_cut.of(state):
            return state
        for epoch in self.layout.epochs:
            was_granted = self.layout.start_said[self.region][epoch].of(state) == 1
            is_over = was_granted and self.status[epoch].of(state) not in LIVE
            if is_over and self.rules.cut_worker_joins_first:
                state = self.heard.put(state, max(epoch, self.heard.of(state)))
        lost, free = self.layout.lost[self.region], self.layout.free[self.region]
        state = free.put(state, free.of(state) + lost.of(state))
        return self.is_cut.put(lost.put(state, 0), 0)

    def _says_start(self, epoch: int, state: int) -> bool:
        """Whether the broker says it now: until the log shows that the gang has started, or must stop."""
        return self.status[epoch].of(state) == Status.GRANTED

    def _stop(self, epoch: int, report: Report, state: int) -> int:
        return self.report[epoch].put(self.runs[epoch].put(state, 0), report)

    def _stop_all(self, state: int) -> int:
        for epoch in self.layout.epochs:
            state = self.fail(epoch, state)
        return state
