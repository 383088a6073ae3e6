"""What the queue records of shared pools when it is told: settings by an operator, and shares by a planner."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.codec import encode
from core.component import Decision
from core.events.sharing import PolicySet, SharesSet
from core.messages.base import Answer, Refused
from core.messages.sharing import PolicyAnswered, SetPolicy, SetShares, SharesAnswered
from core.nouns.instant import seconds
from core.nouns.limits import FACT_BYTES_MAX, MESSAGE_BYTES_MAX
from core.nouns.reasons import Reason
from core.nouns.sharing import WHOLE, ClassShares, PoolShares, ShareColumn, SharingSettings
from core.sharing.classes import class_of
from tests.builders import US
from tests.components.support.job_queue import W1, Start, submit
from tests.components.support.machine import Machine
from tests.components.support.shared_pool import a_pool_queue, begun, next_round, shared, starts, take_turns
from tests.matching import facts

COLUMN = ShareColumn(US, "V100")


def shares_of(machine: Machine[Any], **by_job: int) -> PoolShares:  # Any: a queue's state
    """The next shares: by id of job, millionths of its time."""
    classes = tuple(ClassShares(name.replace("w", "w-"), ((0, part),)) for name, part in by_job.items())
    revision = machine.state.image.sharing.shares.revision + 1
    return PoolShares(revision, (COLUMN,), (1,), classes, "highs", machine.state.image.sharing.changes)


def reply(decision: Decision) -> object:
    """Return the answer."""
    (answer,) = [one for one in decision.messages if isinstance(one, Answer)]
    return answer


def tell(machine: Machine[Any], shares: PoolShares, policy: str = "max_min") -> object:
    """Return the answer to shares."""
    decision = machine.hear(SetShares(shares, policy, 1))
    return reply(decision)


def test_settings_are_set_once(start: Start) -> None:
    """Set again, they are answered and not recorded; by someone who saw older ones, they are refused."""
    queue = a_pool_queue(start)
    settings = SharingSettings("makespan", round_span=seconds(60))
    decision = queue.hear(SetPolicy(settings, 0, "ada"))
    assert [PolicySet(settings, 1, "ada")] == facts(decision)
    assert PolicyAnswered(settings, 1) == reply(decision)
    for revision in (0, 1):
        again = queue.hear(SetPolicy(settings, revision, "ada"))
        assert ([], PolicyAnswered(settings, 1)) == (facts(again), reply(again))
    other = reply(queue.hear(SetPolicy(SharingSettings("fifo"), 0, "eve")))
    assert isinstance(other, Refused)
    assert Reason.SUPERSEDED is other.reason


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"policy": "lottery"}, "policy"),
        ({"policy": "../x.py"}, "policy"),
        ({"round_span": seconds(1)}, "round_span"),
        ({"round_span": seconds(100_000)}, "round_span"),
        ({"stay": -1}, "stay"),
        ({"entity_weights": {"a": 0}}, "entity_weights"),
    ],
)
def test_settings_that_cannot_be_are_refused(start: Start, changes: dict[str, Any], named: str) -> None:
    """Each is named, and nothing is set."""
    queue = a_pool_queue(start)
    decision = queue.hear(SetPolicy(replace(SharingSettings(), **changes), 0))
    refused = reply(decision)
    assert isinstance(refused, Refused)
    assert (Reason.INVALID, []) == (refused.reason, facts(decision))
    (problem,) = refused.problems
    assert problem.startswith(named)


def test_rounds_go_by_the_shares_that_a_planner_tells(start: Start) -> None:
    """Of two jobs on one GPU the one with three quarters of the time runs three of four rounds, within the credit for staying."""
    queue = a_pool_queue(start)
    submit(queue, shared(1, model="a"))
    submit(queue, shared(2, model="b"))
    starts(queue, queue.wake(), W1)
    decision = queue.hear(SetShares(shares_of(queue, w1=750_000, w2=250_000), "max_min", 1))
    assert SharesAnswered(queue.state.image.sharing.shares.revision) == reply(decision)
    ran, epochs = take_turns(queue, W1, 40)
    assert 30 == pytest.approx(ran[W1], abs=4)
    assert epochs.total() <= 16


def test_of_two_planners_the_first_wins(start: Start) -> None:
    """Shares that follow on older ones are refused, and so are those of a policy that is no more."""
    queue = a_pool_queue(start)
    submit(queue, shared())
    queue.wake()
    shares = shares_of(queue, w1=WHOLE)
    assert isinstance(tell(queue, shares), SharesAnswered)
    for told, policy in ((shares, "max_min"), (shares_of(queue, w1=0), "makespan")):
        refused = tell(queue, told, policy)
        assert isinstance(refused, Refused)
        assert Reason.SUPERSEDED is refused.reason
    assert {COLUMN.name: WHOLE} == queue.state.image.sharing.targets_of(W1)


def test_shares_that_cannot_be_are_refused(start: Start) -> None:
    """More than all of a job's time, less than nothing, a column that is not there or twice, or where the job may not run."""
    queue = a_pool_queue(start)
    submit(queue, shared())
    queue.wake()
    good = shares_of(queue, w1=WHOLE)
    elsewhere = replace(good, columns=(ShareColumn(US, "H100"),))
    bad = [
        shares_of(queue, w1=WHOLE + 1),
        shares_of(queue, w1=-1),
        replace(good, classes=(ClassShares("w-1", ((1, 1),)),)),
        replace(good, columns=(COLUMN, COLUMN), gpus=(1, 1)),
        replace(good, gpus=()),
        elsewhere,
    ]
    for shares in bad:
        refused = tell(queue, shares)
        assert isinstance(refused, Refused), shares
        assert Reason.INVALID is refused.reason
    ahead = reply(queue.hear(SetShares(good, "max_min", queue.state.sequence + 1)))
    assert isinstance(ahead, Refused)
    assert isinstance(tell(queue, replace(good, classes=(ClassShares("gone", ((0, 1),)),))), SharesAnswered)


