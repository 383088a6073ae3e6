"""The model's stores: what a region's `placement_store` records of one workload, and on hearing or reading
what.
"""

from functools import partial

from tests.model.job_queue import Queue
from tests.model.layout import LIVE, OVER, REGIONS, Action, Layout, Report, Status, Victim, always, never
from tests.model.rules import Rules


class Store:
    """A region's `placement_store`: one slot of capacity, and one status an epoch."""

    def __init__(self, layout: Layout, rules: Rules, queue: Queue, region: int) -> None:
        self.layout, self.rules, self.queue, self.region = layout, rules, queue, region
        self.cursor, self.status = layout.cursor[region], layout.status[region]
        self.free, self.victim = layout.free[region], layout.victim[region]

    def actions(self) -> list[Action]:
        name = f"{REGIONS[self.region]}'s store"
        actions = [Action(f"{name} reads a fact of the global log", self.read_global, always)]
        if not self.rules.restart_reads_on_to_the_head:
            # With the rule on a restart changes nothing: it loses no fact, and reading on from an old image
            # to the head undoes the loss.
            label = f"{name} restarts, with an old image of the global log"
            actions.append(Action(label, self.restart, never))
        if self.layout.bounds.has_victim and self.region == 0:
            actions.append(Action(f"{name} tells the victim to stop", self.stop_victim, always))
            actions.append(Action(f"{name} hears that the victim has left", self.end_victim, always))
            actions.append(Action(f"{name} grants the free slot to others", self.grant_to_others, never))
        return actions

    def actions_about(self, epoch: int) -> list[Action]:
        name = f"{REGIONS[self.region]}'s store"
        says_award = partial(self.queue.says_award, self.region, epoch)
        says_stop = partial(self.queue.says_stop, self.region, epoch)
        by_itself = f"{name} orders attempt {epoch} to stop, for reasons of its own"
        actions = [
            Action(f"{name} hears WithdrawAward({epoch})", partial(self.hear_withdraw, epoch), says_award),
            Action(f"{name} hears StopAttempt({epoch})", partial(self.hear_stop, epoch), says_stop),
            Action(by_itself, partial(self.order_stop, epoch), never),
            Action(f"{name} hears that attempt {epoch} runs", partial(self.hear_running, epoch), always),
            Action(f"{name} hears the end of attempt {epoch}", partial(self.hear_end, epoch), always),
            Action(f"{name} forgets epoch {epoch}", partial(self.forget, epoch), always),
        ]
        for agent in range(self.layout.bounds.agents):
            hear_claim, is_said = (
                partial(self.hear_claim, agent, epoch),
                partial(self._says_claim, agent, epoch),
            )
            actions.append(Action(f"{name} hears SubmitClaim({epoch})", hear_claim, is_said))
        if not self.rules.empty_answers_the_stop:
            label = f"{name} hears a beat: nothing runs here"
            actions.append(Action(label, partial(self.hear_idle_beat, epoch), never))
        if not self.rules.grant_recorded_before_start:
            label = f"{name} crashes before its grant of {epoch} is durable"
            actions.append(Action(label, partial(self.lose_grant, epoch), never))
        if self.layout.bounds.has_cuts:
            label = f"{name} ends attempt {epoch} by silence"
            actions.append(Action(label, partial(self.end_by_silence, epoch), never))
        return actions

    def read_global(self, state: int) -> int:
        cursor = self.cursor.of(state)
        return self.cursor.put(state, cursor + 1) if cursor < self.layout.head(state) else state

    def restart(self, state: int) -> int:
        return self.cursor.put(state, 0)

    def hear_claim(self, agent: int, epoch: int, state: int) -> int:
        """Grant, promise, or answer no. A claim heard again, or another for the same epoch, is answered as
        the first was: nothing changes.
        """
        layout, rules = self.layout, self.rules
        if not layout.claim_said[self.region][agent][epoch].of(state):
            return state
        if rules.read_up_to_the_award_first:
            read = min(2 * epoch - 1, layout.head(state))
            state = self.cursor.put(state, max(read, self.cursor.of(state)))
        if not self._is_new(epoch, state):
            return state
        if rules.award_must_stand and not layout.stands_as_read(self.region, epoch, state):
            is_wrong = layout.stands(self.region, epoch, state)
            return layout.refused_unread.put(state, 1) if is_wrong else state
        if self.free.of(state):
            return self._grant(epoch, self.free.put(state, self.free.of(state) - 1))
        if self.victim.of(state) != Victim.RUNS:
            return state
        if not rules.grant_waits_for_the_victim:
            return self._grant(epoch, state)
        if not rules.withdrawn_promise_spares:
            state = self.victim.put(state, Victim.MARKED)
        return self.status[epoch].put(state, Status.PROMISED)

    def hear_withdraw(self, epoch: int, state: int) -> int:
        """The queue says it from the award on, if it likes: that it has said it needs no bit of its own."""
        layout = self.layout
        is_said = layout.epoch.of(state) >= epoch and layout.place[epoch].of(state) == self.region
        if not is_said or layout.words_lost[self.region][epoch].of(state):
            return state
        return self.decline(epoch, state)

    def decline(self, epoch: int, state: int) -> int:
        """AwardDeclined, unless it was granted, or is over as far as is read. A promise is withdrawn by it;
        its victim is left as it is.
        """
        is_open = self.status[epoch].of(state) in (Status.UNKNOWN, Status.PROMISED)
        if not is_open or self.cursor.of(state) >= 2 * epoch:
            return state
        return self.status[epoch].put(state, Status.DECLINED)

    def hear_stop(self, epoch: int, state: int) -> int:
        """Only while it is being said. Heard late it does no more than the store may do at any time by
        itself.
        """
        return self.order_stop(epoch, state) if self.queue.says_stop(self.region, epoch, state) else state

    def order_stop(self, epoch: int, state: int) -> int:
        if self.status[epoch].of(state) not in (Status.GRANTED, Status.STARTED):
            return state
        if not self.rules.capacity_frees_only_when_empty:
            return self._end(epoch, Status.LOST, state)
        return self.status[epoch].put(state, Status.ENDING)

    def hear_running(self, epoch: int, state: int) -> int:
        """GangStarted. The report may come after the tasks have ended, as long as their end has not been
        heard.
        """
        layout = self.layout
        has_run = layout.runs[self.region][epoch].of(state) or layout.report[self.region][epoch].of(state)
        is_news = has_run and self.status[epoch].of(state) == Status.GRANTED
        return self.status[epoch].put(state, Status.STARTED) if is_news else state

    def hear_end(self, epoch: int, state: int) -> int:
        """AttemptEnded. A report heard late needs no bit: after the first the epoch is not live, and with the
        rules on never will be again.
        """
        report = self.layout.report[self.region][epoch].of(state)
        if report == Report.NOTHING or self.status[epoch].of(state) not in LIVE:
            return state
        return self._end(epoch, Status.COMPLETED if report == Report.COMPLETED else Status.LOST, state)

    def hear_idle_beat(self, epoch: int, state: int) -> int:
        if self.status[epoch].of(state) != Status.ENDING or self.layout.runs[self.region][epoch].of(state):
            return state
        return self._end(epoch, Status.LOST, state)

    def end_by_silence(self, epoch: int, state: int) -> int:
        """AttemptEnded, and the slot is lost until the worker has joined again."""
        is_cut = self.layout.is_cut[self.region].of(state)
        if self.rules.silence_ends_only_after_isolation and not is_cut:
            return state
        if self.status[epoch].of(state) not in LIVE:
            return state
        return self.layout.lost[self.region].put(self.status[epoch].put(state, Status.LOST), 1)

    def forget(self, epoch: int, state: int) -> int:
        if self.status[epoch].of(state) not in OVER:
            return state
        is_superseded = self.layout.is_superseded_as_read(self.region, epoch, state)
        if self.rules.forget_only_when_superseded and not is_superseded:
            return state
        return self.status[epoch].put(state, Status.UNKNOWN)

    def lose_grant(self, epoch: int, state: int) -> int:
        if self.status[epoch].of(state) != Status.GRANTED:
            return state
        return self._end(epoch, Status.UNKNOWN, state)

    def stop_victim(self, state: int) -> int:
        victim = self.victim.of(state)
        has_promise = any(self.status[epoch].of(state) == Status.PROMISED for epoch in self.layout.epochs)
        if victim == Victim.MARKED and not has_promise:
            state = self.layout.stopped_for_nothing.put(state, 1)
        is_due = victim == Victim.MARKED or (victim == Victim.RUNS and has_promise)
        return self.victim.put(state, Victim.ENDING) if is_due else state

    def end_victim(self, state: int) -> int:
        """The victim's end, told to stop or not; a promise over it is granted in the same batch."""
        if self.victim.of(state) == Victim.NOBODY:
            return state
        state = self.victim.put(state, Victim.NOBODY)
        for epoch in self.layout.epochs:
            if self.rules.promise_reserves and self.status[epoch].of(state) == Status.PROMISED:
                return self._grant(epoch, state)
        return self.free.put(state, self.free.of(state) + 1)

    def grant_to_others(self, state: int) -> int:
        if not self.free.of(state):
            return state
        return self.victim.put(self.free.put(state, self.free.of(state) - 1), Victim.RUNS)

    def _says_claim(self, agent: int, epoch: int, state: int) -> bool:
        """Whether an agent says it now: while it has the award in hand."""
        return self.layout.in_hand[self.region][agent].of(state) == epoch

    def _is_new(self, epoch: int, state: int) -> bool:
        """Whether nothing is remembered that answers a claim for this epoch."""
        status = self.status[epoch].of(state)
        if status == Status.UNKNOWN:
            return True
        if status == Status.DECLINED:
            return not self.rules.declined_epoch_stays_declined
        # Claim ids need no place in the state. The granted claim was one of those said; once two are said,
        # the other one may be heard (a sole agent is taken to have tried again under another id).
        has_other_claim = all(said[epoch].of(state) for said in self.layout.claim_said[self.region])
        return not self.rules.grant_once_per_epoch and has_other_claim and status != Status.PROMISED

    def _grant(self, epoch: int, state: int) -> int:
        """ClaimGranted, and StartTasks is said."""
        state = self.status[epoch].put(state, Status.GRANTED)
        return self.layout.start_said[self.region][epoch].put(state, 1)

    def _end(self, epoch: int, status: Status, state: int) -> int:
        return self.free.put(self.status[epoch].put(state, status), self.free.of(state) + 1)
