"""Every event that a log may hold, by log. A new event is one struct, one line here, and a sample in tests/golden/."""

from core.events import (
    agents,
    control,
    copies,
    data,
    dispatch,
    functions,
    harvest,
    log,
    moves,
    pipelines,
    pools,
    prices,
    queue,
    region,
    regions,
    sharing,
    starts,
    tenants,
)
from core.fact import Event

EVENTS: tuple[type[Event], ...] = (
    *log.EVENTS,
    *queue.EVENTS,
    *region.EVENTS,
    *control.EVENTS,
    *pools.EVENTS,
    *agents.EVENTS,
    *tenants.EVENTS,
    *data.EVENTS,
    *copies.EVENTS,
    *regions.EVENTS,
    *moves.EVENTS,
    *prices.EVENTS,
    *functions.EVENTS,
    *harvest.EVENTS,
    *starts.EVENTS,
    *sharing.EVENTS,
    *dispatch.EVENTS,
    *pipelines.EVENTS,
)
