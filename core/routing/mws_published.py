"""Min-Worker-Set as published, for comparison: spec/cameo-harvest.md 2.2, and the artifact's HarvestVMContainerPoolBalancer.

The need includes the calls that run, and so does the use that is subtracted from the room: a function's own load counts twice.
"""

from collections.abc import Sequence

from core.nouns.ids import FunctionId
from core.nouns.instant import Instant
from core.nouns.quantities import Amount
from core.routing.load import least_loaded, room_below_ceiling
from core.routing.members import resized
from core.routing.policy import Candidate, Chosen, Load, MemberSet
from core.routing.ring import walk


class PublishedMinWorkerSet:
    """Routes to the least loaded server of the set that has room under the ceiling; without one, to the least loaded of all servers."""

    name = "mws_published"
    waits = False

    def choose(
        self,
        function: FunctionId,
        load: Load,
        ring: Sequence[Candidate],
        members: MemberSet | None,
        now: Instant,
    ) -> Chosen:
        """Return the server for one call, also beyond its size, and the function's set from now on; a set without room is all servers."""
        servers = walk(ring, function)
        if not servers:
            return Chosen("", members)
        shortest = shortest_prefix_published(servers, load)
        after = resized(members, servers[0].name, shortest, now)
        # The search goes on to the end of the set that there was, even if the set becomes smaller with this call.
        searched = max(after.size, members.size if members else 0)
        takers = [one for one in servers[:searched] if _has_room(one, load.need)]
        best = least_loaded(takers or servers, load.need)
        assert best is not None
        return Chosen(best.name, after)


def shortest_prefix_published(servers: Sequence[Candidate], load: Load) -> int:
    """Return the length of the shortest prefix that suffices; of the whole walk if none does.

    A prefix suffices if one of its servers has room for a call under the ceiling, and if the room of all such servers together covers the
    load's total need.
    """
    total = load.total
    gpu, cpu, memory = total.gpu_milli, total.cpu_milli, total.memory_bytes
    one_has_room = False
    for length, server in enumerate(servers, 1):
        if _has_room(server, load.need):
            one_has_room = True
            gpus, cores, space = room_below_ceiling(server, own_too=False)
            gpu, cpu, memory = gpu - max(0, gpus), cpu - max(0, cores), memory - max(0, space)
        if one_has_room and cpu <= 0 and memory <= 0 and gpu <= 0:
            return length
    return len(servers)


def _has_room(server: Candidate, need: Amount) -> bool:
    """Return whether a call fits under the ceiling, as the published policy asks instead of whether it fits within the size."""
    gpus, cores, space = room_below_ceiling(server, own_too=False)
    return cores >= need.cpu_milli and space >= need.memory_bytes and gpus >= need.gpu_milli
