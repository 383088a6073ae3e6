"""Every message that crosses the bus, by conversation. A new one is one struct, one line in its file's `MESSAGES`, one
route in bus/catalogue.py.
"""

from core.messages import (
    agents,
    auditor,
    broker,
    control,
    copies,
    data,
    logs,
    moves,
    nodes,
    output,
    pools,
    preemption,
    prices,
    queue,
    regions,
    reserved_starts,
    sharing,
    starts,
    store,
    tenants,
    units,
    workers,
)
from core.messages.base import Message

MESSAGES: tuple[type[Message], ...] = (
    *queue.MESSAGES,
    *starts.MESSAGES,
    *broker.MESSAGES,
    *agents.MESSAGES,
    *store.MESSAGES,
    *control.MESSAGES,
    *nodes.MESSAGES,
    *pools.MESSAGES,
    *preemption.MESSAGES,
    *prices.MESSAGES,
    *tenants.MESSAGES,
    *data.MESSAGES,
    *copies.MESSAGES,
    *regions.MESSAGES,
    *moves.MESSAGES,
    *reserved_starts.MESSAGES,
    *sharing.MESSAGES,
    *workers.MESSAGES,
    *auditor.MESSAGES,
    *units.MESSAGES,
    *logs.MESSAGES,
    *output.MESSAGES,
)
