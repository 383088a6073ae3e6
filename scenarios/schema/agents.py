"""How the agents of a fleet see their regions: an operator sets it at the start, as `mizzen agents set` does."""

from typing import Annotated

from msgspec import Meta, Struct

from core.nouns.agents import DEFAULT_FULL, DEFAULT_PARTITIONS, AgentSettings, AgentView, Placing, Rotation
from core.nouns.instant import seconds
from core.nouns.limits import AGENTS_MAX, CLAIM_TRIES_CEILING, CLAIM_TRIES_MAX, PARTITIONS_MAX

Partitions = Annotated[int, Meta(ge=1, le=PARTITIONS_MAX)]
SyncSeconds = Annotated[float, Meta(gt=0, le=60)]
Full = Annotated[int, Meta(ge=1, le=AGENTS_MAX)]
Tries = Annotated[int, Meta(ge=1, le=CLAIM_TRIES_CEILING)]


class AgentsSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Of all regions, or of some."""

    view: AgentView = AgentView.STREAM
    placing: Placing = Placing.TIER_FIRST
    partitions: Partitions = DEFAULT_PARTITIONS
    sync_seconds: SyncSeconds = 0.5
    """In which each partition is owned by each agent once."""
    rotation: Rotation = Rotation.DIFFERENT
    full: Full = DEFAULT_FULL
    """Agents that fold every fact."""
    tries: Tries = CLAIM_TRIES_MAX
    regions: tuple[str, ...] = ()
    """Empty: all."""

    @property
    def settings(self) -> AgentSettings:
        """Return the settings as the plane is told."""
        return AgentSettings(
            self.view.value,
            self.placing.value,
            self.partitions,
            seconds(self.sync_seconds),
            self.rotation.value,
            self.full,
            self.tries,
        )
