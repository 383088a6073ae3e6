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
from core.effects import SolvePrices
from core.messages.prices import PricesSolved, PricesUnsolved
from core.nouns.ids import RegionName
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import PRICES_SPAN, REASON_LENGTH_MAX
from runtime.effects import Done
from runtime.planning.worker import decode_prices

logger = structlog.get_logger()

WORKER = ("-P", "-m", "runtime.planning.worker")
SOLVER = "highspy"
SPARE: Nanoseconds = Nanoseconds(2 * SECOND)
"""Before the planner counts it as lost: then it knows why."""


def has_solver() -> bool:
    """Whether this installation has one: the extra `planner`."""
    return find_spec(SOLVER) is not None


class SolverProcess:
    """Solves what one planner asks for. Outlives the planner's lives in this process."""

    def __init__(self, command: tuple[str, ...] = WORKER, span: Nanoseconds = PRICES_SPAN) -> None:
        """`command` is what the interpreter runs; `span` is how long it may take."""
        self._command = command
        self._seconds = (span - SPARE) / SECOND
        self._asked: dict[RegionName, SolvePrices] = {}
        """What waits, the oldest first; of one region the newest counts."""
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
        assert isinstance(effect, SolvePrices), effect
        self._asked[effect.region] = effect
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

    async def _solve(self, effect: SolvePrices) -> PricesSolved | PricesUnsolved:
        region, revision = effect.region, effect.revision
        if self._command == WORKER and not has_solver():
            logger.warning("no_solver", missing=SOLVER, extra="planner")
            return PricesUnsolved(region, revision, "no solver is installed", is_for_good=True)
        try:
            async with asyncio.timeout(self._seconds):
                code, said, complaint = await self._run_worker(encode(effect.problem))
        except TimeoutError:
            why = f"it took longer than {self._seconds:g} s"
        except OSError as error:
            why = str(error)
        else:
            prices = decode_prices(said) if code == 0 else None
            if prices is not None:
                return PricesSolved(region, revision, prices)
            lines = complaint.decode(errors="replace").strip().splitlines()
            why = f"exit code {code}: {lines[-1] if lines else 'it said nothing'}"[:REASON_LENGTH_MAX]
        logger.warning("prices_unsolved", region=region, revision=revision, why=why)
        return PricesUnsolved(region, revision, why)

    async def _run_worker(self, problem: bytes) -> tuple[int, bytes, bytes]:
        """Its exit code, and what it wrote. It is gone when this ends, however it ends."""
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            sys.executable, *self._command, stdin=pipe, stdout=pipe, stderr=pipe
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
