"""Pairs: two attempts of a shared pool on one device. The host holds the device; the guest lies beside it, with only CPUs and memory
of its own.

When the host ends first, the device passes to the guest without being free in between: from then on the guest holds the device as if
it had been placed alone, and may be host to a next guest. When the guest ends first, no GPU is freed.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec.structs import replace

from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.placement import Claim, Spread
from core.nouns.quantities import MILLI
from core.nouns.workload import JobSpec, Kind


class InPair(Protocol):
    """A granted attempt, as far as a pair concerns it (core/images/capacity.py, `Holding`)."""

    claim: Claim
    is_ending: bool
    guest: AttemptKey | None


class Pairing(Protocol):
    """A region's capacity, as far as pairs concern it."""

    @property
    def promises(self) -> Mapping[WorkloadId, Mapping[int, Claim]]: ...

    def holding(self, workload: WorkloadId, epoch: int) -> InPair | None:
        """Return what a live attempt holds."""


def may_pair(kind: str, jobs: tuple[JobSpec, ...]) -> bool:
    """Return whether work shares a device with another job: it is of a shared pool, with one task of one whole GPU."""
    if kind != Kind.SHARED or len(jobs) != 1:
        return False
    return jobs[0].tasks == 1 and jobs[0].need.gpu_milli == MILLI


def place_beside(
    capacity: Pairing, host: AttemptKey, kind: str, jobs: tuple[JobSpec, ...]
) -> tuple[Spread, ...] | None:
    """Return the spreads that a guest of the host would have; None if the host takes no guest now, or the jobs can be none.

    The host is granted or started, has no part in a pair, is not told to stop, and is no victim of a promise.
    """
    held = capacity.holding(*host)
    if held is None or not may_pair(kind, jobs) or not may_pair(held.claim.kind, held.claim.jobs):
        return None
    if held.is_ending or held.guest is not None or held.claim.beside is not None:
        return None
    promises = (claim for epochs in capacity.promises.values() for claim in epochs.values())
    return None if any(host in claim.victims for claim in promises) else held.claim.spreads


def host_of(capacity: Pairing, claim: Claim) -> InPair | None:
    """Return the host of a claim's guest if the two are a pair by now, or can be one: the host is alive and alone where the guest lies."""
    if claim.beside is None or not may_pair(claim.kind, claim.jobs):
        return None
    host = capacity.holding(*claim.beside)
    if host is None or not may_pair(host.claim.kind, host.claim.jobs) or host.claim.beside is not None:
        return None
    if host.guest not in (None, (claim.workload, claim.epoch)):
        return None
    return host if host.claim.spreads == claim.spreads else None


def partner_of(capacity: Pairing, workload: WorkloadId, epoch: int) -> AttemptKey | None:
    """Return the attempt that shares its device with this one: its guest, or its host; None: it is alone, or not alive."""
    held = capacity.holding(workload, epoch)
    return None if held is None else held.guest or held.claim.beside


# Folding.


def beside_its_host(capacity: Pairing, claim: Claim) -> Claim:
    """Return the claim of a guest, which its host knows from now on; without a host there, the claim of a device of its own."""
    host = host_of(capacity, claim)
    if host is None:
        return replace(claim, beside=None)
    host.guest = (claim.workload, claim.epoch)
    return claim


def heirs_of(capacity: Pairing, ended: InPair) -> tuple[InPair, ...]:
    """Dissolve the pair of an attempt that has ended, if there is one. Return the guest that takes over its device; none of a guest."""
    if ended.claim.beside is not None:
        host = capacity.holding(*ended.claim.beside)
        assert host is not None, ended.claim.beside
        host.guest = None
    if ended.guest is None:
        return ()
    guest = capacity.holding(*ended.guest)
    assert guest is not None, ended.guest
    guest.claim = replace(guest.claim, beside=None)
    return (guest,)
