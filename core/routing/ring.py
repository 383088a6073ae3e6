"""The ring of servers, on which each function has a home, and the assignment of functions to routers.

Both are consistent: a server that joins or leaves moves the homes on one arc of the ring only, and a router that leaves moves its own
functions only.
"""

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b
from operator import attrgetter

from core.nouns.ids import FunctionId
from core.routing.policy import Candidate

SLOTS = 500
"""Places on the ring. source: spec/cameo-harvest.md 2.2"""

_slot = attrgetter("slot")


def number_of(text: str) -> int:
    """Return a number from 0 to 2^64 - 1 that looks drawn at random and is the same in every process.

    A checksum such as CRC is no substitute: the numbers of similar names differ by fixed patterns, so rendezvous hashing would give some
    routers twice the functions of others.
    """
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def slot_of(name: str) -> int:
    """Return the place of a server on the ring, for one that is given no other."""
    return number_of(name) % SLOTS


def start_of(function: FunctionId) -> int:
    """Return the slot at which the walk of a function starts."""
    return number_of(function) % SLOTS


def walk(ring: Sequence[Candidate], function: FunctionId) -> list[Candidate]:
    """Return the usable servers clockwise from the home of a function, the first usable one at or after its slot.

    ring   sorted by slot and name
    """
    first = bisect_left(ring, start_of(function), key=_slot)
    return [one for part in (ring[first:], ring[:first]) for one in part if one.is_usable]


def router_of(function: FunctionId, routers: Sequence[str]) -> str:
    """Return the router to which a function belongs, by rendezvous (highest random weight) hashing; empty without routers.

    source   Thaler & Ravishankar, Using name-based mappings to increase hit rates, 1998
    """
    return max(routers, key=lambda router: (number_of(f"{router} {function}"), router), default="")
