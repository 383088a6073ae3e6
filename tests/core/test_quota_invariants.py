"""The rule of quotas, by the queue's own log: at every fact, and that it tells what breaks it."""

from core.events.queue import StandingChanged, WorkloadAwarded
from core.events.tenants import EntitlementSet, TenantSet
from core.fact import Event
from core.images import GlobalImage
from core.invariants.quota import check_quota
from core.nouns.ids import GLOBAL_LOG, TenantName, WorkloadId
from core.nouns.tenant import OVER_LEVEL, Entitlement
from tests.builders import EU, a_fact, a_queue, submitted

ML, ART = TenantName("ml"), TenantName("art")
W1, W2 = WorkloadId("w-1"), WorkloadId("w-2")


def entitled(tenant: TenantName, gpus: int, revision: int = 2) -> EntitlementSet:
    """To H100 alone."""
    return EntitlementSet(tenant, revision, "H100", Entitlement(gpus))


def awarded(workload: WorkloadId, gpus: int, level: int = 3, tenant: TenantName = ML) -> WorkloadAwarded:
    """Its first attempt."""
    return WorkloadAwarded(workload, 1, EU, 0, (), tenant=tenant, level=level, charge={"H100": gpus * 1_000})


def stands(workload: WorkloadId, gpus: int, level: int = 3) -> StandingChanged:
    """From now on."""
    return StandingChanged(workload, 1, 1, ML, level, {"H100": gpus * 1_000})


def told(before: GlobalImage, event: Event) -> list[str]:
    """Of a fact that is to be folded next."""
    return check_quota(a_fact(event, 99, log=GLOBAL_LOG), before)


def a_full_quota() -> GlobalImage:
    """Of 8, all by one award."""
    return a_queue(
        submitted(1), submitted(2), TenantSet(ML, 1), TenantSet(ART, 1), entitled(ML, 8), awarded(W1, 8)
    )


def test_more_than_the_entitlement() -> None:
    """By an award, by one that holds more than it did, and by one that is within from now on."""
    before = a_full_quota()
    assert ["ml: 9 H100 held within quota, and 8 are its entitlement"] == told(before, awarded(W2, 1))
    assert 1 == len(told(before, stands(W1, 9)))
    assert [] == told(before, stands(W1, 7))
    assert [] == told(before, awarded(W2, 1, OVER_LEVEL))
    over = a_queue(
        submitted(1),
        submitted(2),
        TenantSet(ML, 1),
        entitled(ML, 8),
        awarded(W1, 8),
        awarded(W2, 1, OVER_LEVEL),
    )
    assert 1 == len(told(over, stands(W2, 1, 2)))


def test_quota_is_awarded_again_once_an_award_is_over_quota() -> None:
    """The one award goes over quota first, then the other is made."""
    over = a_queue(
        submitted(1),
        submitted(2),
        TenantSet(ML, 1),
        entitled(ML, 8),
        awarded(W1, 8),
        stands(W1, 8, OVER_LEVEL),
    )
    assert [] == told(over, awarded(W2, 8))


def test_an_entitlement_below_the_gpus_held_within_it() -> None:
    """An award must be over quota before."""
    before = a_full_quota()
    assert ["ml: 8 H100 held within quota, and 7 are its entitlement"] == told(before, entitled(ML, 7, 3))
    assert [] == told(before, entitled(ML, 8, 3))


def test_the_first_entitlement_of_a_type() -> None:
    """What others hold of it is over quota from then on."""
    before = a_queue(
        submitted(1),
        submitted(2),
        TenantSet(ML, 1),
        TenantSet(ART, 1),
        awarded(W1, 8),
        awarded(W2, 2, 3, ART),
    )
    assert ["art: 2 H100 held within quota, and 0 are its entitlement"] == told(before, entitled(ML, 8))
    assert [] == told(before, EntitlementSet(ML, 2, "A100", Entitlement(8)))
