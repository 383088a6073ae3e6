"""The planner's solver: a process for each problem, whatever becomes of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from core.effects import SolvePrices, SolveShares
from core.messages.base import Message
from core.messages.prices import PricesSolved, PricesUnsolved
from core.messages.sharing import SharesSolved, SharesUnsolved
from core.nouns.ids import RegionName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.mix import WEIGHT, Mix, TypicalShape
from core.nouns.sharing import ShareColumn
from core.pricing.fluid import NodeClass
from core.pricing.problem import PricingProblem
from core.sharing.asked import AskedClass, AskedShares
from runtime.planning import solving
from runtime.planning.solving import SPARE, WORKER, SolverProcess
from tests.builders import EU, GIB

pytestmark = pytest.mark.processes

PATIENCE_SECONDS = 30.0
PROBLEM = PricingProblem(
    (NodeClass("H100", 8, 64_000, 512 * GIB, 4),),
    Mix(
        (
            TypicalShape(1, 0, 4_000, 8 * GIB, ("H100",), WEIGHT // 2),
            TypicalShape(0, 500, 2_000, 4 * GIB, (), WEIGHT // 2),
        )
    ),
    100,
)
LONG = seconds(60)


class Solving:
    """A solver under way, and all that it answered."""

    def __init__(self, solver: SolverProcess) -> None:
        self.solver = solver
        self.answers: asyncio.Queue[Message] = asyncio.Queue()
        solver.attach(self.answers.put_nowait)

    def ask(self, region: RegionName = EU, revision: int = 0) -> None:
        """For prices."""
        self.solver.begin(SolvePrices(region, revision, PROBLEM))

    async def answer(self) -> Message:
        """The next."""
        return await asyncio.wait_for(self.answers.get(), PATIENCE_SECONDS)


@asynccontextmanager
async def solver(command: tuple[str, ...] = WORKER, span: Nanoseconds = LONG) -> AsyncIterator[Solving]:
    """One that runs, and is gone afterwards."""
    one = SolverProcess(command, span)
    task = asyncio.get_running_loop().create_task(one.run())
    try:
        yield Solving(one)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        one.close()


def python(text: str) -> tuple[str, ...]:
    """Another program in the solver's place."""
    return ("-c", text)


async def test_problem_is_solved_in_a_process_of_its_own() -> None:
    """Well formed, of the mix that was asked about, and the same each time."""
    async with solver() as one:
        one.ask()
        one.ask(RegionName("us"), 4)
        first, second = await one.answer(), await one.answer()
    assert isinstance(first, PricesSolved)
    assert isinstance(second, PricesSolved)
    assert (EU, 0, "us", 4) == (first.region, first.revision, second.region, second.revision)
    assert first.prices == second.prices
    assert (PROBLEM.mix, 100) == (first.prices.mix, first.prices.arrivals)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise ValueError('singular')", "exit code 1: ValueError: singular"),
        ("import os; os.kill(os.getpid(), 9)", "exit code -9: it said nothing"),
        ("print('no prices')", "exit code 0: it said nothing"),
        ("", "exit code 0: it said nothing"),
    ],
)
async def test_solver_that_fails_says_why(text: str, why: str) -> None:
    """And the next problem is tried all the same."""
    async with solver(python(text)) as one:
        for revision in (3, 4):
            one.ask(revision=revision)
            assert PricesUnsolved(EU, revision, why) == await one.answer()


async def test_solver_that_hangs_is_killed() -> None:
    """In time to be heard of before it is given up."""
    async with solver(python("import time; time.sleep(600)"), Nanoseconds(SPARE + seconds(0.2))) as one:
        one.ask()
        assert PricesUnsolved(EU, 0, "it took longer than 0.2 s") == await one.answer()


async def test_of_one_region_the_newest_problem_is_solved() -> None:
    """What was asked before, and has not begun, nobody wants any more."""
    async with solver(python("")) as one:
        for revision in (1, 2, 3):
            one.ask(revision=revision)
        answer = await one.answer()
        assert isinstance(answer, PricesUnsolved)
        assert 3 == answer.revision
        assert one.answers.empty()


async def test_requests_of_another_life_are_not_answered() -> None:
    """Once its planner is gone: neither the request that is being solved, nor a waiting one."""
    async with solver(python("")) as one:
        one.ask(revision=0)
        while one.solver._asked:
            await asyncio.sleep(0)
        one.ask(RegionName("us"), revision=1)
        one.solver.detach()
        again = Solving(one.solver)
        again.ask(revision=2)
        answer = await again.answer()
        assert isinstance(answer, PricesUnsolved)
        assert (2, EU) == (answer.revision, answer.region)
        assert again.answers.empty()
        assert one.answers.empty()


async def test_without_a_solver_there_is_no_use_in_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said once for each planner's life: the planner asks no more."""
    monkeypatch.setattr(solving, "SOLVER", "no_such_solver")
    async with solver() as one:
        one.ask()
        answer = await one.answer()
    assert isinstance(answer, PricesUnsolved)
    assert answer.is_for_good


def asked_shares(policy: str = "max_min") -> SolveShares:
    """One job of one GPU that is twice as fast on the one H100 as on the one V100."""
    columns = (ShareColumn(EU, "H100"), ShareColumn(EU, "V100"))
    job = AskedClass("a", 1, 2, 1_000, "ada", (2_000_000, 1_000_000), steps=100)
    return SolveShares(AskedShares(policy, 4, 7, columns, (1, 1), (job,)))


async def test_shares_are_solved_in_a_process() -> None:
    """Two like jobs have half of each GPU, and the answer names what it was asked for."""
    async with solver() as one:
        one.solver.begin(asked_shares())
        answer = await one.answer()
    assert isinstance(answer, SharesSolved)
    shares = answer.shares
    (kind,) = shares.classes
    assert (4, 7, (1, 1)) == (shares.revision, shares.changes, shares.gpus)
    assert ((0, 500_000), (1, 500_000)) == kind.shares


async def test_shares_that_are_not_solved_are_told() -> None:
    """A policy that nobody knows, a process that dies, one that hangs, and one that gives what there is not."""
    say = "import sys, msgspec; from runtime.planning.sharing_worker import *; "
    # Both jobs have all of their time on the one H100.
    too_much = (
        "import sys, numpy as np; from core.sharing.problem import Shares; from runtime.planning.sharing_worker import *; "
        "alone = np.array([[1_000_000, 0]]); none = np.zeros((0, 2), dtype=np.int64); "
        "sys.stdout.buffer.write(frame_of(Answered(Shares(alone, none, by='wrong'))))"
    )
    cases = {
        "lottery": (solving.SHARES_WORKER, LONG, "lottery"),
        "exit code 3": (("-c", "raise SystemExit(3)"), LONG, "max_min"),
        "longer than": (("-c", "import time; time.sleep(60)"), Nanoseconds(SPARE + seconds(0.5)), "max_min"),
        "it gives what there is not": (("-c", too_much), LONG, "max_min"),
        "exit code 1": (("-c", say + "raise ValueError('no')"), LONG, "max_min"),
    }
    for why, (command, span, policy) in cases.items():
        one = SolverProcess(shares_command=command, shares_span=span)
        task = asyncio.get_running_loop().create_task(one.run())
        held = Solving(one)
        one.begin(asked_shares(policy))
        answer = await held.answer()
        assert isinstance(answer, SharesUnsolved), why
        assert why in answer.why
        assert 4 == answer.revision
        assert not answer.is_for_good
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
