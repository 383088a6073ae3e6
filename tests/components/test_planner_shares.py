"""The planner's concern for shared pools: when shares are solved, and what becomes of the answer."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from components.planner.component import Planner
from components.planner.concerns.shares import ALL_SHARES
from core.effects import Solve
from core.events.queue import (
    AttemptClosed,
    RegionAdded,
    WorkloadAwarded,
    WorkloadCancelled,
    WorkloadSubmitted,
)
from core.events.region import CheckpointCommitted, ClaimGranted, NodesLost
from core.events.sharing import PolicySet, RoundBegun, SharesSet
from core.events.tenants import EntitlementSet, TenantSet
from core.messages.base import LogHeard, LogSilent
from core.messages.planning import ConcernShown, ShowConcern
from core.messages.sharing import SetShares
from core.messages.solving import Solved, Unsolved
from core.nouns.ids import GLOBAL_LOG, TenantName, WorkerName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds
from core.nouns.limits import (
    COMMAND_SAY_AGAIN,
    RUN_TIME_DEFAULT,
    SHARES_AHEAD,
    SHARES_LOOK,
    SHARES_RETRY,
    SHARES_SAID_MAX,
    SHARES_SPAN,
)
from core.nouns.sharing import ROUND_SPAN, ClassShares, PoolShares, ShareColumn, SharingSettings
from core.nouns.tenant import Entitlement, TenantSettings
from core.nouns.workload import EndCause, Extent, Kind, Phase, Topology
from core.sharing.asked import AskedShares
from runtime.planning.concerns import solved_at_once
from tests.builders import EU, EU_LOG, US, US_LOG, a_claim, a_spread, amount, submitted
from tests.components.support import planner as support
from tests.components.support.machine import Machine
from tests.components.support.shared_pool import pool_nodes, shared
from tests.matching import said, said_once

Start = Callable[..., Machine[Any]]  # Any: a planner's state
COLUMN = ShareColumn(US, "V100")


def a_planner(start: Start, jobs: int = 1) -> Machine[Any]:
    """Over a shared pool of two V100, and so many jobs of it."""
    machine = start(Planner((US,)))
    machine.fact(GLOBAL_LOG, RegionAdded(US))
    machine.fact(US_LOG, pool_nodes(2))
    for number in range(1, jobs + 1):
        machine.fact(GLOBAL_LOG, a_submission(number))
    return machine


def a_submission(number: int) -> WorkloadSubmitted:
    """Of a job of the pool that makes nine steps a second."""
    return submitted(number, spec=shared(number, speeds={"V100": 9_000_000}, steps=9_000))


def asked(machine: Machine[Any], span: Nanoseconds = SHARES_LOOK) -> list[AskedShares]:
    """What the solver is asked for meanwhile."""
    problems = [effect.problem for effect in support.asked(machine, "shares", span)]
    return [problem for problem in problems if isinstance(problem, AskedShares)]


def solved(one: AskedShares) -> Solved:
    """The solver's answer."""
    answer = solved_at_once(Solve("shares", ALL_SHARES, one.revision, one))
    assert isinstance(answer, Solved)
    return answer


def shares_of(one: AskedShares) -> PoolShares:
    """In that answer."""
    shares = solved(one).answer
    assert isinstance(shares, PoolShares)
    return shares


def unsolved(one: AskedShares, why: str = "it is infeasible", *, is_for_good: bool = False) -> Unsolved:
    """The solver has no answer."""
    return Unsolved("shares", ALL_SHARES, one.revision, why, is_for_good)


def test_shares_are_solved_a_second_after_a_change(start: Start) -> None:
    """All jobs of a class are one row, with open GPUs by column and speeds in whole millionths; nothing is solved twice."""
    machine = a_planner(start, jobs=3)
    (one,) = asked(machine)
    (kind,) = one.classes
    assert (("max_min", 0), (COLUMN,), (2,)) == (
        (one.policy, one.revision),
        one.columns,
        one.gpus,
    )
    assert (3, 1, (9_000_000,)) == (kind.count, kind.gpus, kind.speeds)
    assert [] == asked(machine, Nanoseconds(SHARES_SPAN - seconds(1)))


