"""The planner's solver: a process for each problem, whatever becomes of it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import msgspec
import numpy as np
import pytest
import structlog
from msgspec import Struct
from msgspec.structs import replace

from components.planner.concerns import CONCERNS
from core.codec import encode
from core.data_places.asked import AskedData, AskedJob, AskedTable, PlannedData
from core.effects import Solve
from core.messages.base import Message
from core.messages.solving import Solved, Unsolved
from core.nouns.data import ActionKind, PlannedAction
from core.nouns.ids import DatasetName, RegionName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.mix import WEIGHT, Mix, TypicalShape
from core.nouns.prices import Prices
from core.nouns.sharing import PoolShares, ShareColumn
from core.pricing.fluid import NodeClass
from core.pricing.problem import PricingProblem
from core.sharing.asked import AskedClass, AskedShares
from core.sharing.problem import Shares
from runtime.planning.concerns import SOLVERS, ConcernSolver, solved_at_once
from runtime.planning.solving import SPARE, WORKER, SolverProcess
from runtime.solvers import sharing
from tests.builders import EU, GIB, US

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


def asked_shares(policy: str = "max_min") -> AskedShares:
    """One job of one GPU that is twice as fast on the one H100 as on the one V100."""
    columns = (ShareColumn(EU, "H100"), ShareColumn(EU, "V100"))
    job = AskedClass("a", 1, 2, 1_000, "ada", (2_000_000, 1_000_000), steps=100)
    return AskedShares(policy, 4, 7, columns, (1, 1), (job,))


def asked_data(regions: tuple[RegionName, ...] = (EU, US)) -> AskedData:
    """One dataset in eu, whose readers want twice the GPUs of eu and half of those of us."""
    none = (0,) * len(regions)
    return AskedData(
        regions,
        ("H100",),
        tuple(1_000 for _ in regions),
        none,
        ((8_000,), *((32_000,) for _ in regions[1:])),
        (AskedTable(DatasetName("clicks"), 100, 0, 1, False, 3),),
        (AskedJob((0,), 0, 2, 16_000),),
        bytes_max=100,
        actions_max=10,
        extra_permille=0,
        has_disaster_copies=False,
    )


PROBLEMS: dict[str, Struct] = {"prices": PROBLEM, "shares": asked_shares(), "data": asked_data()}


class Solving:
    """A solver under way, and all that it answered."""

    def __init__(self, solver: SolverProcess) -> None:
        self.solver = solver
        self.answers: asyncio.Queue[Message] = asyncio.Queue()
        solver.attach(self.answers.put_nowait)

    def ask(
        self, concern: str = "prices", key: str = EU, revision: int = 0, problem: Struct | None = None
    ) -> None:
        """For the answer to a problem, the concern's own if none is given."""
        self.solver.begin(Solve(concern, key, revision, problem or PROBLEMS[concern]))

    async def answer(self) -> Message:
        """The next."""
        return await asyncio.wait_for(self.answers.get(), PATIENCE_SECONDS)

    async def failure(self) -> Unsolved:
        """The next, which is none."""
        answer = await self.answer()
        assert isinstance(answer, Unsolved), answer
        return answer


@asynccontextmanager
async def solver(
    command: tuple[str, ...] = WORKER, solvers: Mapping[str, ConcernSolver] = SOLVERS
) -> AsyncIterator[Solving]:
    """One that runs, and is gone afterwards."""
    one = SolverProcess(solvers, command)
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


def with_span(span: Nanoseconds) -> dict[str, ConcernSolver]:
    """All concerns, with so long for a problem beside what a planner needs to hear of it."""
    return {name: replace(one, span=Nanoseconds(SPARE + span)) for name, one in SOLVERS.items()}


def test_every_concern_has_a_solver() -> None:
    """And no solver is of a concern that is gone; a problem comes out of a pipe as it went in."""
    assert sorted(SOLVERS) == sorted(concern.name for concern in CONCERNS)
    for name, problem in PROBLEMS.items():
        assert problem == msgspec.msgpack.decode(encode(problem), type=SOLVERS[name].problem)


async def test_problem_is_solved_in_a_process_of_its_own() -> None:
    """Well formed, of the mix that was asked about, the same each time, and the same as here."""
    async with solver() as one:
        one.ask()
        one.ask(key="us", revision=4)
        first, second = await one.answer(), await one.answer()
    assert isinstance(first, Solved)
    assert isinstance(second, Solved)
    assert (EU, 0, "us", 4) == (first.key, first.revision, second.key, second.revision)
    assert first.answer == second.answer
    assert solved_at_once(Solve("prices", EU, 0, PROBLEM)) == first
    assert isinstance(first.answer, Prices)
    assert (PROBLEM.mix, 100) == (first.answer.mix, first.answer.arrivals)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise ValueError('singular')", "exit code 1: ValueError: singular"),
        ("import os; os.kill(os.getpid(), 9)", "exit code -9: it said nothing"),
        ("print('no prices')", "exit code 0: it said nothing"),
        ("", "exit code 0: it said nothing"),
        ("raise SystemExit(3)", "exit code 3: it said nothing"),
        ("print('it is infeasible', end=''); raise SystemExit(65)", "it is infeasible"),
    ],
)
async def test_solver_that_fails_says_why(text: str, why: str) -> None:
    """And the next problem is tried all the same."""
    async with solver(python(text)) as one:
        for revision in (3, 4):
            one.ask(revision=revision)
            assert Unsolved("prices", EU, revision, why) == await one.answer()


