"""Rule 4 of the invariants (DESIGN §11): a tenant's nominal use never exceeds its entitlement.

Checked at every fact of the queue's log, in which facts that free quota come before facts that use it. Scenarios alone check how soon
borrowing work is reclaimed (docs/decisions/0045-who-checks-each-invariant.md).
"""

from core.events.queue import StandingChanged, WorkloadAwarded
from core.events.tenants import EntitlementSet
from core.fact import Fact
from core.images import GlobalImage
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.quantities import MILLI
from core.nouns.tenant import OVER_LEVEL
from core.rules.quota import types_under_quota


def check_quota(fact: Fact, before: GlobalImage) -> list[str]:
    """Return violations that a fact of the queue would cause, before the fact is folded."""
    event = fact.event
    match event:
        case WorkloadAwarded(level=level) if level is None or level == OVER_LEVEL:
            return []
        case WorkloadAwarded() | StandingChanged():
            if event.level == OVER_LEVEL:
                return []
            return _too_much(before, event.tenant, event.workload, event.charge)
        case EntitlementSet():
            others = before.tenants.rows if event.gpu_type not in types_under_quota(before.tenants) else ()
            found = []
            for tenant in dict.fromkeys((event.tenant, *others, *before.usage.rows)):
                row = before.tenants.rows.get(tenant)
                gpus = row.of(event.gpu_type).gpus if row is not None else 0
                most = event.entitlement.gpus if tenant == event.tenant else gpus
                found += _beyond(before, tenant, event.gpu_type, most * MILLI, 0)
            return found
    return []


def _too_much(
    before: GlobalImage, tenant: TenantName, workload: WorkloadId, charge: dict[str, int]
) -> list[str]:
    """Return violations by a tenant if one of its awards had this nominal charge, in place of its earlier nominal charge."""
    row, was = before.tenants.rows.get(tenant), before.usage.awards.get(workload)
    mine = was.charge if was is not None and was.level != OVER_LEVEL else {}
    found = []
    for kind in sorted(charge.keys() & types_under_quota(before.tenants)):
        most = row.of(kind).gpus * MILLI if row is not None else 0
        more = charge[kind] - mine.get(kind, 0)
        if more > 0:
            found += _beyond(before, tenant, kind, most, more)
    return found


def _beyond(before: GlobalImage, tenant: TenantName, kind: str, most: int, more: int) -> list[str]:
    used = before.usage.rows.get(tenant)
    held = (used.within.get(kind, 0) if used is not None else 0) + more
    if held <= most:
        return []
    return [f"{tenant}: {held / MILLI:g} {kind} held within quota, and {most / MILLI:g} are its entitlement"]
