"""Routing without a set and without a queue that is looked at, for comparison: any server at random, and the first device that is free."""

from collections.abc import Sequence

from core.nouns.ids import FunctionId
from core.nouns.instant import Instant
from core.routing.policy import Candidate, Chosen, Load, MemberSet
from core.routing.ring import number_of


class AtRandom:
    """Routes to a usable server, drawn for this instant and what all servers have; calls wait there."""

    name = "random"
    waits = False

    def choose(
        self,
        function: FunctionId,
        load: Load,
        ring: Sequence[Candidate],
        members: MemberSet | None,
        now: Instant,
    ) -> Chosen:
        """Return the server for one call."""
        usable = [one.name for one in ring if one.is_usable]
        if not usable:
            return Chosen("", None)
        used = sum(one.used.cpu_milli for one in ring)  # Another one for the next call of the same instant.
        return Chosen(usable[number_of(f"{function} {now} {used}") % len(usable)], None)


class AnyIdle:
    """Routes to the first server on the ring that can take the call, and keeps calls while there is none."""

    name = "any"
    waits = True

    def choose(
        self,
        function: FunctionId,
        load: Load,
        ring: Sequence[Candidate],
        members: MemberSet | None,
        now: Instant,
    ) -> Chosen:
        """Return the server for one call."""
        return Chosen(next((one.name for one in ring if one.can_take), ""), None)
