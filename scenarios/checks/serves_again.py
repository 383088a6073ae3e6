"""When misfortune is over, the plane serves as if nothing had been: it is tried, with a few small workloads (scenarios/play/probes.py)."""

import asyncio

from scenarios.check import Check, Run
from scenarios.checks.liveness import Liveness
from scenarios.play.probes import probes_of


class ServesAgain(Check, frozen=True):
    """On each sort of emulated hardware: what runs to its end, what fails, what is held, cancelled, stopped and resumed."""

    async def in_calm(self, run: Run) -> list[str]:
        """Everything that a probe found. It takes less than a minute, and nothing of it is left."""
        if run.witness.violations or run.world.failures:
            return []  # Which ended the run, and is told.
        if not await run.world.is_quiet():
            is_told = any(isinstance(check, Liveness) for check in run.spec.checks)
            return [] if is_told else ["the plane did not calm down, so that nothing could be tried"]
        tried = await asyncio.gather(*(probe.tried(story) for probe, story in probes_of(run)))
        return [text for found in tried for text in found]
