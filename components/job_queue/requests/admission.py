"""Admission: why a submission is refused because of its tenant, the fleet, or the ceilings on pending workloads."""

from difflib import get_close_matches

from components.job_queue.state.queue_state import QueueState
from core.nouns.ids import TenantName
from core.nouns.limits import TENANTS_SHOWN_MAX
from core.nouns.reasons import Reason
from core.nouns.workload import UNNAMED, WorkloadSpec
from core.rules.never_fits import could_fit, reasons_never
from core.rules.quota import settings_of

Against = tuple[Reason, tuple[str, ...]]


def never_fits(state: QueueState, spec: WorkloadSpec) -> Against | None:
    """Return why a workload can never run: a region is unknown, or all allowed ones are known, have nodes and are too small."""
    unknown = [region for region in spec.regions if region not in state.regions]
    if unknown:
        return Reason.UNKNOWN_REGION, tuple(f"regions: {region} is not in the fleet" for region in unknown)
    hardware = {}
    for region in spec.regions or state.regions:
        image = state.regions[region]
        if image is None or not image.hardware.runs or could_fit(spec, image.hardware):
            return None
        hardware[region] = image.hardware
    return Reason.NEVER_FITS, reasons_never(spec, hardware)


def above_level(state: QueueState, tenant: TenantName, priority: int | None) -> list[str]:
    """Return the problem of a priority above the level of its tenant."""
    level = settings_of(state.image.tenants, tenant).level
    if priority is None or priority <= level:
        return []
    return [f"priority: {priority} is above {level}, the level of {tenant}; name {level} at most, or none"]


def against_tenant(state: QueueState, spec: WorkloadSpec) -> Against | None:
    """Return why a tenant or its level forbids a submission. Any tenant is accepted before operators set the first one."""
    tenants = state.image.tenants
    if not tenants.rows:
        return None
    if spec.tenant not in tenants.rows:
        return Reason.UNKNOWN_TENANT, (_unknown_tenant(spec.tenant, sorted(tenants.rows)),)
    above = above_level(state, spec.tenant, spec.priority)
    return (Reason.ABOVE_LEVEL, tuple(above)) if above else None


def too_many(state: QueueState, tenant: TenantName, more: int = 1) -> Against | None:
    """Return why a tenant may not have so many more pending workloads, if that is so. Work that is preempted was accepted: no ceiling
    holds for it.
    """
    counts, tenants = state.remembered, state.image.tenants
    mine, most = counts.pending.get(tenant, 0), settings_of(tenants, tenant).pending_max
    problems = []
    if mine + more > most:
        problems.append(f"tenant: {tenant} has {mine} pending workloads{_and(more)}, and may have {most}")
    if counts.pending_in_all + more > tenants.ranking.pending_max:
        most = tenants.ranking.pending_max
        problems.append(
            f"{counts.pending_in_all} workloads of all tenants are pending{_and(more)}, and {most} may be"
        )
    return (Reason.TOO_MANY, tuple(problems)) if problems else None


def _and(more: int) -> str:
    return f", {more} more would be with these" if more > 1 else ""


def _unknown_tenant(tenant: TenantName, known: list[TenantName]) -> str:
    """Return a problem's text that names known tenants, first those of similar spelling."""
    alike = get_close_matches(tenant, known, TENANTS_SHOWN_MAX)
    names = ", ".join([*alike, *(name for name in known if name not in alike)][:TENANTS_SHOWN_MAX])
    more = "" if len(known) <= TENANTS_SHOWN_MAX else ", ..."
    whose = ", which is whose work is that names none" if tenant == UNNAMED else ""
    return f"tenant: there is no {tenant}{whose}; name one of {names}{more}"
