"""How a workload stands to its tenant's quota, for people: a level of -1 is nothing to them, and neither are nanoseconds of credit."""

from core.messages.queue import WorkloadExplained
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import JobSpec, Kind, WorkloadSpec
from mizzen.views.phrases.durations import short_text

WITHIN, HELD = "within", "held"


def level_text(level: int) -> str:
    """`priority 3`, or `over quota`."""
    return "over quota" if level == OVER_LEVEL else f"priority {level}"


def priority_text(spec: WorkloadSpec, live: WorkloadExplained | None) -> str:
    """What it asks for; of one that asks for its tenant's level also that, if the queue says it. A job of a shared pool has no level."""
    if spec.kind is Kind.SHARED:
        return "none: in a shared pool weights decide"
    if spec.priority is not None:
        return str(spec.priority)
    if live is None or live.level == OVER_LEVEL:
        return "its tenant's"
    return f"{live.level}, its tenant's"


def standing_text(live: WorkloadExplained, spec: WorkloadSpec) -> str:
    """To its tenant's quota, and what comes of that; empty of one that neither waits in the order nor is placed, and in a shared pool."""
    tenant = spec.tenant
    if spec.kind is Kind.SHARED:
        return ""
    if live.standing == WITHIN:
        return f"within the quota of {tenant}, at level {live.level}, with {credit_text(live.credit, live.age_weight)}"
    if live.standing == HELD and live.reason == Reason.NOT_RANKED:
        return "not in the order before the next pass: it was submitted or changed after the newest"
    if live.standing == HELD:
        return f"over the quota of {tenant}, and must wait: {_why_held(live, spec)}"
    if live.standing:
        credit = credit_text(live.credit, live.age_weight)
        return f"over the quota of {tenant}: {_lent()}; behind all that is within quota, with {credit}"
    if not live.region:
        return ""
    if live.level == OVER_LEVEL:
        return f"over the quota of {tenant}: {_lent()}"
    return f"within the quota of {tenant}, at level {live.level}"


def _lent() -> str:
    return "it may hold capacity that other tenants leave unused, and work within quota may preempt it"


def _why_held(live: WorkloadExplained, spec: WorkloadSpec) -> str:
    if live.reason == Reason.BUDGET_SPENT:
        return f"{spec.tenant} has used its GPU-hours of this period, `mizzen quota show {spec.tenant}` tells when the next begins"
    if live.reason == Reason.QUOTA_KEPT:
        return f"the rest of that quota is held for work of {spec.tenant} ahead of it that has waited long"
    if live.reason == Reason.QUOTA_DRAINS:
        return f"the rest of that quota is held for it until enough running work of {spec.tenant} has ended"
    if spec.kind == Kind.INTERACTIVE:
        return "interactive work is never preempted, so it may not borrow"
    return f"{spec.tenant} may borrow no more, `mizzen quota show {spec.tenant}` tells what it holds"


def credit_text(credit: int, age_weight: int) -> str:
    """In spans of waiting, while waiting earns any."""
    if not age_weight:
        return f"a credit of {credit}"
    span = short_text(abs(credit) // age_weight)
    return (
        f"a credit of {span}"
        if credit >= 0
        else f"a credit of -{span}, for its tenant used more than its share"
    )


def held_to_text(live: WorkloadExplained, jobs: tuple[JobSpec, ...]) -> str:
    """On which GPU types alone it is asked for; empty if on all that will do, and of one that nobody is asked for."""
    named = [
        f"{job.name} on {types}"
        for job, types in zip(jobs, live.is_held_to, strict=False)
        if types != job.type_text
    ]
    if not named or live.standing == HELD:
        return ""
    where = "its tenant's quota has headroom" if live.standing == WITHIN else "other tenants leave some"
    return f"asked for only where {where}: {', '.join(named)}"
