"""Work over quota is told to leave soon after work within quota wants its room: the second half of rule 4 (DESIGN §11)."""

from scenarios.check import Check, Run

RECLAIM_SECONDS = 60.0
"""From when work within quota has no room but what is held over quota until that is told to leave. The plane takes about as long
as an auction; a region that could not do it before a moment ago is asked again when that has passed."""
KEPT_MAX = 10


class OverQuotaLeaves(Check, frozen=True):
    """Nobody within quota waits long for what others hold over quota; while processes die and messages are lost, as long as that takes."""

    async def at_end(self, run: Run) -> list[str]:
        """Those who waited longer, once nothing was wrong that could be to blame."""
        quiet_from = run.quiet_from
        if quiet_from is None:
            return []
        now = run.world.facts_now()
        run.witness.quotas.look(now, run.witness.images)
        found = [
            f"{wait.workload} was within quota and waited {wait.until - since:.0f} s for what others held over quota"
            for wait in run.witness.quotas.all_waits(now)
            for since in [max(wait.since, quiet_from)]
            if wait.until - since > RECLAIM_SECONDS
        ]
        return found[:KEPT_MAX]
