"""The balancer of plain OpenWhisk, for comparison: each function has a home and a step, and only memory is counted."""

from collections.abc import Sequence
from math import gcd

from core.nouns.ids import FunctionId
from core.nouns.instant import Instant
from core.routing.policy import Candidate, Chosen, Load, MemberSet
from core.routing.ring import number_of


class HashedHome:
    """Routes to the first usable server with memory for the call, from the function's home on in steps of the function's own."""

    name = "hash"
    waits = False

    def choose(
        self,
        function: FunctionId,
        load: Load,
        ring: Sequence[Candidate],
        members: MemberSet | None,
        now: Instant,
    ) -> Chosen:
        """Return the first server on the function's steps with memory for the call; without one, a usable server drawn for this instant."""
        steps = steps_of(function, len(ring))
        memory = load.need.memory_bytes
        usable = [ring[place] for place in steps if ring[place].is_usable]
        for server in usable:
            if server.used.memory_bytes + memory <= server.size.memory_bytes:
                return Chosen(server.name, None)
        if not usable:
            return Chosen("", None)
        return Chosen(usable[number_of(f"{function} {now}") % len(usable)].name, None)


def steps_of(function: FunctionId, count: int) -> list[int]:
    """Return the places of `count` servers in the order in which a function tries them: each once.

    The home is the function's number modulo `count`, and the step one of the numbers that have no divisor in common with `count`.
    """
    if not count:
        return []
    number = number_of(function)
    coprime = [step for step in range(1, count + 1) if gcd(step, count) == 1]
    step = coprime[number // count % len(coprime)]
    return [(number + tried * step) % count for tried in range(count)]
