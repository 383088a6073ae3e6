"""Sizes that function servers are told, and releases that follow from their answers."""

from itertools import islice

from components.harvester.state import HarvesterState, ServerRow
from core.images.harvest import HarvestedNode
from core.messages.harvest import NodeReleased, NodeSize, NodeUse, ReleaseHarvest, ServerSized, SizeServer
from core.nouns.fleet import CPU_TYPE, gpu_type_of
from core.nouns.harvest_limits import HARVEST_AT_ONCE_MAX, HARVESTED_OF_SERVER_MAX
from core.nouns.ids import RegionName, WorkerName
from core.nouns.quantities import NOTHING, Amount

NOT_USED = NodeUse(0, NOTHING)


def sizes_of(state: HarvesterState, region: RegionName, server: str) -> SizeServer:
    """Return the sizes of the nodes of a server that are harvested, or give something back.

    Tasks may lend on more nodes than one message holds: those that came last wait until others are given back.
    """
    row, harvest, capacity = state.servers[server], state.image.harvest, state.image.capacity
    sizes = []
    for node in sorted(islice(row.nodes, HARVESTED_OF_SERVER_MAX)):
        known = harvest.nodes[node]
        total = Amount(capacity.gpu.total[node], capacity.cpu.total[node], capacity.memory.total[node])
        within = known.recalls[0].within if known.recalls else known.within
        is_cpu = gpu_type_of(capacity.node_type[node]) == (CPU_TYPE, True)
        sizes.append(NodeSize(node, total, known.size, within, is_cpu))
    return SizeServer(region, server, harvest.revision, tuple(sizes))


def is_well_formed(state: HarvesterState, said: ServerSized) -> bool:
    """Return whether a server's answer can be about the server's nodes and this region's log."""
    worker = state.image.capacity.workers.get(WorkerName(said.server))
    if worker is None or not 0 <= said.revision <= state.image.harvest.revision:
        return False
    worker_of = state.image.capacity.worker_of
    return all(
        0 <= use.node < len(worker_of)
        and worker_of[use.node] == said.server
        and use.used.covers(NOTHING)
        and use.lost >= 0
        and use.lost_span >= 0
        for use in said.uses
    )


def releases(state: HarvesterState, region: RegionName, said: ServerSized) -> ReleaseHarvest | None:
    """Return the release of the recalls that a server's answer shows to be over, if there are any."""
    row = state.servers.get(said.server)
    if row is None:
        return None
    uses = {use.node: use for use in said.uses}
    parts = []
    for node in sorted(row.nodes):
        known, use = state.image.harvest.nodes[node], uses.get(node) or NodeUse(node, NOTHING)
        revision = _released_up_to(known, use.used, said.revision)
        if revision is not None:
            losses = row.losses_with(use, is_awaited=state.is_awaited(node))
            parts.append(NodeReleased(node, revision, *losses))
    return ReleaseHarvest(region, tuple(parts[:HARVEST_AT_ONCE_MAX])) if parts else None


def _released_up_to(known: HarvestedNode, used: Amount, heard: int) -> int | None:
    """Return the revision of the newest recall that is over once a server has heard so much and uses so much; None without any.

    Recalls are over in their order: until the younger ones are, their capacity may be in use.
    """
    if known.is_calm or (heard < known.revision and not known.recalls):
        return None
    may_use = known.size
    if not known.recalls:
        return known.revision if _is_within(used, may_use) else None
    for recall in reversed(known.recalls):
        if recall.revision <= heard and _is_within(used, may_use):
            return recall.revision
        may_use = may_use.plus(recall.size)
    return None


def _is_within(used: Amount, size: Amount) -> bool:
    """Return whether executors use no more than they may. They give CPUs back at once and go on more slowly, while any are left."""
    if size.cpu_milli == 0 and used.cpu_milli:
        return False
    return size.gpu_milli >= used.gpu_milli and size.memory_bytes >= used.memory_bytes


def use_of(row: ServerRow | None, node: int) -> Amount:
    """Return the use of a node, as the server told last."""
    return row.uses.get(node, NOT_USED).used if row is not None else NOTHING
