"""Owners of each node: tenants of attempts that hold capacity there or were promised some, and whether one is alone.

Updated by facts, and equal to a computation from the image alone. A tenant's code is drawn from the name, so that all components
agree without a message; two names share a code with a chance of 2^-61.

code      62 bits: 61 for the tenant, and the lowest bit set if the tenant's work there shares the node with no other tenant
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
"""Facts that change an attempt's nodes: call `settle` after each."""
APART = 1
"""Code of a node on which one tenant is to be alone once the others have left; until then the node takes no work."""
Entries = tuple[tuple[int, int], ...]
"""Nodes, each with an owner's code."""


def entries_of(claim: Claim) -> Entries:
    """Return a claim's nodes with its tenant's code, once per node and job."""
    entries: list[tuple[int, int]] = []
    for job, spread in zip(claim.jobs, claim.spreads, strict=True):
        code = code_of(claim.tenant, is_alone=job.is_alone)
        entries.extend([(node, code) for node in spread.nodes])
    return tuple(entries)


def key_of(attempt: AttemptKey) -> Hashable:
    """Return the key of an attempt's entries."""
    return ("attempt", *attempt)


def wants_alone(claim: Claim) -> bool:
    """Return whether some job of the claim shares no node with other tenants."""
    return any(job.is_alone for job in claim.jobs)


class Owners:
    """Entries by key: one key for each attempt, others for an agent's offers and claims.

    While no work is, or asks to be, alone on a node, owners do not matter. So attempts that share their nodes are followed only
    after `know_all`; attempts that are alone are followed always.
    """

    def __init__(self) -> None:
        self.alone = 0
        """Number of entries of work that is alone."""
        self._knows_all = False
        self._by_key: dict[Hashable, Entries] = {}
        self._on: dict[int, dict[int, int]] = {}

    @classmethod
    def of(cls, capacity: Capacity) -> "Owners":
        """Return the owners computed from the image."""
        owners = cls()
        owners.settle_all(capacity)
        return owners

    def know_all(self, capacity: Capacity) -> None:
        """Follow every attempt of the image from now on, which `at` requires."""
        if not self._knows_all:
            self._knows_all = True
            self.settle_all(capacity)

    def settle_all(self, capacity: Capacity) -> None:
        """Set all attempts as in the image; other keys stay."""
        for key in [key for key in self._by_key if isinstance(key, tuple) and key[0] == "attempt"]:
            self.drop(key)
        for epochs in (capacity.holdings, capacity.promises):
            for workload, by_epoch in epochs.items():
                for epoch in by_epoch:
                    self.settle(capacity, workload, epoch)

    def settle(self, capacity: Capacity, workload: WorkloadId, epoch: int) -> list[int]:
        """Set one attempt as in the image; return the nodes that change."""
        held = capacity.holding(workload, epoch)
        claim = held.claim if held is not None else capacity.promise(workload, epoch)
        if not (self._knows_all or self.alone or (claim is not None and wants_alone(claim))):
            return []
        key = key_of((workload, epoch))
        if claim is None or not (self._knows_all or wants_alone(claim)):
            return self.drop(key)
        return self.put(key, entries_of(claim))

    def hear(self, capacity: Capacity, fact: Fact) -> list[int]:
        """Follow a fact that the image has folded; return the nodes that change."""
        event = fact.event
        return self.settle(capacity, event.workload, event.epoch) if isinstance(event, OF_OWNERS) else []

    def put(self, key: Hashable, entries: Entries) -> list[int]:
        """Set the entries of a key; return the nodes that change."""
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
        """Drop the entries of a key; return the nodes that change."""
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

    def has_alone(self, node: object) -> bool:
        """Return whether work that is alone, or asks to be, is on a node or was promised the node."""
        on = self._on.get(node) if isinstance(node, int) else None
        return on is not None and any(code & 1 for code in on)

    def nodes(self) -> list[int]:
        """Return the nodes with owners, ascending."""
        return sorted(self._on)

    def nodes_of(self, keys: Iterable[Hashable]) -> list[int]:
        """Return the nodes of these keys, ascending."""
        return sorted({node for key in keys for node, _ in self._by_key.get(key, ())})

    def under(self, keys: Iterable[Hashable]) -> Entries:
        """Return the entries of these keys: each node and code once, ascending."""
        return tuple(sorted({entry for key in keys for entry in self._by_key.get(key, ())}))

    def at(self, node: int, without: Collection[Hashable] = ()) -> int:
        """Return the owner of a node without these keys: a code, NOBODY, SEVERAL or APART. Requires `know_all`."""
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
    """A region's image and owners, against which a store re-checks hard rules."""

    def __init__(
        self,
        capacity: Capacity,
        owners: Owners | None = None,
        without: Iterable[AttemptKey] = (),
        barred: Container[int] = (),
    ) -> None:
        """
        without   attempts to treat as ended
        barred    nodes kept for reservations that bar the claim
        """
        self.capacity = capacity
        self._barred = barred
        self._owners = Owners() if owners is None else owners
        self._without = tuple(key_of(attempt) for attempt in without)

    @property
    def has_alone(self) -> bool:
        """True if some work is alone on its nodes."""
        return self._owners.alone > 0

    def is_barred(self, node: int) -> bool:
        """Return whether a reservation bars the claim from the node."""
        return node in self._barred

    def owner(self, node: int) -> int:
        """Return the owner of a node, without the attempts in `without`."""
        self._owners.know_all(self.capacity)
        return self._owners.at(node, self._without)
