"""How the regions of a scenario choose whom they push out, how much work may be lost by that, and how long applications are asked."""

from msgspec import Struct

from core.nouns.instant import SECOND, seconds
from core.nouns.preemption import DEFAULT_PREEMPTION, BidScore, PreemptionSettings, VictimOrder
from scenarios.schema.parts import Count, NotNegative


class PreemptionSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Of all regions alike: ours, unless one is set as the paper has it."""

    order: VictimOrder = DEFAULT_PREEMPTION.order
    """Who of one priority goes first: `cost`, by what its end destroys; or `paper`, whoever has run longest."""
    score: BidScore = DEFAULT_PREEMPTION.score
    """How bids are compared by their victims: `vector`, over the whole workload; or `paper`, summed over its jobs."""
    ask_seconds: NotNegative = DEFAULT_PREEMPTION.ask_span / SECOND
    """From a promise until victims that have a controller are stopped without its word."""
    claim_gpu_seconds_max: Count = 0
    """Of work that one claim may destroy; 0: as much as the region's size allows."""
    hour_gpu_seconds_max: Count = 0
    """The same of all claims of an hour."""

    @property
    def settings(self) -> PreemptionSettings:
        """As the plane is told."""
        return PreemptionSettings(
            self.order,
            self.score,
            seconds(self.ask_seconds),
            self.claim_gpu_seconds_max,
            self.hour_gpu_seconds_max,
        )