def test_share_that_is_missing_is_an_equal_part(start: Start) -> None:
    """Of a class that comes, or a job beside others of its class whose shares are each its own, until a planner tells it."""
    queue = a_pool_queue(start)
    submit(queue, shared(1, model="a"))
    queue.wake()
    tell(queue, shares_of(queue, w1=600_000))
    for model in ("a", "b"):
        submit(queue, shared(2, model=model))
        assert [] == [event for event in facts(queue.wake()) if isinstance(event, SharesSet)]
        decision = next_round(queue)
        (told,) = [event for event in facts(decision) if isinstance(event, SharesSet)]
        assert ([class_of(shared(model=model))], True) == (
            [one.name for one in told.shares.classes],
            told.is_more,
        )
        assert begun(decision).number == queue.state.image.sharing.number
    sharing = queue.state.image.sharing
    assert [600_000, 500_000, 333_333] == [sharing.targets_of(job)[COLUMN.name] for job in sharing.jobs]
    assert "highs" == sharing.shares.by, "these were only added"


def test_shares_of_ten_thousand_jobs_are_several_facts(start: Start) -> None:
    """Each as large as a fact may be, or smaller; together they are what was told, and the message is no larger than one may be."""
    queue = a_pool_queue(start)
    submit(queue, shared())
    queue.wake()
    classes = tuple(ClassShares(f"w-{number}", ((0, 99), (1, 1))) for number in range(1, 10_001))
    columns = (COLUMN, ShareColumn(US, "K80"))
    changes, revision = queue.state.image.sharing.changes, queue.state.image.sharing.shares.revision + 1
    command = SetShares(PoolShares(revision, columns, (1, 0), classes, "highs", changes), "max_min", 1)
    assert len(encode(command)) < MESSAGE_BYTES_MAX
    told: list[Any] = facts(queue.hear(command))
    assert [False, True] == [event.is_more for event in told][:2]
    assert all(len(encode(event)) <= FACT_BYTES_MAX for event in told)
    assert classes == tuple(one for event in told for one in event.shares.classes)
    sharing = queue.state.image.sharing
    assert (10_000, revision) == (len(sharing.targets), sharing.shares.revision)
    assert isinstance(reply(queue.hear(command)), Refused), "they are recorded once"