def test_queue_is_told_until_its_log_shows_the_shares(start: Start) -> None:
    """Then the planner is at rest until something changes: a job, a policy, or a node."""
    machine = a_planner(start)
    (one,) = asked(machine)
    (told,) = said(machine.hear(solved(one)), SetShares)
    assert (1, "max_min") == (told.shares.revision, told.policy)
    assert told.shares.changes == machine.state.queue.sharing.changes
    assert [told] == said(machine.wait(COMMAND_SAY_AGAIN), SetShares)
    machine.fact(GLOBAL_LOG, SharesSet(told.shares, policy=told.policy, sequence=told.sequence))
    assert [] == asked(machine, seconds(600))
    for event in (a_submission(2), PolicySet(SharingSettings("max_throughput"), 1)):
        machine.fact(GLOBAL_LOG, event)
        (one,) = asked(machine)
        (told,) = said(machine.hear(solved(one)), SetShares)
        machine.fact(GLOBAL_LOG, SharesSet(told.shares, policy=told.policy, sequence=told.sequence))
    assert "max_throughput" == one.policy
    machine.fact(US_LOG, NodesLost(WorkerName("w0"), (1,)))
    (one,) = asked(machine)
    assert (1,) == one.gpus, "what is lost is not shared out"
    assert one.last, "equally good shares are the nearest to those that hold"


def test_gpus_of_a_silent_region_leave_the_next_solve(start: Start) -> None:
    """Until it is heard again: what would be owed there, nobody could receive."""
    machine = start(Planner((US, EU)))
    machine.fact(US_LOG, pool_nodes(2))
    machine.fact(EU_LOG, pool_nodes(3))
    machine.fact(GLOBAL_LOG, a_submission(1))
    machine.hear(LogSilent(US_LOG))
    (one,) = asked(machine)
    assert ((ShareColumn(EU, "V100"),), (3,)) == (one.columns, one.gpus)
    (told,) = said(machine.hear(solved(one)), SetShares)
    machine.fact(GLOBAL_LOG, SharesSet(told.shares, policy=told.policy, sequence=told.sequence))
    assert [] == asked(machine, seconds(600))
    machine.hear(LogHeard(US_LOG))
    (one,) = asked(machine)
    assert (3, 2) == one.gpus


def test_packed_job_has_no_share_on_nodes_that_are_too_narrow(start: Start) -> None:
    """Its two tasks fit on two nodes of one GPU, and not on one."""
    machine = start(Planner((US, EU)))
    machine.fact(US_LOG, pool_nodes(2))
    machine.fact(EU_LOG, pool_nodes(1, 2, "K80"))
    spec = shared(tasks=2)
    (job,) = spec.jobs
    packed = replace(spec, jobs=(replace(job, topology=Topology(pack=Extent.NODE)),))
    machine.fact(GLOBAL_LOG, submitted(1, spec=packed))
    (one,) = asked(machine)
    (kind,) = one.classes
    assert (True, False) == tuple(speed > 0 for speed in kind.speeds)


def test_answer_that_is_late_is_dropped(start: Start) -> None:
    """Of two planners the first wins: shares that were set meanwhile are another revision."""
    machine = a_planner(start)
    (one,) = asked(machine)
    machine.fact(GLOBAL_LOG, SharesSet(replace(shares_of(one), revision=1), policy="max_min"))
    assert [] == said(machine.hear(solved(one)), SetShares)


def test_answer_of_a_policy_that_was_replaced_is_dropped(start: Start) -> None:
    """The shares of the old policy are never told as those of the new one, which is solved at once."""
    machine = a_planner(start)
    (one,) = asked(machine)
    machine.fact(GLOBAL_LOG, PolicySet(SharingSettings("max_throughput"), 1))
    assert [] == said(machine.hear(solved(one)), SetShares)
    (again,) = asked(machine, Nanoseconds(1))
    assert "max_throughput" == again.policy


def test_solver_that_fails_is_asked_later_and_later(start: Start) -> None:
    """G31: shares that hold stay; after each failure in a row the wait is twice as long, and silence is a failure too."""
    machine = a_planner(start)
    (one,) = asked(machine)
    machine.hear(unsolved(one))
    assert [] == asked(machine, Nanoseconds(SHARES_RETRY - 1))
    assert 1 == len(asked(machine, Nanoseconds(1)))
    assert [] == asked(machine, Nanoseconds(SHARES_SPAN + 2 * SHARES_RETRY - 1)), "it did not answer"
    assert 1 == len(asked(machine, Nanoseconds(1)))


