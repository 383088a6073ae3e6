"""Replaying a log gives the state, bit for bit (DESIGN §11, 7), and every log is whole."""

from scenarios.check import Check, Run


class Replay(Check, frozen=True):
    """Each log verifies from its first row on, and folds to what its keeper has."""

    async def at_end(self, run: Run) -> list[str]:
        """Logs that are broken, and keepers that believe something else."""
        return await run.world.replay_problems(run.witness)
