"""Gangs that take turns in a shared pool: what their programs told, and what each received of what it was owed."""

from msgspec.structs import replace

from core.events.queue import AttemptClosed, WorkloadAwarded, WorkloadBound, WorkloadSubmitted
from core.events.sharing import PicksAdded, RoundBegun, SharesSet
from core.fact import Event, Fact
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.sharing import ClassShares, PoolShares, ShareColumn, ShareSpec
from core.nouns.workload import EndCause, Kind, Phase, WorkloadSpec
from core.sharing.classes import class_of
from scenarios.play.live_gangs import GangLook, Point
from scenarios.play.live_turns import TurnsOf, turns_of
from tests.builders import a_job, a_spec

US = RegionName("us")
COLUMN = ShareColumn(US, "V100")
W1, W2 = WorkloadId("w-1"), WorkloadId("w-2")


def test_program_that_goes_on_where_it_saved() -> None:
    """Every attempt's last step is the step at which the next resumes: nothing was made again."""
    look = GangLook("charlm")
    look.take(1, b"step 10 loss 3.5 seconds 1.0\nstep 20 loss 3.0 seconds 2.0\nleaving at step 24\n")
    look.take(2, b"resumed at step 24\nstep 25 loss 2.9 seconds 0.1\n")
    look.take(2, b"step 40 loss 2.5 seconds 1.0\nfinished step 40 loss 2.5\n")
    assert [Point(1, 10, 3.5), Point(1, 20, 3.0), Point(2, 25, 2.9), Point(2, 40, 2.5)] == look.curve
    assert ({2: 24}, 24, 0) == (look.resumed, look.resumed_step, look.steps_lost)


def test_program_that_was_killed_makes_steps_again() -> None:
    """Once 15, and from the begin all 40 of the attempt before; an attempt that told nothing is passed over."""
    look = GangLook("charlm")
    look.take(1, b"step 40 loss 3.5 seconds 1.0\n")
    look.take(3, b"resumed at step 25\nstep 30 loss 3.0 seconds 2.0\n")
    assert 15 == look.steps_lost
    look.take(4, b"step 1 loss 4.0 seconds 0.1\n")
    assert 15 + 30 == look.steps_lost


def shared(number: int, weight: int) -> WorkloadSpec:
    """A job of one GPU."""
    spec = a_spec(a_job(1, 1, gpu_type="V100"), name=f"m{number}", kind=Kind.SHARED)
    return replace(spec, grace=Nanoseconds(SECOND), share=ShareSpec("m", {"V100": 1}, 0, weight))


FIRST, SECOND_ = shared(1, 1000), shared(2, 3000)


def told(*events: tuple[float, Event]) -> list[Fact]:
    """The queue's log."""
    return [
        Fact(GLOBAL_LOG, number, Instant(round(at * SECOND)), "", "", event)
        for number, (at, event) in enumerate(events, 1)
    ]


def runs(at: float, workload: WorkloadId, epoch: int = 1) -> list[tuple[float, Event]]:
    """It is awarded, and all of it runs."""
    return [
        (at, WorkloadAwarded(workload, epoch, US, 0, ())),
        (at, WorkloadBound(workload, epoch, US, 1)),
    ]


def leaves(at: float, workload: WorkloadId, cause: EndCause, phase: Phase) -> tuple[float, Event]:
    """Its first attempt is over."""
    return at, AttemptClosed(workload, 1, cause, phase, US, 1)


def shares() -> SharesSet:
    """A quarter of the time for the first, three quarters for the second."""
    classes = (
        ClassShares(class_of(FIRST), ((0, 250_000),)),
        ClassShares(class_of(SECOND_), ((0, 750_000),)),
    )
    return SharesSet(PoolShares(1, (COLUMN,), (1,), classes, "HiGHS"))


def begun(number: int, joins: dict[WorkloadId, int], *gone: WorkloadId) -> RoundBegun:
    """A round."""
    return RoundBegun(number, (COLUMN,), joins, gone, Nanoseconds(SECOND))


def test_time_counts_while_all_are_there() -> None:
    """From the first round with both on, until one has ended: 8 s of the first and 30 s of the second, of 40 that were owed."""
    facts = told(
        (0, WorkloadSubmitted(W1, 1, FIRST, "ada", "1")),
        (1, PicksAdded((COLUMN,), {W1: 0})),
        *runs(2, W1),
        (5, WorkloadSubmitted(W2, 2, SECOND_, "ada", "2")),
        (6, shares()),
        (10, begun(1, {})),
        (18, begun(2, {W2: 0}, W1)),
        leaves(18, W1, EndCause.ROUND_OVER, Phase.PENDING),
        *runs(20, W2),
        leaves(50, W2, EndCause.COMPLETED, Phase.COMPLETED),
        *runs(51, W1, 2),
    )
    found = turns_of(facts, {W1: GangLook("one"), W2: GangLook("two", resumed={2: 7})})
    assert [
        TurnsOf("one", W1, 2, 8.0, 10.0, 8 / 38, 0.25, 0, []),
        TurnsOf("two", W2, 1, 30.0, 30.0, 30 / 38, 0.75, 0, [7]),
    ] == found
    assert [round(abs(8 / 38 / 0.25 - 1), 6), round(30 / 38 / 0.75 - 1, 6)] == [
        round(one.share_error, 6) for one in found
    ]


def test_gangs_that_were_never_there_together_have_no_turns() -> None:
    """Nothing was owed to both at one time."""
    facts = told((0, WorkloadSubmitted(W1, 1, FIRST, "ada", "1")), (1, shares()), (10, begun(1, {W1: 0})))
    assert [] == turns_of(facts, {W1: GangLook("one"), W2: GangLook("two")})
    assert [] == turns_of(facts, {})
