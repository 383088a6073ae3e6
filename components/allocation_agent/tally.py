"""An agent's figures of itself, told with each beat: for people, and part of no decision."""

from core.messages.agents import AgentFigures
from core.nouns.instant import MILLISECOND, Nanoseconds


class Tally:
    """Counts since the agent's start."""

    def __init__(self) -> None:
        self.requests = self.handed_back = self.claims = self.conflicts = self.awards = 0
        self.waited_ms = self.waited_ms_max = self.quality = self.picks = 0

    def decided(
        self, waited: Nanoseconds, quality_permille: int, *, is_handed_back: bool, is_again: bool
    ) -> None:
        """Count a request that was decided, or another try for it."""
        self.requests += not is_again
        self.handed_back += is_handed_back
        if not is_again:
            waited_ms = waited // MILLISECOND
            self.waited_ms += waited_ms
            self.waited_ms_max = max(self.waited_ms_max, waited_ms)
        if quality_permille >= 0:
            self.picks += 1
            self.quality += quality_permille

    def claimed(self, *, is_again: bool) -> None:
        """Count a claim, made for the first time or again after a conflict."""
        self.claims += 1
        self.awards += not is_again

    def begin_beat(self) -> None:
        """Forget the longest wait: it is told once."""
        self.waited_ms_max = 0

    def figures(self, view: str, freshest_ms: int, oldest_ms: int, partitions: int) -> AgentFigures:
        """Return the figures of a beat."""
        return AgentFigures(
            view,
            self.requests,
            self.handed_back,
            self.claims,
            self.conflicts,
            self.awards,
            self.waited_ms,
            self.waited_ms_max,
            self.quality,
            self.picks,
            freshest_ms,
            oldest_ms,
            partitions,
        )
