"""Claims of each region's agents, from the logs of a run: how many they made by rows alone and otherwise, and how many met conflicts."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from core.events.agents import AgentsSet
from core.events.region import AwardDeclined, ClaimGranted
from core.fact import Fact
from core.nouns.agents import AgentView
from core.nouns.ids import GLOBAL_LOG, LogName
from store.sqlite import facts_in


class RegionClaims(Struct):
    """Of one region."""

    region: str
    view: str = AgentView.STREAM.value
    """As its agents were last set."""
    tries: int = 0
    """Claims that were judged, each try of an award by itself."""
    conflicts: int = 0
    by_rows: int = 0
    """Grants that were chosen from node rows alone."""
    grants: int = 0

    def count(self, fact: Fact) -> None:
        """Count one fact."""
        match fact.event:
            case AgentsSet(settings=settings):
                self.view = settings.view
            case ClaimGranted(claim=claim):
                tries = int(claim.claim.rpartition(".")[2])
                self.tries, self.conflicts = self.tries + tries, self.conflicts + tries - 1
                self.grants += 1
                self.by_rows += bool(claim.view.placing)
            case AwardDeclined(tries=tries) if tries:
                self.tries, self.conflicts = self.tries + tries, self.conflicts + tries


def claims_in(directory: Path, logs: Iterable[LogName]) -> list[RegionClaims]:
    """Return the claims of each region in which something was claimed."""
    found = []
    for log in logs:
        if log != GLOBAL_LOG:
            one = RegionClaims(log.partition(".")[2])
            for fact in facts_in(directory, log):
                one.count(fact)
            found.append(one)
    return [one for one in found if one.tries]


def lines_of_claims(claims: Iterable[RegionClaims]) -> list[tuple[str, str]]:
    """Return a line for people for each region whose agents take in rows alone."""
    return [
        (
            f"conflicts in {one.region}",
            f"{100 * one.conflicts / one.tries:.1f} % of {one.tries} claims, by {one.view}; {one.by_rows} of {one.grants} grants by rows alone",
        )
        for one in claims
        if one.view != AgentView.STREAM
    ]
