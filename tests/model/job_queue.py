"""The model's queue: what `job_queue` records of one workload, and on hearing or reading what."""

from functools import partial

from tests.model.layout import OVER, REGIONS, Action, Layout, Phase, Status, always, never
from tests.model.rules import Rules


class Queue:
    """`job_queue`. Awards, takes back on the region's word, ends. To record and to tell is one step: what is
    told will be said again until the region's log shows that it was heard, so saying it at once gives every
    later saying too. It is lost by never being heard.
    """

    def __init__(self, layout: Layout, rules: Rules) -> None:
        self.layout, self.rules = layout, rules

    def actions(self) -> list[Action]:
        actions = [
            Action("queue crashes, and starts again from its log", self.crash, never),
            Action("queue hears a cancel", self.cancel, never),
        ]
        for region, name in enumerate(REGIONS):
            actions.append(Action(f"queue hears a bid from {name}", partial(self.hear_bid, region), always))
            for epoch in self.layout.epochs:
                label = f"queue awards epoch {epoch} to {name}, says ExecuteAward"
                actions += [Action(label, partial(self.award, region, epoch), always)]
        if not self.rules.silence_never_frees_an_award:
            actions.append(Action("queue, past the deadline, frees the award", self.free_silent_award, never))
        if not self.rules.record_before_telling:
            actions.append(Action("queue's WorkloadAwarded becomes durable", self.record_told_award, always))
        return actions

    def actions_about(self, region: int, epoch: int) -> list[Action]:
        label = f"queue reads {REGIONS[region]}'s log on epoch {epoch}"
        actions = [Action(label, partial(self.read_region, region, epoch), always)]
        if not self.rules.resaid_until_shown:
            label = f"bus loses all that the queue said on epoch {epoch}"
            actions.append(Action(label, partial(self.lose_words, region, epoch), never))
        return actions

    def hear_bid(self, region: int, state: int) -> int:
        """A bid is a note: heard while an auction is open, gone with the award or a crash."""
        layout = self.layout
        is_open = layout.phase.of(state) == Phase.PENDING and not layout.told_not_recorded.of(state)
        if not is_open or layout.epoch.of(state) == layout.bounds.epochs:
            return state
        return layout.has_bid[region].put(state, 1)

    def award(self, region: int, epoch: int, state: int) -> int:
        layout = self.layout
        if not layout.has_bid[region].of(state) or layout.epoch.of(state) + 1 != epoch:
            return state
        # Regions are alike until the first award, so that goes to A without loss of generality; not so with a
        # victim, which only A has.
        is_first = epoch == 1 and not layout.award_said[0][1].of(state)
        if is_first and region == 1 and not layout.bounds.has_victim:
            return state
        if self.rules.record_before_telling:
            return self._record_award(region, epoch, state)
        state = layout.award_said[region][epoch].put(self._drop_notes(state), 1)
        return layout.told_not_recorded.put(state, 1 + region)

    def record_told_award(self, state: int) -> int:
        told = self.layout.told_not_recorded.of(state)
        return self._record_award(told - 1, self.layout.epoch.of(state) + 1, state) if told else state

    def crash(self, state: int) -> int:
        """Notes are lost, facts are not. What it had read of a region's log it will read again."""
        return self._drop_notes(state)

    def cancel(self, state: int) -> int:
        phase = self.layout.phase.of(state)
        if phase == Phase.ENDED:
            return state
        if phase == Phase.PENDING or not self.rules.queue_ends_only_on_region_word:
            return self._end(state)
        return self.layout.is_cancelled.put(state, 1)

    def free_silent_award(self, state: int) -> int:
        return self._close(state) if self.layout.phase.of(state) == Phase.AWARDED else state

    def lose_words(self, region: int, epoch: int, state: int) -> int:
        return self.layout.words_lost[region][epoch].put(state, 1)

    def read_region(self, region: int, epoch: int, state: int) -> int:
        """Fold what the region's log says of the standing award; facts about any other change nothing.

        The log says, in order, granted, started, ended; or declined. The queue may lag, and here reads
        several facts as one step where the earlier ones call for nothing that the last does not undo.
        """
        layout = self.layout
        status = layout.status[region][epoch].of(state)
        if status in (Status.UNKNOWN, Status.PROMISED) or not layout.stands(region, epoch, state):
            return state
        if status == Status.COMPLETED:
            return self._end(state)
        if status in OVER:
            return self._close(state)
        if layout.phase.of(state) == Phase.BOUND:
            return state
        if status == Status.STARTED and layout.has_seen_grant.of(state):
            return layout.phase.put(layout.has_seen_grant.put(state, 0), Phase.BOUND)
        return layout.has_seen_grant.put(state, 1)

    def says_award(self, region: int, epoch: int, state: int) -> bool:
        """Whether the queue says ExecuteAward now and, past the deadline or once cancelled, WithdrawAward."""
        layout = self.layout
        if layout.has_seen_grant.of(state) or layout.words_lost[region][epoch].of(state):
            return False
        return layout.phase.of(state) == Phase.AWARDED and layout.stands(region, epoch, state)

    def says_stop(self, region: int, epoch: int, state: int) -> bool:
        """Whether it says StopAttempt now: cancelled, and the region's log has shown the grant."""
        layout = self.layout
        if not layout.is_cancelled.of(state) or layout.words_lost[region][epoch].of(state):
            return False
        has_grant = layout.has_seen_grant.of(state) == 1 or layout.phase.of(state) == Phase.BOUND
        return has_grant and layout.stands(region, epoch, state)

    def _record_award(self, region: int, epoch: int, state: int) -> int:
        layout = self.layout
        state = layout.phase.put(self._drop_notes(state), Phase.AWARDED)
        state = layout.place[epoch].put(layout.epoch.put(state, epoch), region)
        return layout.award_said[region][epoch].put(state, 1)

    def _close(self, state: int) -> int:
        """AwardReturned or AttemptClosed: nothing stands."""
        if self.layout.is_cancelled.of(state):
            return self._end(state)
        return self.layout.phase.put(self._drop_notes(state), Phase.PENDING)

    def _end(self, state: int) -> int:
        return self.layout.phase.put(self.layout.is_cancelled.put(self._drop_notes(state), 0), Phase.ENDED)

    def _drop_notes(self, state: int) -> int:
        for has_bid in self.layout.has_bid:
            state = has_bid.put(state, 0)
        return self.layout.told_not_recorded.put(self.layout.has_seen_grant.put(state, 0), 0)
