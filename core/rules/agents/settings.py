"""The check of the settings of a region's agents."""

from core.nouns.agents import AgentSettings, AgentView, Placing, Rotation
from core.nouns.instant import SECOND
from core.nouns.limits import AGENTS_MAX, CLAIM_TRIES_CEILING, PARTITIONS_MAX, SYNC_EVERY_MAX

NAME_SHOWN_MAX = 40
"""Characters shown of a name that is none."""


def problems_with(settings: AgentSettings, present: int) -> list[str]:
    """Return every problem of the settings, each with its field.

    present   agents of the region that are there
    """
    found = []
    for field, value, names in (
        ("view", settings.view, list(AgentView)),
        ("placing", settings.placing, list(Placing)),
        ("rotation", settings.rotation, list(Rotation)),
    ):
        if value not in names:
            found.append(f"{field}: there is no {value[:NAME_SHOWN_MAX]!r}; there are {', '.join(names)}")
    if not 1 <= settings.partitions <= PARTITIONS_MAX:
        found.append(f"partitions: it is from 1 to {PARTITIONS_MAX}")
    if not 0 < settings.sync_every <= SYNC_EVERY_MAX:
        found.append(f"sync_every: it is more than 0, and {SYNC_EVERY_MAX // SECOND} s at most")
    if not 1 <= settings.full <= AGENTS_MAX:
        found.append(f"full: it is from 1 to {AGENTS_MAX}: some agent must be able to preempt work")
    elif present and settings.has_rows_alone and settings.full >= present:
        found.append(
            f"full: it is {settings.full}, and the region has {present} agents: none would be left with partitions"
        )
    if not 1 <= settings.tries <= CLAIM_TRIES_CEILING:
        found.append(f"tries: it is from 1 to {CLAIM_TRIES_CEILING}")
    if not present:
        found.append("region: it has no agents")
    return found
