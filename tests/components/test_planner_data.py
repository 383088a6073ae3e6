"""The planner's concern for data: when it is planned, from what, and that the queue hears of the plan until its log shows it."""

# rows: M29, M33, M34

from collections.abc import Callable
from typing import Any

import pytest

from components.planner.component import Planner
from core.data_places.asked import AskedData, PlannedData
from core.effects import Solve
from core.events.control import NodesClosed
from core.events.copies import CopyOrdered, DataPlanned, DropOrdered
from core.events.data import DataPolicySet, DatasetSet, DataWaited, LinkSet, StorageSet, WaitingReads
from core.events.queue import RegionAdded, WorkloadCancelled
from core.events.region import NodesLost
from core.events.regions import RegionAbandoned
from core.fact import Event
from core.messages.copies import SetDataPlan
from core.messages.planning import ConcernShown, ShowConcern
from core.messages.solving import Solved, Unsolved
from core.nouns.data import UNSTATED, ActionKind, DataPolicy, PlannedAction
from core.nouns.ids import GLOBAL_LOG, DatasetName, RegionName, WorkerName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import COMMAND_SAY_AGAIN, DATA_LOOK, DATA_LOOK_MAX, DATA_RETRY, DATA_SETTLE
from core.nouns.maintenance import ClosureKind
from runtime.planning.concerns import solved_at_once
from tests.builders import EU, EU_LOG, US, US_LOG, a_job, a_spec, joined, submitted
from tests.components.support.machine import Machine
from tests.matching import said, said_once

Start = Callable[..., Machine[Any]]  # Any: a planner's state
CLICKS, VIEWS = DatasetName("clicks"), DatasetName("views")
TB = 10**12
SOON = Nanoseconds(DATA_LOOK + seconds(1))


