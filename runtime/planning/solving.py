"""The planner's doer: each problem is solved in a process that is started for it, and that alone loads a solver.

Concerns are solved side by side, the problems of one concern one at a time, and all below everybody else's priority. A solver that fails,
hangs or dies is an answer like any other: the planner hears why, and the recorded answer stays.
"""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec

import msgspec
import structlog
from msgspec import Struct

from core.codec import UNREADABLE, encode
from core.component import Effect
from core.effects import Solve
from core.messages.solving import Solved, Unsolved
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import REASON_LENGTH_MAX
from runtime.effects import Done
from runtime.errors import NotSolved
from runtime.planning.concerns import SOLVER, SOLVERS, ConcernSolver
from runtime.planning.worker import NO_ANSWER

logger = structlog.get_logger()

WORKER = ("-P", "-m", "runtime.planning.worker")
SPARE: Nanoseconds = Nanoseconds(2 * SECOND)
"""Before the planner counts a problem as lost, its process is ended: then the planner knows why."""


def has_solver() -> bool:
    """Return whether this installation has one: the extra `planner`."""
    return find_spec(SOLVER) is not None


class SolverProcess:
    """Solves what one planner asks for. Outlives the planner's lives in this process."""

    def __init__(
        self, solvers: Mapping[str, ConcernSolver] = SOLVERS, command: tuple[str, ...] = WORKER
    ) -> None:
        """`command` is what the interpreter runs, with the concern's name behind it."""
        self._solvers, self._command = solvers, command
        self._asked: dict[str, dict[str, Solve]] = {concern: {} for concern in solvers}
        """What waits, by concern and key, the oldest first; of one key the newest counts."""
        self._has_work = {concern: asyncio.Event() for concern in solvers}
        self._children: dict[str, asyncio.subprocess.Process] = {}
        """By concern."""
        self._missing: set[str] = set()
        """Modules of which this life of the planner was told that they are missing."""
        self._done: Done | None = None

    def attach(self, done: Done) -> None:
        """A planner has just started."""
        self.detach()
        self._done = done

    def detach(self) -> None:
        """The planner is gone: what is being solved is answered to nobody."""
        self._done = None
        self._missing.clear()
        for asked in self._asked.values():
            asked.clear()

    def begin(self, effect: Effect) -> None:
        """Solve a problem, in its turn."""
        assert isinstance(effect, Solve), effect
        self._asked[effect.concern][effect.key] = effect
        self._has_work[effect.concern].set()

    async def run(self) -> None:
        """Solve whatever is asked for, for ever."""
        # One group more than the supervisor's: no concern waits for another.
        async with asyncio.TaskGroup() as group:
            for concern in self._solvers:
                group.create_task(self._serve(concern), name=f"solve/{concern}")

    def close(self) -> None:
        """End what is being solved: nobody wants it any more."""
        for child in self._children.values():
            with suppress(ProcessLookupError):
                child.kill()

    async def _serve(self, concern: str) -> None:
        asked, has_work = self._asked[concern], self._has_work[concern]
        while True:
            while not asked:
                has_work.clear()
                await has_work.wait()
            asked_by, effect = self._done, asked.pop(next(iter(asked)))
            answer = await self._solve(effect)
            if asked_by is not None and self._done is asked_by:
                # Not so for the next life: it may ask of the same revision, but from what has been so since.
                asked_by(answer)

    async def _solve(self, effect: Solve) -> Solved | Unsolved:
        concern, key, revision = effect.concern, effect.key, effect.revision
        solver = self._solvers[concern]
        if solver.needs and find_spec(solver.needs) is None:
            if solver.needs not in self._missing:
                logger.warning("no_solver", missing=solver.needs, extra="planner")
                self._missing.add(solver.needs)
            return Unsolved(concern, key, revision, "no solver is installed", is_for_good=True)
        seconds = (solver.span - SPARE) / SECOND
        try:
            async with asyncio.timeout(seconds):
                answer = await self._run_worker(concern, solver, encode(effect.problem))
            return Solved(concern, key, revision, answer)
        except TimeoutError:
            why = f"it took longer than {seconds:g} s"
        except (NotSolved, OSError) as error:
            why = str(error)[:REASON_LENGTH_MAX]
        logger.warning("not_solved", concern=concern, key=key, revision=revision, why=why)
        return Unsolved(concern, key, revision, why)

    async def _run_worker(self, concern: str, solver: ConcernSolver, problem: bytes) -> Struct:
        """Return the answer of the concern's process; that is gone when this ends, however it ends. Raises NotSolved."""
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            sys.executable, *self._command, concern, stdin=pipe, stdout=pipe, stderr=pipe
        )
        self._children[concern] = child
        try:
            said, complaint = await child.communicate(problem)
        finally:
            del self._children[concern]
            if child.returncode is None:
                with suppress(ProcessLookupError):
                    child.kill()
                await child.wait()
        if child.returncode == NO_ANSWER:
            raise NotSolved(said.decode(errors="replace"))
        if child.returncode == 0:
            with suppress(*UNREADABLE):
                return msgspec.msgpack.decode(said, type=solver.answer)
        lines = complaint.decode(errors="replace").strip().splitlines()
        raise NotSolved(f"exit code {child.returncode}: {lines[-1] if lines else 'it said nothing'}")
