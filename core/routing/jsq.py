"""Join the shortest queue, for comparison: each call goes to the least loaded server of all."""

from collections.abc import Sequence

from msgspec import Struct

from core.nouns.ids import FunctionId
from core.nouns.instant import Instant
from core.routing.load import least_loaded
from core.routing.policy import Candidate, Chosen, Load, MemberSet


class JsqSettings(Struct, frozen=True):
    """Switches for ablations."""

    waits: bool = False
    """A call goes only to servers that can take it, and waits in the router without one. The published policy sends beyond sizes."""


class JoinShortestQueue:
    """Routes to the usable server with the least score."""

    name = "jsq"

    def __init__(self, settings: JsqSettings | None = None) -> None:
        self.settings = settings or JsqSettings()

    @property
    def waits(self) -> bool:
        """Return whether calls wait."""
        return self.settings.waits

    def choose(
        self,
        function: FunctionId,
        load: Load,
        ring: Sequence[Candidate],
        members: MemberSet | None,
        now: Instant,
    ) -> Chosen:
        """Return the least loaded server, of equal ones the first on the ring."""
        waits = self.settings.waits
        best = least_loaded((one for one in ring if (one.can_take if waits else one.is_usable)), load.need)
        return Chosen(best.name if best else "", None)