class Planning:
    """A planner of two regions with storage: all demand reads `clicks` in eu, which has a quarter of the GPUs."""

    def __init__(self, start: Start, *, policy: DataPolicy | None = None, storage: bool = True) -> None:
        self.machine = start(Planner((EU, US)))
        for region in (EU, US):
            self.say(RegionAdded(region))
        self.machine.fact(EU_LOG, joined("w0", 0, 8))
        self.machine.fact(US_LOG, joined("w1", 0, 24))
        if policy:
            self.say(DataPolicySet(1, policy))
        for region in (EU, US) if storage else ():
            self.say(StorageSet(region, 1, 100 * TB))
        self.say(dataset(CLICKS, EU, size=TB // 2))
        self.number = 0
        self.submit(64)

    def say(self, event: Event) -> None:
        """The queue's log goes on."""
        self.machine.fact(GLOBAL_LOG, event)

    def submit(self, gpus: int, name: DatasetName = CLICKS, gpu_type: str = "H100") -> None:
        """Work comes that reads a dataset."""
        self.number += 1
        job = a_job(gpus // 8, 8, gpu_type=gpu_type)
        self.say(submitted(self.number, a_spec(job, data=[name], priority=5)))

    def asked(self, span: Nanoseconds = SOON) -> list[AskedData]:
        """Return the problems of data that are asked for meanwhile."""
        effects = self.machine.wait(span).effects
        problems = [one.problem for one in effects if isinstance(one, Solve) and one.concern == "data"]
        found = [problem for problem in problems if isinstance(problem, AskedData)]
        assert len(found) == len(problems)
        return found

    def answer(self, asked: AskedData, revision: int = -1) -> list[SetDataPlan]:
        """The solver answers; return the command that follows."""
        answer = solved_at_once(Solve("data", "", self.revision if revision < 0 else revision, asked))
        assert isinstance(answer, Solved)
        return said(self.machine.hear(answer), SetDataPlan)

    @property
    def revision(self) -> int:
        """Number of the newest plan."""
        return int(self.machine.state.queue.copies.plan.number)

    def record(self, command: SetDataPlan) -> None:
        """The queue records a plan."""
        self.say(recorded(command))

    def planned(self) -> SetDataPlan:
        """A plan is asked for, made and recorded."""
        (asked,) = self.asked()
        (command,) = self.answer(asked)
        self.record(command)
        return command

    def status(self) -> ConcernShown:
        """As operators are told."""
        return said_once(self.machine.hear(ShowConcern("data")), ConcernShown)

    def wait_for_room(self, gpus: int) -> None:
        """So many GPUs of work that reads `clicks` wait, as the queue tells."""
        self.say(DataWaited((WaitingReads((CLICKS,), ("H100",), 2, "no_capacity", 1, 1_000 * gpus),)))


def gpus_of(asked: AskedData) -> list[int]:
    """Return the demand of each job, in whole GPUs: means of hours are off by some thousandths."""
    return [round(job.gpu_milli / 1_000) for job in asked.jobs]


def dataset(
    name: DatasetName, *regions: RegionName, size: int = TB, revision: int = 1, pin: bool = False
) -> Event:
    """An operator's word."""
    return DatasetSet(name, revision, regions, regions[0] if regions else None, "root", size, pin)


def recorded(command: SetDataPlan) -> DataPlanned:
    """The fact of a plan."""
    return DataPlanned(
        command.number,
        command.actions,
        command.gain,
        command.bytes,
        command.before,
        command.after,
        command.sequence,
        basis=command.basis,
    )


def test_data_is_planned_from_what_is_read_and_open(start: Start) -> None:
    """A minute after the start, once: demand in whole GPUs, the supply of each region, and what a day's plan may copy."""
    planning = Planning(start)
    assert [] == planning.asked(Nanoseconds(DATA_SETTLE - seconds(1)))
    (asked,) = planning.asked(seconds(2))
    assert ((EU, US), ("H100",)) == (asked.regions, asked.gpu_types)
    assert ((64_000,), (192_000,)) == asked.supply
    assert (100 * TB, 100 * TB) == asked.storage
    assert [(CLICKS, TB // 2, 0, 0b01, False)] == [
        (one.name, one.size, one.home, one.copies, one.is_pinned) for one in asked.tables
    ]
    assert [((0,), 0, 2)] == [(one.tables, one.gpu_type, one.band) for one in asked.jobs]
    assert [64] == gpus_of(asked)
    assert TB * 3 // 4 == asked.bytes_max
    assert [] == planning.asked(), "it is being solved"


def test_demand_beyond_a_region_moves_its_data(start: Start) -> None:
    """The home moves to where three quarters of the GPUs are, by the real search; the queue is told until its log shows it."""
    planning = Planning(start)
    (asked,) = planning.asked()
    (command,) = planning.answer(asked)
    move = next(action for action in command.actions if action.kind is ActionKind.MOVE)
    assert (CLICKS, EU, US, TB // 2, 5, 1) == (
        move.dataset,
        move.source,
        move.target,
        move.bytes,
        move.level,
        move.revision,
    )
    assert (1_000, 333) == (command.before.worst, command.after.worst)
    assert command.gain > 0
    assert [command] == said(planning.machine.wait(COMMAND_SAY_AGAIN), SetDataPlan)
    planning.record(command)
    assert [] == said(planning.machine.wait(COMMAND_SAY_AGAIN), SetDataPlan)


@pytest.mark.parametrize("has_disaster_copies", [True, False])
def test_data_that_nobody_reads_is_protected(start: Start, *, has_disaster_copies: bool) -> None:
    """A dataset without readers has a copy outside its home, unless the policy wants none."""
    planning = Planning(start, policy=DataPolicy(has_disaster_copies=has_disaster_copies))
    planning.say(dataset(VIEWS, US, size=TB // 5))
    (asked,) = planning.asked()
    (command,) = planning.answer(asked)
    copies = [(action.dataset, action.target) for action in command.actions if action.dataset == VIEWS]
    assert [(VIEWS, EU)] * has_disaster_copies == copies


def test_nothing_is_planned_without_storage_or_leave(start: Start) -> None:
    """Automatic does nothing for regions whose storage nobody stated, and off is off."""
    assert [] == Planning(start, storage=False).asked(DATA_LOOK_MAX)
    assert [] == Planning(start, policy=DataPolicy(is_automatic=False)).asked(DATA_LOOK_MAX)


def test_plan_stands_for_a_day_if_nothing_moves(start: Start) -> None:
    """A day after it was recorded, data is planned anew."""
    planning = Planning(start)
    planning.planned()
    assert [] == planning.asked(Nanoseconds(DATA_LOOK_MAX - seconds(600)))
    assert 1 == len(planning.asked(seconds(1_200)))


@pytest.mark.parametrize(("more", "is_asked"), [(0, False), (8, True)])
def test_demand_that_moves_is_planned_within_minutes(start: Start, more: int, *, is_asked: bool) -> None:
    """More work of an eighth of all demand waits, and counts in full at the next look, not as a mean of hours."""
    planning = Planning(start)
    planning.planned()
    planning.asked()
    if more:
        planning.submit(more)
        planning.wait_for_room(more)
    found = planning.asked()
    assert is_asked is bool(found)
    assert [64 + more] * len(found) == [gpus_of(one)[0] for one in found]


def test_waits_count_at_once(start: Start) -> None:
    """Four times the demand comes. What waits for room counts whole in the next plan; what runs counts by the mean of hours."""
    planning = Planning(start)
    planning.planned()
    planning.asked()
    for _ in range(4):
        planning.submit(64)
    (asked,) = planning.asked()
    assert 64 < gpus_of(asked)[0] < 90
    for command in planning.answer(asked):
        planning.record(command)
    planning.wait_for_room(256)
    (asked,) = planning.asked()
    assert [5 * 64] == gpus_of(asked)


def test_supply_that_is_lost_is_planned_within_minutes(start: Start) -> None:
    """A region loses a quarter of its nodes; what is lost is no supply."""
    planning = Planning(start)
    planning.planned()
    planning.machine.fact(US_LOG, NodesLost(WorkerName("w1"), tuple(range(24))))
    (asked,) = planning.asked()
    assert ((64_000,), (0,)) == asked.supply


def test_plans_come_five_minutes_apart(start: Start) -> None:
    """However much moves meanwhile."""
    planning = Planning(start)
    planning.planned()
    looks = 0
    for _ in range(20):
        planning.submit(64)
        for asked in planning.asked(seconds(60)):
            looks += 1
            for command in planning.answer(asked):
                planning.record(command)
    assert looks == 4


def test_plan_that_is_carried_out_is_followed_by_another(start: Start) -> None:
    """Its last order was made: the next look plans again, and the order counts as carried out."""
    planning = Planning(start)
    command = planning.planned()
    for action in command.actions:
        planning.say(
            CopyOrdered(
                1, action.dataset, action.source, action.target, action.bytes, 1, "c0ffee", is_move=True
            )
        )
    (asked,) = planning.asked()
    (table,) = asked.tables
    assert (1, 0b10) == (table.home, table.copies), "the old home's copy is to go"


def test_what_is_being_deleted_takes_storage_and_is_no_copy(start: Start) -> None:
    """Until the region's data service has deleted it."""
    planning = Planning(start)
    planning.say(dataset(VIEWS, EU, US))
    planning.say(DropOrdered(VIEWS, 2, US))
    (asked,) = planning.asked()
    assert (0, TB) == asked.used_elsewhere
    assert [0b01, 0b01] == [table.copies for table in asked.tables]


def test_abandoned_region_is_no_part_of_the_problem(start: Start) -> None:
    """Nor is what it holds: data that no other region holds is left to operators, with the work that reads it."""
    planning = Planning(start)
    planning.say(dataset(VIEWS, US, EU))
    planning.submit(16, VIEWS)
    planning.say(RegionAbandoned(EU, 1, "root"))
    (asked,) = planning.asked()
    assert (US,) == asked.regions
    assert [VIEWS] == [table.name for table in asked.tables]
    assert [16] == gpus_of(asked)


def test_work_without_hardware_anywhere_is_left_out(start: Start) -> None:
    """No plan helps it."""
    planning = Planning(start)
    planning.submit(64, gpu_type="B200")
    (asked,) = planning.asked()
    assert [64] == gpus_of(asked)


def test_nothing_is_planned_until_every_region_is_known(start: Start) -> None:
    """Its hardware would count as none, and all data would move away; the reason is told."""
    planning = Planning(start)
    planning.say(RegionAdded(RegionName("asia")))
    assert [] == planning.asked()
    assert "the log of asia is not known yet" == planning.status().why
    planning.say(RegionAbandoned(RegionName("asia"), 1, "root"))
    assert 1 == len(planning.asked(Nanoseconds(16 * DATA_RETRY)))


def test_solver_that_fails_leaves_the_plan(start: Start) -> None:
    """The reason is told, and it is tried again later; an operator's setting is tried at once."""
    planning = Planning(start)
    (asked,) = planning.asked()
    assert [] == said(
        planning.machine.hear(Unsolved("data", "", 0, "it took longer than 598 s")), SetDataPlan
    )
    assert (1, "it took longer than 598 s") == (planning.status().failures, planning.status().why)
    assert [asked.tables] == [one.tables for one in planning.asked(Nanoseconds(DATA_RETRY + seconds(1)))]
    planning.machine.hear(Unsolved("data", "", 0, "again"))
    planning.say(DataPolicySet(1, DataPolicy(extra_permille=10)))
    (changed,) = planning.asked()
    assert 10 == changed.extra_permille


def test_answer_from_before_a_setting_is_dropped(start: Start) -> None:
    """A plan for other storage is never said; the problem is solved again at once."""
    planning = Planning(start)
    (asked,) = planning.asked()
    planning.say(StorageSet(US, 2, 0))
    assert [] == planning.answer(asked)
    (again,) = planning.asked(Nanoseconds(1))
    assert (100 * TB, 0) == again.storage


def test_work_that_never_ran_is_no_demand_two_days_later(start: Start) -> None:
    """What is wanted fades in hours; a plan without any demand is recorded, too."""
    planning = Planning(start)
    planning.planned()
    planning.say(WorkloadCancelled(WorkloadId("w-1")))
    for _ in range(48):
        for asked in planning.asked(seconds(3_600)):
            for command in planning.answer(asked):
                planning.record(command)
    assert () == asked.jobs
    assert not planning.status().failures


def test_operators_word_meanwhile_counts_more(start: Start) -> None:
    """The action names the revision from which it was planned, so the queue can leave it out."""
    planning = Planning(start)
    planning.say(dataset(CLICKS, EU, size=TB // 2, revision=2))
    (asked,) = planning.asked()
    (command,) = planning.answer(asked)
    assert {2} == {action.revision for action in command.actions}
    assert isinstance(command.actions[0], PlannedAction)


def test_work_over_quota_that_waits_counts_whole(start: Start) -> None:
    """It waits at the lowest band, and is wanted at the band of its priority."""
    planning = Planning(start)
    planning.planned()
    planning.asked()
    for _ in range(4):
        planning.submit(64)
    planning.say(DataWaited((WaitingReads((CLICKS,), ("H100",), 0, "over_quota", 4, 256_000),)))
    (asked,) = planning.asked()
    assert [(2, 5 * 64)] == [(job.band, round(job.gpu_milli / 1_000)) for job in asked.jobs]


@pytest.mark.parametrize(
    ("kind", "milli"), [(ClosureKind.MAINTENANCE, 192_000), (ClosureKind.DRAIN, 128_000)]
)
def test_nodes_under_maintenance_are_supply(start: Start, kind: ClosureKind, milli: int) -> None:
    """A maintenance ends; a drain may not."""
    planning = Planning(start)
    planning.machine.fact(US_LOG, NodesClosed("work", kind, ((0, 7),), "work"))
    (asked,) = planning.asked()
    assert ((64_000,), (milli,)) == asked.supply


def test_nothing_is_planned_over_closed_links(start: Start) -> None:
    """Neither to a region to which none is open, nor of what no region can send; an open link is planned with at once."""
    planning = Planning(start)
    planning.say(LinkSet(EU, US, 1, 0))
    (asked,) = planning.asked()
    assert (100 * TB, UNSTATED) == asked.storage
    assert [0] == [table.size for table in asked.tables]
    assert (TB // 2, 0) == asked.used_elsewhere
    for command in planning.answer(asked):
        assert () == command.actions
        planning.record(command)
    planning.say(LinkSet(EU, US, 2, TB))
    (again,) = planning.asked()
    assert [TB // 2] == [table.size for table in again.tables]


def test_home_in_an_abandoned_region_may_move(start: Start) -> None:
    """The dataset counts at home in the first region that has it."""
    asia = RegionName("asia")
    planning = Planning(start)
    planning.say(RegionAdded(asia))
    planning.say(DatasetSet(VIEWS, 1, (asia, EU, US), asia, "root", TB))
    planning.say(RegionAbandoned(asia, 1, "root"))
    asked = planning.asked(Nanoseconds(4 * DATA_RETRY))[0]
    (views,) = (table for table in asked.tables if table.name == VIEWS)
    assert (0, 0b11) == (views.home, views.copies)


def test_answer_is_whole_numbers(start: Start) -> None:
    """The answer crosses a pipe, and is compared."""
    planning = Planning(start)
    (asked,) = planning.asked()
    answer = solved_at_once(Solve("data", "", 0, asked))
    assert isinstance(answer, Solved)
    assert isinstance(answer.answer, PlannedData)
    assert answer == solved_at_once(Solve("data", "", 0, asked))


def test_operator_says_how_far_apart_plans_are(start: Start) -> None:
    """A day apart, whatever moves; a setting is heeded at once all the same."""
    planning = Planning(start, policy=DataPolicy(replan_seconds=86_400))
    planning.planned()
    for _ in range(4):
        planning.submit(64)
        planning.wait_for_room(64)
        assert [] == planning.asked(seconds(5 * 3_600))
    planning.say(StorageSet(US, 2, TB))
    (asked,) = planning.asked()
    assert (100 * TB, TB) == asked.storage
