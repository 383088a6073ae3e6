"""Rounds of shared pools as they are explained: chosen again from a real queue's log, and the time that its jobs received."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.planner.component import Planner
from core.estimating.prediction import PredictedBy
from core.events.region import AttemptEnded
from core.events.sharing import PicksAdded, RoundBegun, SharesSet
from core.images import GlobalImage, Image
from core.images.sharing import Measured
from core.messages.queue import CancelWorkload, HoldWorkload, ReleaseWorkload, Submitted, SubmitWorkload
from core.messages.sharing import SetPolicy, SetShares
from core.messages.tenants import SetBudget, SetTenant
from core.nouns.ids import GLOBAL_LOG, TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.reasons import Reason
from core.nouns.sharing import ROUND_SPAN, WHOLE, ClassShares, PoolShares, ShareColumn, SharingSettings
from core.nouns.tenant import Budget, TenantSettings
from core.nouns.workload import EndCause
from mizzen.actions.sharing import SharingWish, set_sharing
from mizzen.connect.plane import Plane, ask
from mizzen.terminal.output import CommandError
from mizzen.views.logs.image_view import FACTS_MAX, image_at
from mizzen.views.policies.pool_history import newest_round, received_time, seen, seen_of_job
from mizzen.views.policies.pool_status import jobs_lines, jobs_rows, shares_problem
from mizzen.views.policies.received_time import JobTime, Part, ReceivedTime, parts_of
from mizzen.views.policies.round_choice import SECTIONS, ChosenRound, chosen_again, lines_of, outlook_of
from mizzen.views.workloads.explain import builtins_of, explained
from mizzen.views.workloads.explain import lines_of as lines_of_all
from runtime.host import Host
from scenarios.worlds.simulated.solver import SimulatedSolver
from store.rows import row_of
from store.sqlite import SqliteStore
from tests.builders import EU, US, US_LOG, attempt
from tests.components.support.job_queue import W1, W2, W3, submit
from tests.components.support.machine import Machine
from tests.components.support.shared_pool import (
    A,
    B,
    a_pool_queue,
    a_queue_of_pairs,
    begun,
    next_round,
    owe,
    pool_nodes,
    shared,
    starts,
    take_turns,
)
from tests.mizzen.half_plane import half_plane
from tests.runtime.aids import Place, Running, virtual

Queue = Machine[Any]  # Any: a queue's state
COLUMN = ShareColumn(US, "V100")


def rounds_of(queue: Queue) -> Iterator[ChosenRound]:
    """Yield each round of a queue's log, chosen again."""
    image = GlobalImage.empty(SECTIONS)
    for fact in queue.logs[GLOBAL_LOG]:
        if isinstance(fact.event, RoundBegun):
            yield chosen_again(image, fact)
        image.fold(fact)


def told(queue: Queue, workload: WorkloadId, now: Instant | None = None) -> list[str]:
    """Return why a job is not in the newest round, in lines."""
    *_, newest = rounds_of(queue)
    found = outlook_of(newest, queue.state.image.sharing, workload)
    assert found is not None, workload
    return lines_of(found, now or queue.now)


def set_shares(queue: Queue, parts: dict[str, int], gpus: int = 1) -> None:
    """A planner tells shares, in millionths by job."""
    sharing = queue.state.image.sharing
    classes = tuple(ClassShares(job, ((0, part),)) for job, part in parts.items())
    shares = PoolShares(sharing.shares.revision + 1, (COLUMN,), (gpus,), classes, "highs", sharing.changes)
    queue.hear(SetShares(shares, "max_min", 1))


def one_runs_and_one_waits() -> Queue:
    """Two like jobs at the begin of a round, and one GPU."""
    queue = a_pool_queue(Machine)
    submit(queue, shared(1))
    starts(queue, queue.wake(), W1)
    submit(queue, shared(2))
    queue.wake()
    next_round(queue)
    return queue