def test_without_a_solver_nothing_is_asked(start: Start) -> None:
    """The queue then gives each job an equal part."""
    machine = a_planner(start)
    (one,) = asked(machine)
    machine.hear(unsolved(one, "no solver is installed", is_for_good=True))
    machine.fact(GLOBAL_LOG, a_submission(2))
    assert [] == asked(machine, seconds(3_600))


def shown(machine: Machine[Any]) -> ConcernShown:
    """Return what the planner tells of its solver."""
    return said_once(machine.hear(ShowConcern("shares")), ConcernShown)


def test_reason_of_a_failure_is_told_to_operators(start: Start) -> None:
    """How often in a row, why the newest, and when it is tried again; nothing of it once shares are set."""
    machine = a_planner(start)
    (one,) = asked(machine)
    assert (True, 0, "") == (shown(machine).is_solving, shown(machine).failures, shown(machine).why)
    machine.hear(unsolved(one, "w-3: it has 4 GPUs"))
    assert ConcernShown(True, False, 1, "w-3: it has 4 GPUs", SHARES_RETRY) == shown(machine)
    (one,) = asked(machine, SHARES_RETRY)
    assert [] == asked(machine, SHARES_SPAN)
    assert (2, "the solver does not answer") == (shown(machine).failures, shown(machine).why)
    (one,) = asked(machine, Nanoseconds(2 * SHARES_RETRY))
    (told,) = said(machine.hear(solved(one)), SetShares)
    for _ in range(SHARES_SAID_MAX):
        machine.wait(COMMAND_SAY_AGAIN)
    assert (3, "the queue does not record the shares that were solved") == (
        shown(machine).failures,
        shown(machine).why,
    )
    machine.fact(GLOBAL_LOG, SharesSet(told.shares, policy=told.policy, sequence=told.sequence))
    assert (0, "") == (shown(machine).failures, shown(machine).why)


def test_missing_solver_is_told_to_operators(start: Start) -> None:
    """It is not tried again, and says so."""
    machine = a_planner(start)
    (one,) = asked(machine)
    machine.hear(unsolved(one, "no solver is installed", is_for_good=True))
    assert ConcernShown(False, False, 1, "no solver is installed", Nanoseconds(-1)) == shown(machine)


def test_other_policy_is_solved_at_once_after_failures(start: Start) -> None:
    """However long the wait after a policy that failed: also if that fails while the other is set already."""
    machine = a_planner(start)
    for failures in range(4):
        (one,) = asked(machine, Nanoseconds(SHARES_RETRY << failures >> 1 if failures else SHARES_LOOK))
        machine.hear(unsolved(one))
    machine.fact(GLOBAL_LOG, PolicySet(SharingSettings("max_throughput"), 1))
    (one,) = asked(machine)
    assert "max_throughput" == one.policy
    machine.fact(GLOBAL_LOG, PolicySet(SharingSettings("makespan"), 2))
    machine.hear(unsolved(one))
    (one,) = asked(machine, Nanoseconds(1))
    assert ("makespan", 0) == (one.policy, shown(machine).failures)


def test_policy_that_reads_time_is_solved_before_each_round(start: Start) -> None:
    """G8: by job, with the steps that are left and the age; once for each round that begins, and in time for it."""
    machine = a_planner(start)
    machine.fact(GLOBAL_LOG, PolicySet(SharingSettings("finish_time"), 1))
    (one,) = asked(machine)
    (job,) = one.classes
    assert ("w-1", 9_000) == (job.name, job.steps)
    (told,) = said(machine.hear(solved(one)), SetShares)
    machine.fact(GLOBAL_LOG, SharesSet(told.shares, policy=told.policy))
    number = machine.now // ROUND_SPAN + 1
    machine.wake(type(machine.now)(number * ROUND_SPAN))
    machine.fact(GLOBAL_LOG, RoundBegun(number, (COLUMN,), {WorkloadId("w-1"): 0}, (), seconds(60)))
    assert [] == asked(machine, Nanoseconds(ROUND_SPAN - SHARES_AHEAD - seconds(1)))
    (one,) = asked(machine, seconds(1))
    assert one.classes[0].age > seconds(300)


