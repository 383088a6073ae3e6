"""The shortest sufficient prefix of a walk, against a definition that tries all lengths with sums of its own."""

from fractions import Fraction
from math import floor

from hypothesis import given

from core.routing.mws import shortest_prefix
from core.routing.mws_published import shortest_prefix_published
from core.routing.policy import Candidate, Load
from tests.core.properties import PROPERTY
from tests.core.routing.servers import candidates, loads

RESOURCES = ("gpu_milli", "cpu_milli", "memory_bytes")


def free(server: Candidate, resource: str, *, own_too: bool) -> int:
    """What is left of a resource under the ceiling."""
    size, used, mine = (int(getattr(one, resource)) for one in (server.size, server.used, server.mine))
    return floor(Fraction(7, 10) * size) - used + (mine if own_too else 0)


def covered(servers: list[Candidate], load: Load, *, own_too: bool) -> bool:
    """Whether these servers together have room for all of a load."""
    return all(
        sum(max(0, free(one, resource, own_too=own_too)) for one in servers) >= getattr(load.total, resource)
        for resource in RESOURCES
    )


def counts(server: Candidate, load: Load, *, own_too: bool) -> bool:
    """Whether a server has some of all that a call needs."""
    return all(
        free(server, resource, own_too=own_too) > 0 for resource in RESOURCES if getattr(load.need, resource)
    )


def has_room(server: Candidate, load: Load) -> bool:
    """Whether a call fits under the ceiling."""
    return all(
        free(server, resource, own_too=False) >= getattr(load.need, resource) for resource in RESOURCES
    )


@PROPERTY
@given(candidates(), loads)
def test_prefix_is_the_shortest_that_suffices(servers: list[Candidate], load: Load) -> None:
    """H-3: room for the whole load under the ceiling, and one that can take the call; the function's own use counts once, or twice (H-5)."""
    for own_too in (True, False):
        sufficient = [
            length
            for length in range(1, len(servers) + 1)
            if any(one.can_take for one in servers[:length])
            and covered(
                [one for one in servers[:length] if counts(one, load, own_too=own_too)], load, own_too=own_too
            )
        ]
        whole = len(servers) if any(one.can_take for one in servers) else 0
        assert min(sufficient, default=whole) == shortest_prefix(servers, load, own_too)


@PROPERTY
@given(candidates(), loads)
def test_published_prefix(servers: list[Candidate], load: Load) -> None:
    """H-3: as published, a server counts whose room under the ceiling is enough for a call."""
    sufficient = []
    for length in range(1, len(servers) + 1):
        takers = [one for one in servers[:length] if has_room(one, load)]
        if takers and covered(takers, load, own_too=False):
            sufficient.append(length)
    assert min(sufficient, default=len(servers)) == shortest_prefix_published(servers, load)
