"""Bugs planted on purpose, one by one, to see that the swarm is a net that catches fish.

Each is a mistake that a programmer could make, as small as it can be, planted by replacing text in the real source. The
swarm must find each within 300 seeds (tests/mutants/seeds.json has the seed, tests/mutants/find.py searches anew).
"""

from typing import NamedTuple

from msgspec import Struct


class Edit(NamedTuple):
    """One replacement."""

    file: str
    before: str
    """Stands in the file exactly once."""
    after: str


class Mutant(Struct, frozen=True):
    """A bug, and where it is planted."""

    name: str
    what: str
    """What goes wrong, in a sentence."""
    edits: tuple[Edit, ...]
    needs_twins: bool = False
    """Seen only when a seed is played twice, under two PYTHONHASHSEEDs."""


MUTANTS = (
    Mutant(
        "told_before_durable",
        "The host says what was decided first, and only then makes it durable.",
        (
            Edit(
                "runtime/host.py",
                "            packed = self._packed_rows(rows)\n",
                "            packed = self._packed_rows(rows)\n"
                "            for item in outgoing:\n"
                "                self._teller.tell(item)\n"
                "            outgoing = []\n",
            ),
        ),
    ),
    Mutant(
        "epoch_check_forgotten",
        "The queue takes what became of a workload's attempt before for what became of the one it awarded.",
        (
            Edit(
                "components/job_queue/awards_due.py",
                "    attempt = image.attempts.row(workload, row.epoch) if image is not None else None\n",
                "    known = image.attempts.rows.get(workload, {}) if image is not None else {}\n"
                "    attempt = next(reversed(known.values()), None)\n",
            ),
        ),
    ),
    Mutant(
        "conflict_answer_dropped",
        "The store refuses a claim that does not fit without a word.",
        (
            Edit(
                "components/placement_store/component.py",
                "            return state.disputes.with_them(judged, refused, state.image, state.sequence, now)\n",
                "            return NOTHING\n",
            ),
        ),
    ),
    Mutant(
        "double_release",
        "What an attempt held on a lost node is freed when it ends, and again when the node returns.",
        (
            Edit(
                "core/images/capacity.py",
                "                if self.is_lost[node]:\n                    continue\n                changed[node] = sequence\n",
                "                changed[node] = sequence\n",
            ),
        ),
    ),
    Mutant(
        "lost_tail",
        "The log says that a batch is durable when only those before it are.",
        (
            Edit(
                "store/memory.py",
                "        file.sync(count)\n        return",
                "        file.sync(count - len(rows))\n        return",
            ),
        ),
    ),
    Mutant(
        "set_iteration_order",
        "The broker takes turns among its agents in the order of a set.",
        (
            Edit(
                "components/region_broker/component.py",
                "        return sorted(present, key=lambda agent: (len(agent), agent))\n",
                "        return list(set(present))\n",
            ),
        ),
        needs_twins=True,
    ),
    Mutant(
        "award_told_before_fact",
        "Only answers wait until what they say is durable: commands, the queue's awards among them, are said at once.",
        (
            Edit(
                "runtime/host.py",
                "from core.messages.base import (\n",
                "from core.messages.base import (\n    Answer,\n",
            ),
            Edit(
                "runtime/host.py",
                "            if self._rows or self._is_appending or self._outgoing:\n",
                "            if any(isinstance(message, Answer) for message in decision.messages) and (\n"
                "                self._rows or self._is_appending or self._outgoing\n"
                "            ):\n",
            ),
        ),
    ),
    Mutant(
        "re_award_on_deadline",
        "An award of which nothing was heard in time is taken for returned, and the workload awarded again.",
        (
            Edit(
                "components/job_queue/awards.py",
                "    if is_unwanted or after(awarded_at, AWARD_SPAN) <= now:\n",
                "    if not is_unwanted and after(awarded_at, AWARD_SPAN) <= now:\n"
                '        return Step((AwardReturned(workload, row.epoch, "withdrawn", row.region, 0),))\n'
                "    if is_unwanted:\n",
            ),
        ),
    ),
    Mutant(
        "answer_not_durable",
        "What needs no fact is answered at once, from a state whose facts are not durable yet.",
        (
            Edit(
                "runtime/host.py",
                "from core.messages.base import (\n",
                "from core.messages.base import (\n    Answer,\n",
            ),
            Edit(
                "runtime/host.py",
                "            if self._rows or self._is_appending or self._outgoing:\n",
                "            if decision.events and (self._rows or self._is_appending or self._outgoing):\n",
            ),
        ),
    ),
    Mutant(
        "head_not_said",
        "A keeper that has nothing to tell says nothing, not even its head.",
        (
            Edit(
                "runtime/host.py",
                "        self._teller.say_head(self._kept.log.head, self._term)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "late_hold",
        "A hold or a release that was said before a newer word is obeyed.",
        (
            Edit(
                "components/job_queue/requests/workloads.py",
                "        if revision != row.hold_revision:\n",
                "        if revision > row.hold_revision:\n",
            ),
        ),
    ),
    Mutant(
        "freed_at_stop_order",
        "Capacity is free as soon as the stop is ordered, though the tasks still run in their grace.",
        (
            Edit(
                "core/images/capacity.py",
                "                        columns.ending[node] += amount * tasks\n",
                "                        columns.free[node] += amount * tasks\n",
            ),
            Edit(
                "core/images/capacity.py",
                "                if self.is_lost[node]:\n                    continue\n",
                "                if self.is_lost[node] or held.is_ending:\n                    continue\n",
            ),
        ),
    ),
    Mutant(
        "fence_forgotten",
        "A worker obeys a command that was decided before one that it has obeyed.",
        (
            Edit(
                "components/worker.py",
                "        return state.is_ready and envelope.at < state.joined_until and sequence >= state.sequence\n",
                "        return state.is_ready and envelope.at < state.joined_until\n",
            ),
        ),
    ),
    Mutant(
        "merge_unchecked",
        "A claim made on an old view is granted without a look at whether it fits now.",
        (
            Edit(
                "components/placement_store/component.py",
                "        if short or forbidden:\n",
                "        if (short or forbidden) and claim.view.sequence == state.sequence:\n",
            ),
        ),
    ),
    Mutant(
        "key_forgotten",
        "A submission that is made again under its key is accepted a second time.",
        (
            Edit(
                "components/job_queue/requests/workloads.py",
                "            if known is not None:\n                return answered(Submitted(known))\n",
                "            if known is not None and known not in workloads.rows:\n"
                "                return answered(Submitted(known))\n",
            ),
        ),
    ),
    Mutant(
        "award_not_said_again",
        "The queue says an award once, and then waits for its region's log for ever.",
        (
            Edit(
                "components/job_queue/awards.py",
                "    return Step((), (_award(workload, row, bid, run_min, host, forerunners),), again)\n",
                "    return Step((), (_award(workload, row, bid, run_min, host, forerunners),))\n",
            ),
        ),
    ),
    Mutant(
        "unempty_return",
        "Lost nodes return although they still run something.",
        (
            Edit(
                "components/region_broker/component.py",
                "        is_back = row is not None and row.is_lost and has_ended\n",
                "        is_back = row is not None and row.is_lost\n",
            ),
            Edit(
                "components/region_broker/component.py",
                "        has_ended = not unsaid and all(share.phase == TasksPhase.ENDED for share in beat.tasks)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "end_not_repeated",
        "The broker says once that an attempt has ended, whether or not the store heard it.",
        (
            Edit(
                "components/region_broker/gangs.py",
                "            return Commands((self._end(cause),), again)\n",
                "            return Commands((self._end(cause),))\n",
            ),
        ),
    ),
    Mutant(
        "gap_not_noticed",
        "A follower folds what it hears although facts before it are missing.",
        (
            Edit(
                "runtime/following.py",
                "        if told.first > head.sequence + 1:\n"
                "            self.counts.dropped += self._ahead.put(told)\n"
                "            self._wake.ring()\n"
                "            return\n",
                "",
            ),
            Edit(
                "runtime/following.py",
                "        assert first == head.sequence + 1, (self.log, first, head.sequence)\n"
                "        if hash_before != head.hash:\n",
                "        if hash_before != head.hash and first <= head.sequence + 1:\n",
            ),
        ),
    ),
    Mutant(
        "completed_always",
        "Whatever an attempt's tasks exited with, it has completed.",
        (
            Edit(
                "components/region_broker/gangs.py",
                "return RecordEnd(self.region, *self.key, cause or EndCause.COMPLETED, exit_code, nodes, self.run)",
                "return RecordEnd(self.region, *self.key, EndCause.COMPLETED, exit_code, nodes, self.run)",
            ),
        ),
    ),
    Mutant(
        "cancel_not_obeyed",
        "What runs when its user cancels it runs on.",
        (
            Edit(
                "components/job_queue/awards.py",
                "    is_to_stop = row.is_cancel_requested or row.requeued_epoch == row.epoch\n",
                "    is_to_stop = row.requeued_epoch == row.epoch\n",
            ),
        ),
    ),
    Mutant(
        "hold_ignored",
        "What is held is awarded all the same.",
        (
            Edit(
                "components/job_queue/ordering.py",
                "    wanted = row.phase == Phase.PENDING and not row.is_held and not row.is_cancel_requested\n",
                "    wanted = row.phase == Phase.PENDING and not row.is_cancel_requested\n",
            ),
        ),
    ),
    Mutant(
        "requeue_ignored",
        "To stop an attempt and place its workload anew is promised, and never done.",
        (
            Edit(
                "components/job_queue/requests/workloads.py",
                "        return Decision((RequeueRequested(message.workload, row.epoch),), (Acknowledged(message.workload),))",
                "        return Decision((), (Acknowledged(message.workload),))",
            ),
        ),
    ),
    Mutant(
        "checkpoint_never_recorded",
        "No checkpoint ever counts: whatever is stopped begins from the start.",
        (
            Edit(
                "components/region_broker/gangs.py",
                "        if saved > self.row.saved_step and self.row.stop_cause != EndCause.ABANDONED:\n",
                "        if saved < 0:\n",
            ),
        ),
    ),
    Mutant(
        "node_loss_fails",
        "A workload that lost its nodes, or had to make room, is given up as failed.",
        (
            Edit(
                "components/job_queue/awards.py",
                "    if cause == EndCause.START_FAILED and row",
                "    if cause in (EndCause.NODE_LOST, EndCause.PREEMPTED):\n"
                "        return Phase.FAILED\n"
                "    if cause == EndCause.START_FAILED and row",
            ),
        ),
    ),
    Mutant(
        "award_left_standing",
        "An award that was given back is still taken for standing.",
        (
            Edit(
                "core/images/awards.py",
                "        assert isinstance(event, AwardReturned)\n"
                "        self.rows[event.workload].is_active = False",
                "        assert isinstance(event, AwardReturned)",
            ),
        ),
    ),
    Mutant(
        "ended_cancel_unanswered",
        "Who cancels what has ended is never answered.",
        (
            Edit(
                "components/job_queue/requests/workloads.py",
                "        if row.phase == Phase.CANCELLED or row.is_cancel_requested:\n"
                "            return answered(Acknowledged(message.workload))\n"
                "        if row.phase.is_terminal:\n"
                '            return refused(Reason.ALREADY_ENDED, (f"it is {row.phase}",))\n',
                "        if row.phase.is_terminal or row.is_cancel_requested:\n"
                "            return Decision()\n",
            ),
        ),
    ),
    Mutant(
        "epoch_never_runs_to_end",
        "A task ends well after a tenth of its work.",
        (
            Edit(
                "runtime/spool.py",
                "    return Nanoseconds(span), 0",
                "    return Nanoseconds(max(1, span // 10)), 0",
            ),
        ),
    ),
    Mutant(
        "worst_bid_wins",
        "Of all bids the worst one has the award.",
        (
            Edit(
                "components/job_queue/auction/cycle.py",
                "        best = bids[0][0] if bids else None",
                "        best = bids[-1][0] if bids else None",
            ),
        ),
    ),
    # Shared pools.
    Mutant(
        "pick_too_many",
        "A round picks jobs for a column as if it had one GPU more.",
        (
            Edit(
                "core/sharing/rounds.py",
                "        if job in run_of or width > left[pool]:\n",
                "        if job in run_of or width > left[pool] + 1:\n",
            ),
        ),
    ),
    Mutant(
        "received_twice",
        "Time that a job received is counted again at each round, from the start of its attempt on.",
        (
            Edit(
                "core/images/sharing.py",
                "            self.accounts().receive(workload, self._place_of(workload, pick), rounds)\n            pick.counted_at = at\n",
                "            self.accounts().receive(workload, self._place_of(workload, pick), rounds)\n",
            ),
        ),
    ),
    Mutant(
        "guest_not_freed",
        "A guest whose host has ended is still taken for its guest, though it holds the device.",
        (
            Edit(
                "core/images/pairs.py",
                "    guest.claim = replace(guest.claim, beside=None)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "partitions_overlap",
        "Two agents next to each other own the same partitions.",
        (
            Edit(
                "core/placing/partitions.py",
                "    return (turn.round + (turn.index if rotation == Rotation.DIFFERENT else 0)) % step, step\n",
                "    return (turn.round + (turn.index // 2 if rotation == Rotation.DIFFERENT else 0)) % step, step\n",
            ),
        ),
    ),
    Mutant(
        "target_kept",
        "The target of a class that is gone stays when new shares are recorded, and is given to the next job of the class.",
        (
            Edit(
                "core/images/sharing.py",
                "        if not event.is_more:\n            self.targets = {}\n",
                "",
            ),
        ),
    ),
    Mutant(
        "told_to_leave_for_nothing",
        "At a boundary all who run are told to leave, also those who are picked again where they are.",
        (
            Edit(
                "core/rules/shared_rounds.py",
                "tuple(job for job in picks if job not in column_of or job in joins)",
                "tuple(picks)",
            ),
        ),
    ),
    # Data that moves.
    Mutant(
        "dropped_before_copied",
        "The copy in the home that a plan moves is deleted before the new home has one.",
        (
            Edit(
                "components/job_queue/copies/orders.py",
                "            if action.kind is ActionKind.DROP and not rows[action.dataset].is_pinned\n",
                "            if action.kind is not ActionKind.COPY and not rows[action.dataset].is_pinned\n",
            ),
            Edit(
                "components/job_queue/copies/orders.py",
                "    return region in row.regions and region != row.home\n",
                "    return region in row.regions\n",
            ),
            Edit(
                "components/job_queue/copies/orders.py",
                "        may_go = may_drop(row, region) and has_other(state, row, region) and serves_data(state, region)\n",
                "        may_go = may_drop(row, region) and serves_data(state, region)\n",
            ),
        ),
    ),
    Mutant(
        "copy_counts_unverified",
        "The first report of how far a copy is counts as its end, before the copy is whole and verified.",
        (
            Edit(
                "components/job_queue/copies/records.py",
                "        if not message.is_over:\n            return Decision(events=(CopyMoved",
                "        if not message.is_over and not message.moved:\n            return Decision(events=(CopyMoved",
            ),
        ),
    ),
    Mutant(
        "drained_node_counted",
        "A node that an operator drains counts as one that its pool has.",
        (
            Edit(
                "core/pooling/moving.py",
                "        and closure.kind in (ClosureKind.DRAIN, ClosureKind.MAINTENANCE, ClosureKind.QUARANTINE)\n",
                "        and closure.kind in (ClosureKind.MAINTENANCE, ClosureKind.QUARANTINE)\n",
            ),
        ),
    ),
    Mutant(
        "pooled_with_work_on_it",
        "A plan that is applied moves nodes at once although something is still on them.",
        (
            Edit(
                "core/pooling/moving.py",
                "        if is_unused(capacity, node) and node not in kept and not others:\n",
                "        if (is_unused(capacity, node) or node >= 0) and node not in kept and not others:\n",
            ),
        ),
    ),
    Mutant(
        "day_bytes_forgotten",
        "The queue counts the bytes of the day's copies in its memory, and a restart forgets them.",
        (
            Edit(
                "components/job_queue/state/data_ledger.py",
                "        self.pending = 0\n",
                "        self.pending = self.spent = self.day = 0\n",
            ),
            Edit(
                "components/job_queue/state/data_ledger.py",
                "        if isinstance(fact.event, CopyMade | CopyFailed):\n",
                '        if hasattr(fact.event, "day_limit"):\n'
                "            day = fact.at // 86_400_000_000_000\n"
                "            self.spent = (self.spent if day == self.day else 0) + fact.event.bytes\n"
                "            self.day = day\n"
                "        if isinstance(fact.event, CopyMade | CopyFailed):\n",
            ),
            Edit(
                "components/job_queue/copies/orders.py",
                "        self._spent = spent_now(self._copies, now, self._limit)\n",
                "        self._spent = state.data.spent if state.data.day == now // 86_400_000_000_000 else 0\n",
            ),
        ),
    ),
    # What follows was no plan: these were in Mizzen until the swarm found them, and each is its mending taken back.
    Mutant(
        "silence_taken_for_absence",
        "A keeper starts although somebody listens for its log who does not answer: the other one may only stand still.",
        (
            Edit(
                "runtime/keeping/single_keeper.py",
                "        except AskTimedOut:\n            continue\n",
                "        except AskTimedOut:\n            return\n",
            ),
        ),
    ),
    Mutant(
        "stop_and_report_in_circles",
        "A region answers each report of tasks that are stopping with the order to stop, which a worker answers with a report.",
        (
            Edit(
                "components/region_broker/component.py",
                "        if report.tasks.phase == TasksPhase.STOPPING:\n",
                "        if report.tasks.phase == TasksPhase.STOPPING and False:\n",
            ),
        ),
    ),
    Mutant(
        "lane_taken_from_behind",
        "Of the messages of one sender about one thing, the newest is decided first once the lane is long.",
        (
            Edit(
                "runtime/dispatch/lanes.py",
                "        assert mail is not None\n        self._advance(mail)\n",
                "        assert mail is not None\n"
                "        if len(self.rest) > 2:\n"
                "            mail = self.rest.pop()\n"
                "            self._least, self._shortest = deque(self.mails()), deque(self.mails())\n"
                "            return mail\n"
                "        self._advance(mail)\n",
            ),
        ),
    ),
    Mutant(
        "longest_wait_forgotten",
        "A class that waits behind more urgent ones waits for ever.",
        (
            Edit(
                "runtime/dispatch/mailbox.py",
                "        if first is None or first.expires > now:\n",
                "        if first is None or first.sort != UrgencyClass.INTERACTIVE or first.expires > now:\n",
            ),
        ),
    ),
    Mutant(
        "stage_before_its_forerunner",
        "A stage may begin as soon as those that it waits for have.",
        (
            Edit(
                "core/images/pipelines.py",
                "return all(self.stages[before].phase is Phase.COMPLETED for before",
                "return all(self.stages[before].phase is not Phase.PENDING for before",
            ),
        ),
    ),
    Mutant(
        "recalled_device_forgotten",
        "A grant on a harvested node recalls one device less than its tasks need.",
        (
            Edit(
                "core/images/harvest.py",
                "            left = known.free.minus(need).largest(NOTHING)\n",
                "            left = known.free.minus(need).plus(Amount(min(1_000, need.gpu_milli))).largest(NOTHING)\n",
            ),
        ),
    ),
    Mutant(
        "prepared_too_soon",
        "Tasks are prepared while executors still use their node.",
        (
            Edit(
                "runtime/tasks/tasks_first.py",
                "            if not self._is_clear(name, fits):\n",
                "            if self._is_clear(name, fits):\n"
                "                return True\n"
                "            if not name:\n",
            ),
        ),
    ),
    Mutant(
        "executors_never_killed",
        "A worker waits for executors that have not left when the grace is over, and kills none.",
        (
            Edit(
                "runtime/tasks/tasks_first.py",
                "        self._evict(known, uses, fits)\n        return self._is_clear(known, self._uses(), fits)\n",
                "        return False\n",
            ),
        ),
    ),
)