def test_every_round_is_chosen_again_as_it_was() -> None:
    """Over rounds in which two jobs take turns, one is held, and a third is cancelled and a fourth of another class comes."""
    queue = a_pool_queue(Machine)
    submit(queue, shared(1, model="a"))
    submit(queue, shared(2, model="b"))
    starts(queue, queue.wake(), W1)
    set_shares(queue, {"w-1": 750_000, "w-2": 250_000})
    ran, _ = take_turns(queue, W1, 20)
    submit(queue, shared(3, model="c"))
    for _ in range(3):
        next_round(queue)
    queue.hear(CancelWorkload(W3))
    queue.hear(HoldWorkload(W2, 0))
    next_round(queue)
    found = list(rounds_of(queue))
    assert len(found) >= ran.total() + 4
    assert [] == [one for one in found if not one.is_alike]
    assert [event.number for event in begins(queue)] == [one.number for one in found]


def begins(queue: Queue) -> list[RoundBegun]:
    """Return the rounds of a queue's log."""
    return [fact.event for fact in queue.logs[GLOBAL_LOG] if isinstance(fact.event, RoundBegun)]


def test_choice_that_the_log_does_not_explain_is_said() -> None:
    """A round that picked another job than its image says is shown as one that cannot be worked out again."""
    queue = one_runs_and_one_waits()
    image, wrong = GlobalImage.empty(SECTIONS), None
    for fact in queue.logs[GLOBAL_LOG]:
        if isinstance(fact.event, RoundBegun):
            event = RoundBegun(fact.event.number, fact.event.columns, {W2: 0}, (W1,), seconds(30))
            wrong = chosen_again(
                image, type(fact)(fact.log, fact.sequence, fact.at, "", "", event, fact.heard_at)
            )
        image.fold(fact)
    assert wrong is not None
    assert not wrong.is_alike


def test_holder_of_the_gpu_stands_before_by_rounds_of_lag() -> None:
    """With the rounds that staying is worth; and when the next round begins."""
    queue = one_runs_and_one_waits()
    head, column, holder = told(queue, W2)
    number = begins(queue)[-1].number
    assert f"why it is not in round {number}, which began 0:00 ago (global " in head
    assert head.endswith("; the next round begins in 6:00:")
    assert (
        "  us/V100: 0 of 1 GPUs idle; it is to have 50.0% of its time there, and was owed 0.50 rounds"
        == column
    )
    assert holder.startswith("    w-1 has 1, and stood ")
    assert holder.endswith(" rounds before it, those for staying among them")
    sharing = queue.state.image.sharing
    lags = [sharing.lags[job][COLUMN.name] / WHOLE for job in (W1, W2)]
    assert f"stood {lags[0] + 2 - lags[1]:.2f} rounds" in holder


