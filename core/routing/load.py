"""How loaded servers are: the score by which policies compare them, and the ceiling under which they plan."""

from collections.abc import Iterable
from math import inf

from core.nouns.quantities import Amount
from core.routing.policy import Candidate

CEILING = 0.7
"""Part of a server's size that is planned for. The rest is for peaks of calls. source: spec/cameo-harvest.md 2.2"""
_PERCENT = round(100 * CEILING)


def room_below_ceiling(server: Candidate, own_too: bool) -> tuple[int, int, int]:
    """Return the GPU milli, CPU milli and bytes that are free under the ceiling, each negative above it.

    own_too   count the function's own use there as free
    """
    size, used = server.size, server.used
    gpu = size.gpu_milli * _PERCENT // 100 - used.gpu_milli
    cpu = size.cpu_milli * _PERCENT // 100 - used.cpu_milli
    memory = size.memory_bytes * _PERCENT // 100 - used.memory_bytes
    if own_too:
        mine = server.mine
        return gpu + mine.gpu_milli, cpu + mine.cpu_milli, memory + mine.memory_bytes
    return gpu, cpu, memory


def score_of(server: Candidate, need: Amount) -> float:
    """Return how loaded a server is: the sum of used CPU and used memory, each relative to the part of the size under the ceiling.

    GPUs are a third term for functions that need them. A server without a resource that the function needs has an infinite score.
    """
    size, used = server.size, server.used
    score = 0.0
    if size.cpu_milli > 0:
        score += used.cpu_milli / (CEILING * size.cpu_milli)
    elif need.cpu_milli:
        return inf
    if size.memory_bytes > 0:
        score += used.memory_bytes / (CEILING * size.memory_bytes)
    elif need.memory_bytes:
        return inf
    if need.gpu_milli:
        score += used.gpu_milli / (CEILING * size.gpu_milli) if size.gpu_milli > 0 else inf
    return score


def least_loaded(servers: Iterable[Candidate], need: Amount) -> Candidate | None:
    """Return the server with the least score, of equal ones the first; None without servers."""
    return min(servers, key=lambda server: score_of(server, need), default=None)