def test_planner_that_starts_again_asks_for_the_same(start: Start) -> None:
    """G8, G32: ages, steps that are left and the shares that hold are all in the log, so that a restart changes no share."""
    machine = a_planner(start, jobs=2)
    machine.fact(GLOBAL_LOG, PolicySet(SharingSettings("finish_time"), 1))
    (one,) = asked(machine)
    (told,) = said(machine.hear(solved(one)), SetShares)
    machine.fact(
        GLOBAL_LOG,
        SharesSet(told.shares, policy=told.policy),
        WorkloadAwarded(WorkloadId("w-1"), 1, US, 0, ()),
        AttemptClosed(WorkloadId("w-1"), 1, EndCause.ROUND_OVER, Phase.PENDING, US, 1, 1, 4_000),
        a_submission(3),
    )
    machine.now = Instant(machine.now + seconds(90))
    again = machine.restart()
    (before,), (after,) = asked(machine), asked(again)
    assert [5_000, 9_000, 9_000] == [job.steps for job in after.classes]
    assert before == after


def test_steps_that_nobody_told_are_expected(start: Start) -> None:
    """A job without `steps` has those of its predicted run time at its fastest type, and less what it saved; `makespan` is solved all the same."""
    machine = start(Planner((US,)))
    machine.fact(GLOBAL_LOG, RegionAdded(US))
    machine.fact(US_LOG, pool_nodes(2))
    machine.fact(GLOBAL_LOG, PolicySet(SharingSettings("makespan"), 1))
    for number, steps in ((1, 0), (2, 600)):
        speeds = {"V100": 9_000_000, "K80": 3_000_000}
        machine.fact(GLOBAL_LOG, submitted(number, spec=shared(number, speeds=speeds, steps=steps)))
    (one,) = asked(machine)
    expected = 9 * RUN_TIME_DEFAULT // SECOND
    assert [expected, 600] == [job.steps for job in one.classes]
    assert "highs" in shares_of(one).by.lower()
    saved = AttemptClosed(WorkloadId("w-1"), 1, EndCause.ROUND_OVER, Phase.PENDING, US, 1, saved_step=100)
    machine.fact(GLOBAL_LOG, saved)
    machine.hear(unsolved(one, "again"))
    (one,) = asked(machine, SHARES_RETRY)
    assert expected - 100 == one.classes[0].steps


def test_more_steps_are_saved_than_were_told(start: Start) -> None:
    """The job counts as having one step left, and the policy is solved."""
    machine = a_planner(start)
    machine.fact(GLOBAL_LOG, PolicySet(SharingSettings("sjf"), 1))
    saved = AttemptClosed(WorkloadId("w-1"), 1, EndCause.ROUND_OVER, Phase.PENDING, US, 1, saved_step=9_001)
    machine.fact(GLOBAL_LOG, saved)
    (one,) = asked(machine)
    assert [1] == [job.steps for job in one.classes]
    assert shares_of(one).classes


def test_nobody_is_left(start: Start) -> None:
    """The last job ends, and nothing is solved for nobody."""
    machine = a_planner(start)
    machine.fact(GLOBAL_LOG, WorkloadCancelled(WorkloadId("w-1")))
    assert [] == asked(machine, seconds(60))


