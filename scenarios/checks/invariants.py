"""What DESIGN §11 says must always hold, at every fact that became durable, and as the plane's own auditor found it."""

from core.invariants import check_ledger
from scenarios.check import Check
from scenarios.run import Run


class Invariants(Check, frozen=True):
    """The witness checks each fact as it becomes durable, and a violation ends the run. This asks what is left."""

    async def at_end(self, run: Run) -> list[str]:
        """Facts that rest on nothing, and ledgers that do not add up."""
        witness = run.witness
        found = []
        if witness.audit.waiting:
            found.append(f"{witness.audit.waiting} facts rest on facts of other logs that are not there")
        for region in run.world.plan.region_names():
            found += [f"{region}: {text}" for text in check_ledger(witness.region(region).capacity)]
        return found
