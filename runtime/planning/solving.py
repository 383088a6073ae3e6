"""The planner's doer: each problem is solved in a process that is started for it, and that loads the solvers nobody else has.

One at a time, and below everybody else's priority. A solver that fails, hangs or dies is an answer like any other: the planner
hears why, and what there was stays.
"""

import asyncio
import sys
from contextlib import suppress
from importlib.util import find_spec

import structlog

from core.codec import encode
from core.component import Effect
from core.effects import SolvePrices, SolveShares
from core.messages.base import Notice
from core.messages.prices import PricesSolved, PricesUnsolved
from core.messages.sharing import SharesSolved, SharesUnsolved
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import PRICES_SPAN, REASON_LENGTH_MAX, SHARES_SPAN
from core.sharing.bounds import excess_of
from runtime.effects import Done
from runtime.planning.sharing_worker import LENGTH_BYTES, Asked, decode_answer, frame_of
from runtime.planning.worker import decode_prices

logger = structlog.get_logger()

WORKER = ("-P", "-m", "runtime.planning.worker")
SHARES_WORKER = ("-P", "-m", "runtime.planning.sharing_worker")
SOLVER = "highspy"
OF_SHARES = ""
"""In place of a region's name."""
SPARE: Nanoseconds = Nanoseconds(2 * SECOND)
"""Before the planner counts it as lost: then it knows why."""


def has_solver() -> bool:
    """Whether this installation has one: the extra `planner`."""
    return find_spec(SOLVER) is not None


class SolverProcess:
    """Solves what one planner asks for. Outlives the planner's lives in this process."""

    def __init__(
        self,
        command: tuple[str, ...] = WORKER,
        span: Nanoseconds = PRICES_SPAN,
        shares_command: tuple[str, ...] = SHARES_WORKER,
        shares_span: Nanoseconds = SHARES_SPAN,
    ) -> None:
        """The commands are what the interpreter runs; the spans are how long one problem may take."""
        self._command, self._shares_command = command, shares_command
        self._seconds, self._shares_seconds = (span - SPARE) / SECOND, (shares_span - SPARE) / SECOND
        self._asked: dict[str, SolvePrices | SolveShares] = {}
        """What waits, the oldest first; of one region, and of the shares, the newest counts."""
        self._has_work = asyncio.Event()
        self._done: Done | None = None
        self._child: asyncio.subprocess.Process | None = None

    def attach(self, done: Done) -> None:
        """A planner has just started."""
        self._done = done
        self._asked.clear()

    def detach(self) -> None:
        """It is gone; what is being solved for it nobody will hear."""
        self._done = None
        self._asked.clear()

    def begin(self, effect: Effect) -> None:
        """Solve it, in its turn."""
        assert isinstance(effect, SolvePrices | SolveShares), effect
        self._asked[effect.region if isinstance(effect, SolvePrices) else OF_SHARES] = effect
        self._has_work.set()

    async def run(self) -> None:
        """Solve whatever is asked for, for ever."""
        while True:
            while not self._asked:
                self._has_work.clear()
                await self._has_work.wait()
            asked_by, effect = self._done, self._asked.pop(next(iter(self._asked)))
            answer = await self._solve(effect)
            if asked_by is not None and self._done is asked_by:
                # Not so for the next life: it may ask of the same revision, but from what has been so since.
                asked_by(answer)

    def close(self) -> None:
        """What is being solved is of no use any more."""
        if self._child is not None:
            with suppress(ProcessLookupError):
                self._child.kill()

    async def _solve(self, effect: SolvePrices | SolveShares) -> Notice:
        if isinstance(effect, SolveShares):
            return await self._solve_shares(effect)
        return await self._solve_prices(effect)

    async def _solve_shares(self, effect: SolveShares) -> SharesSolved | SharesUnsolved:
        asked = effect.asked
        if self._shares_command == SHARES_WORKER and not has_solver():
            logger.warning("no_solver", missing=SOLVER, extra="planner")
            return SharesUnsolved(asked.revision, "no solver is installed", is_for_good=True)
        frame = frame_of(Asked(asked.policy, asked.problem, self._shares_seconds))
        try:
            async with asyncio.timeout(self._shares_seconds):
                code, said, complaint = await self._run_worker(frame, self._shares_command)
        except TimeoutError:
            why = f"it took longer than {self._shares_seconds:g} s"
        except OSError as error:
            why = str(error)
        else:
            found = decode_answer(said[LENGTH_BYTES:]) if code == 0 else None
            if found is not None and found.shares is not None:
                wrong = excess_of(asked.problem, found.shares)
                if not wrong:
                    return SharesSolved(asked.answer(found.shares))
                why = f"it gives what there is not: {wrong}"
            else:
                why = found.why if found is not None else _last_words(code, complaint)
        logger.warning("shares_unsolved", policy=asked.policy, revision=asked.revision, why=why)
        return SharesUnsolved(asked.revision, why[:REASON_LENGTH_MAX])

    async def _solve_prices(self, effect: SolvePrices) -> PricesSolved | PricesUnsolved:
        region, revision = effect.region, effect.revision
        if self._command == WORKER and not has_solver():
            logger.warning("no_solver", missing=SOLVER, extra="planner")
            return PricesUnsolved(region, revision, "no solver is installed", is_for_good=True)
        try:
            async with asyncio.timeout(self._seconds):
                code, said, complaint = await self._run_worker(encode(effect.problem), self._command)
        except TimeoutError:
            why = f"it took longer than {self._seconds:g} s"
        except OSError as error:
            why = str(error)
        else:
            prices = decode_prices(said) if code == 0 else None
            if prices is not None:
                return PricesSolved(region, revision, prices)
            why = _last_words(code, complaint)[:REASON_LENGTH_MAX]
        logger.warning("prices_unsolved", region=region, revision=revision, why=why)
        return PricesUnsolved(region, revision, why)

    async def _run_worker(self, problem: bytes, command: tuple[str, ...]) -> tuple[int, bytes, bytes]:
        """Its exit code, and what it wrote. It is gone when this ends, however it ends."""
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdin=pipe, stdout=pipe, stderr=pipe
        )
        self._child = child
        try:
            said, complaint = await child.communicate(problem)
            return child.returncode or 0, said, complaint
        finally:
            self._child = None
            if child.returncode is None:
                with suppress(ProcessLookupError):
                    child.kill()
                await child.wait()


def _last_words(code: int, complaint: bytes) -> str:
    lines = complaint.decode(errors="replace").strip().splitlines()
    return f"exit code {code}: {lines[-1] if lines else 'it said nothing'}"
