"""Rules 1 and 5 of the invariants (DESIGN §11) for pairs: a device is held by one host and lent to at most one guest, both of a shared
pool, and neither of them is preempted.

The rules are written a second time, without the functions by which the store grants.
"""

from collections.abc import Iterable

from core.events.region import ClaimGranted, ClaimPromised, PromiseRevised
from core.fact import Fact
from core.images import RegionImage
from core.images.capacity import Capacity, Holding
from core.invariants.control import Finding
from core.nouns.ids import AttemptKey
from core.nouns.placement import Claim
from core.nouns.quantities import MILLI
from core.nouns.workload import Kind


def check_pairs(capacity: Capacity) -> list[str]:
    """Return violations of rule 1 over all live attempts: of two in a pair each names the other, and both lie on one device."""
    held = {(workload, epoch): one for workload, epoch, one in capacity.live()}
    hosts = {key: one.guest for key, one in held.items() if one.guest is not None}
    guests = {key: one.claim.beside for key, one in held.items() if one.claim.beside is not None}
    found = [
        f"{_text(key)}: hosts {_text(guest)}, which does not lie beside it"
        for key, guest in hosts.items()
        if guests.get(guest) != key
    ]
    for key, host in guests.items():
        if hosts.get(host) != key:
            found.append(f"{_text(key)}: lies beside {_text(host)}, which is not its host")
        elif not _is_narrow(held[key].claim) or not _is_narrow(held[host].claim):
            found.append(f"{_text(key)}: shares a device with {_text(host)}, and may not")
        elif held[key].claim.spreads != held[host].claim.spreads:
            found.append(f"{_text(key)}: lies elsewhere than its host {_text(host)}")
    found.extend(f"{_text(key)}: is guest and host at once" for key in guests.keys() & hosts.keys())
    return found


def check_pair_fact(fact: Fact, before: RegionImage) -> list[Finding]:
    """Return violations at a fact of a region: by the grant of a guest, or by a promise over an attempt of a pair."""
    match fact.event:
        case ClaimGranted(claim=claim) if claim.beside is not None:
            return [(1, text) for text in _taken_in_wrongly(claim, claim.beside, before.capacity)]
        case ClaimPromised(claim=claim):
            return list(_preempted(claim.victims, before.capacity))
        case PromiseRevised(victims=victims):
            return list(_preempted(victims, before.capacity))
    return []


def _taken_in_wrongly(claim: Claim, beside: AttemptKey, capacity: Capacity) -> Iterable[str]:
    name = f"{claim.workload}.{claim.epoch}: granted beside {_text(beside)}"
    host = capacity.holding(*beside)
    if host is None:
        yield f"{name}, which holds nothing"
        return
    if not _is_narrow(claim) or not _is_narrow(host.claim):
        yield f"{name}, and not both have one task of one GPU in a shared pool"
    if claim.spreads != host.claim.spreads:
        yield f"{name}, and lies elsewhere"
    if _shares(host):
        yield f"{name}, which shares its device already"
    if host.is_ending or _is_to_go(beside, capacity):
        yield f"{name}, which is to end"


def _preempted(victims: Iterable[AttemptKey], capacity: Capacity) -> Iterable[Finding]:
    for key in victims:
        held = capacity.holding(*key)
        if held is not None and _shares(held):
            yield 5, f"{_text(key)}: to be preempted, and its end frees no GPU, for it shares its device"


def _shares(held: Holding) -> bool:
    return held.guest is not None or held.claim.beside is not None


def _is_to_go(key: AttemptKey, capacity: Capacity) -> bool:
    return any(key in claim.victims for epochs in capacity.promises.values() for claim in epochs.values())


def _is_narrow(claim: Claim) -> bool:
    needs = [job.need.gpu_milli for job in claim.jobs for _ in range(job.tasks)]
    return claim.kind == Kind.SHARED and needs == [MILLI]


def _text(key: AttemptKey) -> str:
    return f"{key[0]}.{key[1]}"