async def test_solver_that_hangs_is_killed() -> None:
    """In time to be heard of before it is given up."""
    async with solver(python("import time; time.sleep(600)"), with_span(seconds(0.2))) as one:
        for concern in PROBLEMS:
            one.ask(concern)
            assert Unsolved(concern, EU, 0, "it took longer than 0.2 s") == await one.answer()


async def test_no_concern_waits_for_another() -> None:
    """While the solver of one concern hangs, any number of problems of another are solved."""
    hang = "import sys, time; time.sleep(600 if sys.argv[1] == 'shares' else 0)"
    async with solver(python(hang)) as one:
        one.ask("shares")
        for revision in range(3):
            one.ask(revision=revision)
            assert Unsolved("prices", EU, revision, "exit code 0: it said nothing") == await one.answer()


async def test_of_one_key_the_newest_problem_is_solved() -> None:
    """What was asked before, and has not begun, nobody wants any more."""
    async with solver(python("")) as one:
        for revision in (1, 2, 3):
            one.ask(revision=revision)
        assert 3 == (await one.failure()).revision
        assert one.answers.empty()


async def test_requests_of_another_life_are_not_answered() -> None:
    """Once its planner is gone: neither the request that is being solved, nor a waiting one."""
    async with solver(python("")) as one:
        one.ask(revision=0)
        while one.solver._asked["prices"]:
            await asyncio.sleep(0)
        one.ask(key="us", revision=1)
        one.solver.detach()
        again = Solving(one.solver)
        again.ask(revision=2)
        answer = await again.failure()
        assert (2, EU) == (answer.revision, answer.key)
        assert again.answers.empty()
        assert one.answers.empty()


async def test_without_a_solver_there_is_no_use_in_asking() -> None:
    """The planner asks no more, and its log says so once for each of its lives, however much it asked for before it heard."""
    none = {name: replace(one, needs="no_such_solver") for name, one in SOLVERS.items()}
    async with solver(solvers=none) as one:
        for life in (one, Solving(one.solver)):
            life.solver.attach(life.answers.put_nowait)
            with structlog.testing.capture_logs() as lines:
                for concern in PROBLEMS:
                    life.ask(concern)
                    life.ask(concern, key="us")
                answers = [await life.failure() for _ in range(4)]
            assert [True] * 4 == [answer.is_for_good for answer in answers]
            assert ["no_solver"] == [line["event"] for line in lines]


async def test_concern_that_needs_no_solver_has_answers_without_one() -> None:
    """Of the others each is told that there is none."""
    some = {
        "prices": replace(SOLVERS["prices"], needs=""),
        "shares": replace(SOLVERS["shares"], needs="no_such_solver"),
    }
    async with solver(solvers=some) as one:
        one.ask("shares")
        assert (await one.failure()).is_for_good
        one.ask()
        assert isinstance(await one.answer(), Solved)


async def test_shares_are_solved_in_a_process() -> None:
    """Two like jobs have half of each GPU, and the answer names what it was asked for."""
    async with solver() as one:
        one.ask("shares", revision=4)
        answer = await one.answer()
    assert isinstance(answer, Solved)
    shares = answer.answer
    assert isinstance(shares, PoolShares)
    (kind,) = shares.classes
    assert (4, 7, (1, 1)) == (shares.revision, shares.changes, shares.gpus)
    assert ((0, 500_000), (1, 500_000)) == kind.shares


async def test_data_is_planned_in_a_process() -> None:
    """The home moves, and the action names the revision from which it was planned; it needs no solver's module."""
    assert not SOLVERS["data"].needs
    async with solver() as one:
        one.ask("data", key="", revision=4)
        answer = await one.answer()
    assert isinstance(answer, Solved)
    plan = answer.answer
    assert isinstance(plan, PlannedData)
    move = PlannedAction(ActionKind.MOVE, DatasetName("clicks"), EU, US, 100, plan.gain, 5, revision=3)
    assert (4, (move,), 100, 2_000, 500) == (
        answer.revision,
        plan.actions,
        plan.bytes,
        plan.before.worst,
        plan.after.worst,
    )


async def test_data_that_cannot_be_planned_is_told() -> None:
    """There are more regions than a word has bits."""
    many = tuple(RegionName(f"r{number}") for number in range(65))
    async with solver() as one:
        one.ask("data", key="", problem=asked_data(many))
        assert "there are 65 regions, and 1 to 64 can be planned for" in (await one.failure()).why


async def test_shares_that_are_not_solved_are_told() -> None:
    """A policy that nobody knows, and one that is not for such jobs."""
    wide = asked_shares("allox")
    wide = replace(wide, gpus=(2, 2), classes=(replace(wide.classes[0], gpus=2),))
    async with solver() as one:
        for problem, why in (
            (asked_shares("lottery"), "lottery: there is no such policy"),
            (wide, "a: it has 2 GPUs"),
        ):
            one.ask("shares", revision=4, problem=problem)
            answer = await one.failure()
            assert why in answer.why
            assert (4, False) == (answer.revision, answer.is_for_good)


def test_shares_of_what_there_is_not_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both jobs would have all of their time on the one H100."""
    alone, none = np.array([[1_000_000, 0]]), np.zeros((0, 2), dtype=np.int64)
    monkeypatch.setattr(sharing, "solve_shares", lambda *_: Shares(alone, none, by="wrong"))
    answer = solved_at_once(Solve("shares", "", 4, asked_shares()))
    assert isinstance(answer, Unsolved)
    assert answer.why.startswith("it gives what there is not: ")