def test_entities_weigh_what_their_tenants_are_entitled_to(start: Start) -> None:
    """Of all GPU types together; one GPU at least; what an operator set comes first, and each change is solved anew."""
    machine = a_planner(start)
    ads = replace(shared(2), tenant=TenantName("ads"))
    machine.fact(
        GLOBAL_LOG,
        submitted(2, spec=ads),
        TenantSet(TenantName("ads"), 1, TenantSettings()),
        EntitlementSet(TenantName("ads"), 2, "H100", Entitlement(3)),
        EntitlementSet(TenantName("ads"), 3, "V100", Entitlement(1)),
    )
    (one,) = asked(machine)
    assert (("ads", 4_000), ("default", 1_000)) == one.entity_weights
    machine.fact(GLOBAL_LOG, EntitlementSet(TenantName("ads"), 4, "V100", Entitlement(0)))
    machine.hear(solved(one))
    (told,) = said(machine.wait(COMMAND_SAY_AGAIN), SetShares)
    machine.fact(GLOBAL_LOG, SharesSet(told.shares, policy=told.policy, sequence=told.sequence))
    (again,) = asked(machine)
    assert (("ads", 3_000), ("default", 1_000)) == again.entity_weights
    settings = SharingSettings(entity_weights={"default": 7_000})
    machine.hear(solved(again))
    machine.fact(GLOBAL_LOG, PolicySet(settings, 1))
    (told,) = said(machine.wait(COMMAND_SAY_AGAIN), SetShares)
    machine.fact(GLOBAL_LOG, SharesSet(told.shares, policy=told.policy, sequence=told.sequence))
    (last,) = asked(machine)
    assert (("ads", 3_000), ("default", 7_000)) == last.entity_weights


def test_planner_goes_on_after_shares_that_came_when_nobody_was_left(start: Start) -> None:
    """The last job ends while its shares are on their way: they are told no more, and the next job has its own."""
    machine = a_planner(start)
    (one,) = asked(machine)
    (told,) = said(machine.hear(solved(one)), SetShares)
    machine.fact(GLOBAL_LOG, WorkloadCancelled(WorkloadId("w-1")))
    machine.fact(GLOBAL_LOG, SharesSet(told.shares, policy=told.policy, sequence=told.sequence))
    assert [] == said(machine.wait(seconds(600)), SetShares)
    machine.fact(GLOBAL_LOG, a_submission(2))
    assert 1 == len(asked(machine))


def test_planner_goes_on_after_a_failure_when_nobody_was_left(start: Start) -> None:
    """The last job ends while the planner waits to ask again: the next job is solved for as if nothing had failed."""
    machine = a_planner(start)
    (one,) = asked(machine)
    machine.hear(unsolved(one))
    machine.fact(GLOBAL_LOG, WorkloadCancelled(WorkloadId("w-1")))
    assert [] == asked(machine, seconds(600))
    machine.fact(GLOBAL_LOG, a_submission(2))
    assert 1 == len(asked(machine))


def test_column_whose_nodes_are_too_narrow_for_a_task_has_no_share(start: Start) -> None:
    """Two V100 on a node each have no room for a task of two GPUs, however many nodes there are; two tasks of one have."""
    machine = a_planner(start, jobs=0)
    wide = shared(1, speeds={"V100": 9_000_000})
    (job,) = wide.jobs
    machine.fact(GLOBAL_LOG, submitted(1, replace(wide, jobs=(replace(job, need=amount(2)),))))
    assert [] == asked(machine)
    machine.fact(GLOBAL_LOG, submitted(2, shared(2, tasks=2, speeds={"V100": 9_000_000})))
    (one,) = asked(machine)
    assert [2] == [kind.gpus for kind in one.classes]


def test_shares_too_large_for_a_message_are_not_sent(start: Start) -> None:
    """The reason is told where an operator looks, and the present shares stay."""
    machine = a_planner(start)
    (one,) = asked(machine)
    classes = tuple(ClassShares(f"{number} {'m' * 120}", ((0, 1),)) for number in range(8_000))
    answer = PoolShares(one.revision, (COLUMN,), (2,), classes, "highs", one.changes)
    assert [] == said(machine.hear(replace(solved(one), answer=answer)), SetShares)
    assert "shares of 8000 classes are too large for a message" in shown(machine).why


def test_steps_that_are_left_follow_checkpoints_of_attempts_that_run(start: Start) -> None:
    """A job that stays for many rounds has fewer steps left after each checkpoint, though no attempt of it has ended."""
    machine = a_planner(start)
    machine.fact(GLOBAL_LOG, PolicySet(SharingSettings("finish_time"), 1))
    claim = replace(a_claim("w-1"), region=US, kind=Kind.SHARED, spreads=(a_spread({0: 1}),))
    machine.fact(US_LOG, ClaimGranted(WorkloadId("w-1"), 1, claim, is_merged=False))
    machine.fact(US_LOG, CheckpointCommitted(WorkloadId("w-1"), 1, 3_000))
    (one,) = asked(machine)
    assert [6_000] == [job.steps for job in one.classes]