def test_turn_counts_what_a_move_would_cost() -> None:
    """As the queue does: a job that runs stands before others by its pause too, as it was measured."""
    queue = one_runs_and_one_waits()
    image, kind = GlobalImage.empty(SECTIONS), queue.state.image.sharing.jobs[W1].kind
    for fact in queue.logs[GLOBAL_LOG]:
        if isinstance(fact.event, RoundBegun):
            break
        image.fold(fact)
    free = chosen_again(image, fact).turns
    image.sharing.measured[image.sharing.classes[kind].speed_key] = Measured(pause=ROUND_SPAN // 2)
    dear = chosen_again(image, fact).turns
    more = {job: dear[job, COLUMN.name].lag - free[job, COLUMN.name].lag for job in (W1, W2)}
    assert {W1: 0.5, W2: 0.0} == more


def test_two_jobs_on_a_gpu_use_one() -> None:
    """Beside them a GPU is idle, which is too few for a job of two."""
    queue = a_queue_of_pairs(Machine, gpus=2)
    queue.fact(US_LOG, AttemptEnded(*attempt(W2), EndCause.NODE_LOST))
    queue.wake()
    wide = submit(queue, shared(3, tasks=2, model="c"))
    owe(queue, (A, B, WHOLE), (B, A, WHOLE), gpus=2)
    next_round(queue)
    _, column, *_ = told(queue, wide)
    assert column.startswith("  us/V100: 1 of 2 GPUs idle")


def test_job_that_runs_is_in_the_round() -> None:
    """Nothing is told of it, nor of one that is not there."""
    queue = a_pool_queue(Machine)
    submit(queue, shared(1))
    starts(queue, queue.wake(), W1)
    next_round(queue)
    *_, newest = rounds_of(queue)
    assert outlook_of(newest, queue.state.image.sharing, W1) is None
    assert outlook_of(newest, queue.state.image.sharing, WorkloadId("w-9")) is None


def test_wide_job_is_told_that_narrow_ones_behind_it_fit() -> None:
    """It stands before a job that needs fewer GPUs, and has none because one that stays stands before it."""
    queue = a_pool_queue(Machine, pool_nodes(4))
    submit(queue, shared(1, model="a"))
    starts(queue, queue.wake(), W1)
    wide = submit(queue, shared(2, tasks=4, model="b"))
    queue.wake()
    submit(queue, shared(3, model="c"))
    queue.wake()
    set_shares(queue, {"w-1": 900_000, "w-2": 80_000, "w-3": 20_000}, gpus=4)
    next_round(queue)
    assert all(one.is_alike for one in rounds_of(queue))
    lines = "\n".join(told(queue, wide))
    assert "2 of 4 GPUs idle; it is to have 8.0% of its time there" in lines
    assert "w-3 has 1, and stood " in lines
    assert "w-1 has 1, and stood " in lines
    assert "those for staying among them" in lines


def test_job_that_comes_within_a_round_waits_for_the_next() -> None:
    """Until then idle GPUs alone are given out, and none is idle."""
    queue = a_pool_queue(Machine)
    submit(queue, shared(1))
    starts(queue, queue.wake(), W1)
    next_round(queue)
    submit(queue, shared(2))
    queue.wake()
    head, column, holder = told(queue, W2)
    assert head.startswith("it came after round ")
    assert "until then idle GPUs alone are given out" in head
    assert "0 of 1 GPUs idle" in column
    assert "    w-1 has 1" == holder


def test_job_that_is_released_within_a_round_did_not_come_after_it() -> None:
    """It was there, on hold."""
    queue = a_pool_queue(Machine)
    submit(queue, shared(1))
    starts(queue, queue.wake(), W1)
    submit(queue, shared(2))
    queue.hear(HoldWorkload(W2, 0))
    next_round(queue)
    queue.hear(ReleaseWorkload(W2, 1))
    queue.wake()
    head, *_ = told(queue, W2)
    assert ", or could not run then; the next round begins" in head


def test_job_that_rests_is_told() -> None:
    """It waits for no round; and where all rest, no shares are missing."""
    queue = a_pool_queue(Machine)
    submit(queue, shared(1))
    submit(queue, shared(2))
    starts(queue, queue.wake(), W1)
    set_shares(queue, {"w-1": 500_000, "w-2": 500_000})
    queue.hear(HoldWorkload(W2, 0))
    next_round(queue)
    sharing = queue.state.image.sharing
    _, first, second = jobs_lines(sharing, None)
    assert ("runs", "rests") == (first.split("default")[1].split()[0], second.split("default")[1].split()[0])
    assert [False, True] == [one["rests"] for one in jobs_rows(sharing)]
    assert shares_problem(sharing, None)
    queue.hear(CancelWorkload(W1))
    next_round(queue)
    assert sharing.jobs.keys() == {W1, W2}
    assert "" == shares_problem(sharing, None)


def test_tenant_without_budget_is_not_chosen() -> None:
    """The budget is in the log, so the round is chosen again without the job."""
    queue, tenant = a_pool_queue(Machine), TenantName("default")
    queue.hear(SetTenant(tenant, TenantSettings(), 0))
    queue.hear(SetBudget(tenant, Budget(1, seconds(7 * 86_400)), 1))
    submit(queue, shared())
    starts(queue, queue.wake(), W1)
    for _ in range(13):
        if begun(next_round(queue)).leaves:
            break
    else:
        pytest.fail("its budget of an hour is spent, and it stays")
    *_, newest = rounds_of(queue)
    assert newest.is_alike
    assert {} == newest.widths


# Received time.


def received(queue: Queue, now: Instant) -> ReceivedTime:
    """Return what the jobs of a queue received until now."""
    found = ReceivedTime()
    for fact in queue.logs[GLOBAL_LOG]:
        found.take(fact)
    found.until(now)
    return found


def test_received_time_is_counted_from_start_to_end() -> None:
    """By column and from the first round on; and beside it what each was to have, by the shares that held."""
    queue = a_pool_queue(Machine)
    submit(queue, shared(1, model="a"))
    submit(queue, shared(2, model="b"))
    starts(queue, queue.wake(), W1)
    set_shares(queue, {"w-1": 750_000, "w-2": 250_000})
    ran, _ = take_turns(queue, W1, 40)
    now = Instant(queue.now + ROUND_SPAN)
    jobs = received(queue, now).jobs
    first, *_ = begun_at(queue)
    assert [first, first] == [one.since for one in jobs.values()]
    assert {COLUMN.name: 750_000 * (now - first)} == jobs[W1].due
    assert {COLUMN.name: 250_000 * (now - first)} == jobs[W2].due
    for job in (W1, W2):
        assert jobs[job].received[COLUMN.name] == pytest.approx(ran[job] * ROUND_SPAN, rel=1e-3)
    one, two = parts_of(((job, time) for job, time in jobs.items()), now)
    assert (0.75, 0.25) == pytest.approx((one.target, two.target), abs=0.01)
    whole = (now - first) / ROUND_SPAN
    assert ran[W2] / whole == pytest.approx(two.received, rel=1e-3)
    assert two.fairness == pytest.approx(two.received / two.target)
    (both,) = parts_of((("default", time) for time in jobs.values()), now)
    assert 2 == both.jobs
    assert (0.5, 0.5) == pytest.approx((both.target, both.received), abs=0.01)


def begun_at(queue: Queue) -> list[Instant]:
    """Return when the rounds of a queue's log began."""
    return [fact.at for fact in queue.logs[GLOBAL_LOG] if isinstance(fact.event, RoundBegun)]


def test_job_that_ended_is_not_told() -> None:
    """Its time is forgotten with it; one that waits has received nothing."""
    queue = one_runs_and_one_waits()
    queue.fact(US_LOG, AttemptEnded(*attempt(W1), EndCause.COMPLETED))
    queue.wake()
    found = received(queue, Instant(queue.now + ROUND_SPAN))
    assert {W2} == found.jobs.keys()
    assert {} == found.jobs[W2].received
    assert any(isinstance(fact.event, PicksAdded) for fact in queue.logs[GLOBAL_LOG])


def test_no_target_no_fairness() -> None:
    """A job that is to have nothing, and runs on GPUs that are idle, has no fairness to tell; nor has one that no round found."""
    time = JobTime("ads", "m x1", 1)
    time.owe({}, ROUND_SPAN)
    time.run(COLUMN.name, ROUND_SPAN)
    now = Instant(3 * ROUND_SPAN)
    time.close(now)
    found = parts_of([("ads", time), ("maps", JobTime("maps", "m x1", 1))], now)
    assert [Part("ads", 1, 0.0, 1.0)] == found
    assert found[0].fairness is None


def test_wide_jobs_count_by_their_gpus() -> None:
    """Of a tenant with a job of three GPUs that has all its time and one of one GPU that has none, three quarters are received."""
    now = Instant(2 * ROUND_SPAN)
    wide, narrow = JobTime("ads", "m x3", 3), JobTime("ads", "m x1", 1)
    for one in (wide, narrow):
        one.owe({COLUMN.name: 500_000}, ROUND_SPAN)
    wide.run(COLUMN.name, ROUND_SPAN)
    for one in (wide, narrow):
        one.close(now)
    assert [Part("ads", 2, 0.5, 0.75)] == parts_of([("ads", wide), ("ads", narrow)], now)


def test_settings_that_change_the_span_do_not_hide_the_round() -> None:
    """The newest round is the newest that began, whatever its number by another span."""
    queue = one_runs_and_one_waits()
    queue.hear(SetPolicy(SharingSettings(round_span=seconds(60)), 0))
    head, *_ = told(queue, W2)
    assert head.endswith("the next round begins in 1:00:")
    assert any(isinstance(fact.event, SharesSet) for fact in queue.logs[GLOBAL_LOG])


def test_file_of_the_log_tells_the_same(tmp_path: Path) -> None:
    """Where the plane keeps its files here, the queue's is read, and no process is asked for its facts."""
    queue = a_pool_queue(Machine)
    submit(queue, shared(1))
    starts(queue, queue.wake(), W1)
    submit(queue, shared(2))
    next_round(queue)
    facts, now = queue.logs[GLOBAL_LOG], Instant(queue.now + ROUND_SPAN)
    nobody: Any = None  # Any: in place of a bus

    async def write_and_read() -> tuple[dict[WorkloadId, JobTime], Image]:
        keeper = await SqliteStore(tmp_path).open(GLOBAL_LOG, "id")
        await keeper.append([row_of(fact) for fact in facts], 1)
        await keeper.close()
        image = await image_at(nobody, GLOBAL_LOG, facts[-2].sequence, SECTIONS, tmp_path)
        return await received_time(nobody, tmp_path, now), image

    times, image = asyncio.run(write_and_read())
    assert received(queue, now).jobs == times
    expected = GlobalImage.empty(SECTIONS)
    for fact in facts[:-1]:
        expected.fold(fact)
    assert expected.digest() == image.digest()
    with pytest.raises(CommandError, match="the file of global is not here, and 200001 facts are too many"):
        asyncio.run(image_at(nobody, GLOBAL_LOG, FACTS_MAX + 1, SECTIONS, None))


# On a plane.


@virtual
async def test_explained_and_seen_on_a_plane(place: Place) -> None:
    """From its readers; a job without a round, and one of no pool, have no explanation."""
    plane = await half_plane(place, (pool_nodes(),), spec=shared(1))
    assert await newest_round(plane.bus, None) is None, "idle GPUs are given out before the first round"
    second = await ask(plane.bus, SubmitWorkload(shared(2), "ada", ""), Submitted)
    await place.sleep(ROUND_SPAN // SECOND)
    explanation, found = await explained(plane.bus, second.workload)
    assert [] == found.notes
    assert (W2, Reason.WAITS_FOR_ROUND) == (second.workload, found.live and found.live.reason)
    assert explanation.round is not None
    (column,) = explanation.round.columns
    assert ("eu/V100", 1, 0, [W1]) == (
        column.column,
        column.gpus,
        column.idle,
        [one.job for one in column.holders],
    )
    text = "\n".join(lines_of_all(explanation, found.telling.story))
    assert f"why it is not in round {explanation.round.number}" in text
    assert "w-1 has 1, and stood " in text
    told = builtins_of(explanation)
    assert "w-1" == told["round"]["columns"][0]["holders"][0]["job"]
    other, _ = await explained(plane.bus, W1)
    assert other.round is None
    here = Plane("")
    job = await seen_of_job(plane.bus, here, W2)
    assert ([], True) == (job.notes, job.chosen is not None and job.chosen.is_alike)
    assert (W1, W2) == tuple(job.times)
    assert 0 < job.times[W2].since
    assert job.run_time is not None
    assert PredictedBy.DEFAULT == job.run_time.by
    assert (await seen_of_job(plane.bus, here, WorkloadId("w-9"))).chosen is None


@virtual
async def test_policy_that_cannot_be_solved_says_why(place: Place) -> None:
    """G31: AlloX with a job of four GPUs: the shares that hold stay, and `mizzen policy` tells the job and the reason, until another policy is set."""
    plane = await half_plane(place, (pool_nodes(4),), spec=shared(1, tasks=4, steps=900))
    bus = place.network.endpoint("planner")
    clock = place.clock(Instant(place.loop.now_ns()))
    Running(place.loop, Host(Planner((EU,)), bus, clock, doer=SimulatedSolver(1, clock)), bus)
    await place.sleep(20)
    here = Plane("")
    found = await seen(plane.bus, here)
    assert ("max_min", "") == (found.sharing.policy, shares_problem(found.sharing, found.planner))
    await set_sharing(plane.bus, SharingWish(policy="allox"))
    await place.sleep(20)
    found = await seen(plane.bus, here)
    problem = shares_problem(found.sharing, found.planner)
    assert (
        "they are of the policy max_min, until a planner tells those of allox; the planner failed " in problem
    )
    assert "w-1: it has 4 GPUs, and AlloX is for jobs of one GPU alone" in problem
    assert {"eu/V100": WHOLE} == found.sharing.targets_of(W1)
    await set_sharing(plane.bus, SharingWish(policy="makespan"))
    await place.sleep(20)
    found = await seen(plane.bus, here)
    assert ("makespan", "") == (found.sharing.policy, shares_problem(found.sharing, found.planner))
