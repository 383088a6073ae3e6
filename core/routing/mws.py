"""Min-Worker-Set: the calls of a function go to the fewest servers next to its home that suffice for its load.

source: Zhang et al., Faster and cheaper serverless computing on harvested resources, SOSP'21, with five changes (docs/functions.md). Three
are here, each with a switch for ablations: a function's own use counts once, a server with an idle warm executor comes first, and no call
is sent beyond a server's size. The window of the rate is in rates.py, and stale reports end in `Candidate.is_usable`.
"""

from collections.abc import Sequence

from msgspec import Struct

from core.nouns.ids import FunctionId
from core.nouns.instant import Instant
from core.nouns.quantities import Amount
from core.routing.load import least_loaded, room_below_ceiling, score_of
from core.routing.members import resized
from core.routing.policy import Candidate, Chosen, Load, MemberSet
from core.routing.ring import walk

SHRINK_STEP = 1
"""Servers by which a set shrinks at once: warm executors beyond it stay useful until the lower load has lasted."""


class MwsSettings(Struct, frozen=True):
    """Switches for ablations."""

    counts_own_once: bool = True
    """Capacity that the function itself uses is free for its need, which includes the running calls."""
    takes_idle_first: bool = True
    """Of the set's servers, one with an idle warm executor comes before all others."""
    waits: bool = True
    """A call that no server can take waits in the router; else the least loaded server gets it, beyond its size."""


class MinWorkerSet:
    """Routes to the least loaded server of the shortest sufficient prefix of the function's walk."""

    name = "mws"

    def __init__(self, settings: MwsSettings | None = None) -> None:
        self.settings = settings or MwsSettings()

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
        """Return the server for one call, and the function's set from now on.

        The walk is read only up to the end of the set, so a decision costs a few microseconds for each member. There is no shortcut
        for known sets with idle executors: the sums over the prefix also decide whether the set grows or shrinks.
        """
        servers = walk(ring, function)
        shortest = shortest_prefix(servers, load, self.settings.counts_own_once)
        if not shortest:
            # A set without room stays as it is: it would else grow to all servers in every short overload.
            overloaded = None if self.settings.waits else least_loaded(servers, load.need)
            return Chosen(overloaded.name if overloaded else "", members)
        members = resized(members, servers[0].name, shortest, now, SHRINK_STEP)
        return Chosen(self._best(servers, members.size, load.need), members)

    def _best(self, servers: list[Candidate], size: int, need: Amount) -> str:
        """Return the name of the best of the first `size` servers, one of which can take the call."""
        takers = [one for one in servers[:size] if one.can_take]
        if self.settings.takes_idle_first:
            takers = [one for one in takers if one.idle > 0] or takers
        if len(takers) == 1:
            return takers[0].name
        return min(takers, key=lambda one: score_of(one, need)).name


def shortest_prefix(servers: Sequence[Candidate], load: Load, counts_own_once: bool) -> int:
    """Return the length of the shortest prefix of a walk that suffices for a load; 0 if no server can take a call.

    A prefix suffices if one of its servers can take a call, and if the room under the ceiling of all its servers together covers the
    load's total need in each resource. A server adds no room while it has none left in a resource that the function needs. If no prefix
    has room enough, the result is the whole walk.
    """
    need, total = load.need, load.total
    gpu, cpu, memory = total.gpu_milli, total.cpu_milli, total.memory_bytes
    one_can_take = False
    for length, server in enumerate(servers, 1):
        one_can_take = one_can_take or server.can_take
        gpus, cores, space = room_below_ceiling(server, counts_own_once)
        if (
            (cores > 0 or not need.cpu_milli)
            and (space > 0 or not need.memory_bytes)
            and (gpus > 0 or not need.gpu_milli)
        ):
            gpu, cpu, memory = gpu - max(0, gpus), cpu - max(0, cores), memory - max(0, space)
        if one_can_take and cpu <= 0 and memory <= 0 and gpu <= 0:
            return length
    return len(servers) if one_can_take else 0
