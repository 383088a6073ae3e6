"""Who is on each node: the tenants of attempts that hold something there, or were promised it, and whether one is alone.

Kept from facts, and equal to what the image alone would give. A tenant's code is drawn from its name, so that it is the
same everywhere and nobody has to be told; two names share one with a chance of 2^-60.

code      63 bits: the tenant's 61, and in the lowest bit whether its work there shares the node with no other tenant
"""

from collections.abc import Collection, Container, Hashable, Iterable

from core.events.control import ClaimRevised
from core.events.region import AttemptEnded, AwardDeclined, ClaimGranted, ClaimPromised
from core.fact import Fact
from core.images.capacity import Capacity
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.placement import Claim
from core.rules.placement.rule import NOBODY, SEVERAL
from core.rules.placement.tenant_isolation import code_of

OF_OWNERS = (ClaimPromised, ClaimGranted, ClaimRevised, AwardDeclined, AttemptEnded)
"""Facts that change where an attempt is: `settle` it after each."""
APART = 1
"""Somebody is to be alone there, and waits for others to leave, so that nobody may come: the code of a tenant that there is none of."""
Entries = tuple[tuple[int, int], ...]
"""Nodes, each with the code of who is there."""


def entries_of(claim: Claim) -> Entries:
    """Where a claim puts its tenant, once a node and job."""
    entries: list[tuple[int, int]] = []
    for job, spread in zip(claim.jobs, claim.spreads, strict=True):
        code = code_of(claim.tenant, is_alone=job.is_alone)
        entries.extend([(node, code) for node in spread.nodes])
    return tuple(entries)


def key_of(attempt: AttemptKey) -> Hashable:
    """Under which an attempt is kept."""
    return ("attempt", *attempt)


def wants_alone(claim: Claim) -> bool:
    """Whether any of its jobs shares its nodes with no other tenant."""
    return any(job.is_alone for job in claim.jobs)


class Owners:
    """Each attempt has a key; what else an agent counts on (its offers, its claims) may have one of its own.

    While nobody is, or wants to be, alone on a node it is of no matter who is where. So attempts that share their nodes are
    followed only from when somebody asks (`know_all`); those that are alone always are.
    """

    def __init__(self) -> None:
        self.alone = 0
        """How many entries are of somebody who is alone."""
        self._knows_all = False
        self._by_key: dict[Hashable, Entries] = {}
        self._on: dict[int, dict[int, int]] = {}

    @classmethod
    def of(cls, capacity: Capacity) -> "Owners":
        """From scratch."""
        owners = cls()
        owners.settle_all(capacity)
        return owners

    def know_all(self, capacity: Capacity) -> None:
        """Follow every attempt from now on, as the image has it: `at` may be asked."""
        if not self._knows_all:
            self._knows_all = True
            self.settle_all(capacity)

    def settle_all(self, capacity: Capacity) -> None:
        """As the image has it; keys that are no attempts' stay."""
        for key in [key for key in self._by_key if isinstance(key, tuple) and key[0] == "attempt"]:
            self.drop(key)
        for epochs in (capacity.holdings, capacity.promises):
            for workload, by_epoch in epochs.items():
                for epoch in by_epoch:
                    self.settle(capacity, workload, epoch)

    def settle(self, capacity: Capacity, workload: WorkloadId, epoch: int) -> list[int]:
        """One attempt as the image has it now; which nodes it changes."""
        held = capacity.holding(workload, epoch)
        claim = held.claim if held is not None else capacity.promise(workload, epoch)
        if not (self._knows_all or self.alone or (claim is not None and wants_alone(claim))):
            return []
        key = key_of((workload, epoch))
        if claim is None or not (self._knows_all or wants_alone(claim)):
            return self.drop(key)
        return self.put(key, entries_of(claim))

    def hear(self, capacity: Capacity, fact: Fact) -> list[int]:
        """Follow a fact that the image has folded; which nodes it changes."""
        event = fact.event
        return self.settle(capacity, event.workload, event.epoch) if isinstance(event, OF_OWNERS) else []

    def put(self, key: Hashable, entries: Entries) -> list[int]:
        """These are there under this key and nothing else; which nodes it changes."""
        before = self._by_key.get(key)
        if before == entries:
            return []
        changed = self.drop(key)
        self._by_key[key] = entries
        for node, code in entries:
            on = self._on.setdefault(node, {})
            on[code] = on.get(code, 0) + 1
            self.alone += code & 1
        return [*changed, *(node for node, _ in entries)]

    def drop(self, key: Hashable) -> list[int]:
        """Nobody is there under this key any more; which nodes it changes."""
        entries = self._by_key.pop(key, ())
        for node, code in entries:
            on = self._on[node]
            on[code] -= 1
            self.alone -= code & 1
            if not on[code]:
                del on[code]
                if not on:
                    del self._on[node]
        return [node for node, _ in entries]

    def nodes(self) -> list[int]:
        """On which anybody is."""
        return sorted(self._on)

    def nodes_of(self, keys: Iterable[Hashable]) -> list[int]:
        """On which these are."""
        return sorted({node for key in keys for node, _ in self._by_key.get(key, ())})

    def under(self, keys: Iterable[Hashable]) -> Entries:
        """What these keys put here: each node and code once, ascending."""
        return tuple(sorted({entry for key in keys for entry in self._by_key.get(key, ())}))

    def at(self, node: int, without: Collection[Hashable] = ()) -> int:
        """A tenant's code, NOBODY, SEVERAL or APART; as if nobody were there under these keys. Only once all are known."""
        assert self._knows_all, node
        on = self._on.get(node)
        if not on:
            return NOBODY
        if without:
            left = dict(on)
            for key in without:
                for mine, code in self._by_key.get(key, ()):
                    if mine == node:
                        left[code] -= 1
            on = {code: count for code, count in left.items() if count}
        tenants = {code >> 1 for code in on}
        if len(tenants) > 1:
            return APART if any(code & 1 for code in on) else SEVERAL
        return max(on, default=NOBODY)


class Now:
    """A region's image, and who is where: what hard rules are re-checked against."""

    def __init__(
        self,
        capacity: Capacity,
        owners: Owners | None = None,
        without: Iterable[AttemptKey] = (),
        barred: Container[int] = (),
    ) -> None:
        """
        without   attempts that are as good as gone
        barred    nodes that are kept for the start of somebody else than who asks
        """
        self.capacity = capacity
        self._barred = barred
        self._owners = Owners() if owners is None else owners
        self._without = tuple(key_of(attempt) for attempt in without)

    @property
    def has_alone(self) -> bool:
        """Whether anybody is alone anywhere."""
        return self._owners.alone > 0

    def is_barred(self, node: int) -> bool:
        """Whether who asks may not be there, because another start is reserved."""
        return node in self._barred

    def owner(self, node: int) -> int:
        """Who has something there, these attempts left out."""
        self._owners.know_all(self.capacity)
        return self._owners.at(node, self._without)
