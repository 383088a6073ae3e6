"""`mizzen quota`: what a tenant may hold of each GPU type, and what it holds of it."""

import shutil
import sys
from typing import Annotated

from cyclopts import App, Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import CommandError, tell_json, tell_lines

quota = App(name="quota", version_flags=[], default_parameter=Parameter(show_default=False))


@quota.default
def show_all(*, json: Json = False) -> None:
    """Show what every tenant may hold of each GPU type, and what it holds."""
    show(json=json)


@quota.command(name="show")
def show(
    tenant: Annotated[str, Parameter(name="TENANT", help="Only of this tenant.")] = "",
    /,
    *,
    json: Json = False,
) -> None:
    """Show what a tenant may hold of each GPU type, and what it holds, has borrowed and has lent.

    USED is its part of all GPU time of late, SHARE its part of all that is guaranteed; HOURS the GPU-hours of this period, LEFT what is left of its budget.
    """
    import msgspec

    from mizzen.actions.quotas import tenants_of
    from mizzen.views.fleet.tenant_table import deadlines_of, quota_of
    from mizzen.views.plane_reads import on_plane

    rows = [row for row in on_plane(lambda bus, _: tenants_of(bus)) if tenant in ("", row.tenant)]
    if tenant and not rows:
        text = f"there is no tenant {tenant}; `mizzen tenants` lists them, and `mizzen quota set {tenant} --level 3` makes it"
        raise CommandError(text)
    if json:
        tell_json(msgspec.to_builtins(rows))
    else:
        tell_lines(quota_of(rows, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
        limited = [row for row in rows if row.deadlines is not None]
        tell_lines(["", *deadlines_of(limited)] if limited else [])


@quota.command(name="set")
def set_(
    tenant: Annotated[
        str, Parameter(name="TENANT", help="The tenant; with --level it is made if there is none.")
    ],
    *gpus: Annotated[str, Parameter(name="TYPE=COUNT", help="GPUs guaranteed of a type, as in H100=64.")],
    borrow: Annotated[
        str, Parameter(help="GPUs of each of these types that it may hold beyond that; all for no limit.")
    ] = "",
    lend: Annotated[
        str, Parameter(help="Whether other tenants may hold the part that it does not use: yes or no.")
    ] = "",
    level: Annotated[str, Parameter(help="Of its work within its quota: 0 to 6, the highest.")] = "",
    min_run: Annotated[
        str, Parameter(help="How long its work runs at least before it may be a victim, as in 30m.")
    ] = "",
    pending_max: Annotated[
        str, Parameter(help="Pending workloads of it beyond which its submissions are refused.")
    ] = "",
    budget: Annotated[str, Parameter(help="GPU-hours in a period, as in 10000/7d; none for no budget.")] = "",
    force: Annotated[
        bool, Parameter(negative=(), help="Also less than it holds, or of a type that no region has.")
    ] = False,
    json: Json = False,
) -> None:
    """Set a tenant's level, entitlements, ceiling and budget; settings that are not named stay."""
    import msgspec

    from core.nouns.ids import TenantName
    from mizzen.actions.quotas import set_quota, wish_of
    from mizzen.views.fleet.tenant_table import beyond_of, quota_of, table_of
    from mizzen.views.plane_reads import on_plane

    wish = wish_of(
        gpus,
        borrow=borrow.strip(),
        lend=lend.strip(),
        level=level.strip(),
        run_min=min_run.strip(),
        pending_max=pending_max.strip(),
        budget=budget.strip(),
        is_forced=force,
    )
    row = on_plane(lambda bus, _: set_quota(bus, TenantName(tenant), wish))
    if json:
        tell_json(msgspec.to_builtins(row))
    else:
        tell_lines(table_of([row], None) if not wish.gpus else quota_of([row], None))
        tell_lines(beyond_of(row, dict(wish.gpus)))


@quota.command(name="deadlines")
def deadlines(
    tenant: Annotated[str, Parameter(name="TENANT", help="The tenant, which must have been made.")],
    /,
    *,
    gpu_hours: Annotated[
        str,
        Parameter(help="Predicted GPU-hours of pipelines with a deadline in a period; none for no limit."),
    ] = "",
    period: Annotated[str, Parameter(help="How long a period is, as in 7d.")] = "",
    json: Json = False,
) -> None:
    """Set how much of a tenant's work may be under deadlines; without options, show that.

    A pipeline counts when it is submitted, by its predicted GPU-hours. Beyond the limit it is accepted without a deadline, and its
    user is told.
    """
    import msgspec

    from core.nouns.ids import TenantName
    from mizzen.actions.quotas import deadline_budget_of, set_deadline_budget, tenant_listed
    from mizzen.views.fleet.tenant_table import deadlines_of
    from mizzen.views.plane_reads import on_plane

    name, wish = TenantName(tenant), deadline_budget_of(gpu_hours.strip(), period.strip())
    row = on_plane(
        lambda bus, _: tenant_listed(bus, name) if wish is None else set_deadline_budget(bus, name, wish)
    )
    if json:
        tell_json(msgspec.to_builtins(row))
    else:
        tell_lines(deadlines_of([row]))


LagWeight = Annotated[
    str,
    Parameter(
        help="Hours of waiting that an hour behind the fair share is worth to borrowing work; 0: none."
    ),
]
LagCap = Annotated[
    str, Parameter(help="No tenant counts as further behind its fair share, or ahead, as in 1d.")
]
QuotaPatience = Annotated[
    str,
    Parameter(
        help="A workload that has waited so long holds its tenant's quota against that tenant's work behind it, as in 10m; 0 for never."
    ),
]

Gather = Annotated[
    str,
    Parameter(
        help="A region is drained for a workload over quota that is older than the age cap and wants no more than this part of all GPUs, as in 2%; 0 for none. Nor is it with --lag-weight 0."
    ),
]

Order = Annotated[
    str,
    Parameter(help="Whether the order is kept from event to event, or made at each pass: events or passes."),
]
Deadlines = Annotated[
    str,
    Parameter(
        help="How work with a deadline is ranked: llf by the time at which it must start, edf by its deadline, off as other work."
    ),
]
Pass = Annotated[str, Parameter(name="--pass", help="How often all use is counted again, as in 10s.")]
PendingMax = Annotated[
    str, Parameter(help="Pending workloads of all tenants beyond which submissions are refused.")
]
RememberedMax = Annotated[str, Parameter(help="Ended workloads that the queue remembers, for a day at most.")]


@quota.command(name="ranking")
def ranking(
    *,
    half_life: Annotated[str, Parameter(help="Use counts half after this, as in 12h.")] = "",
    age_cap: Annotated[str, Parameter(help="Waiting longer than this earns no more credit, as in 2d.")] = "",
    share_weight: Annotated[
        str, Parameter(help="How much waiting a share is worth of which nothing was used, as in 12h.")
    ] = "",
    lag_weight: LagWeight = "",
    lag_cap: LagCap = "",
    share_by: Annotated[
        str, Parameter(help="Use is held against the tenant's entitlement, or the mean of all tenants.")
    ] = "",
    walk: Annotated[
        str, Parameter(help="Order in which a tenant's work takes its quota: highest level first, or credit.")
    ] = "",
    quota_patience: QuotaPatience = "",
    gather: Gather = "",
    borrowed_counts: Annotated[
        str, Parameter(help="Whether GPUs that a tenant holds over its quota fill it: yes or no.")
    ] = "",
    order: Order = "",
    deadlines: Deadlines = "",
    pass_: Pass = "",
    pending_max: PendingMax = "",
    remembered_max: RememberedMax = "",
    paper: Annotated[
        bool, Parameter(negative=(), help="All rules as in MAST's paper; other options come on top.")
    ] = False,
    json: Json = False,
) -> None:
    """Show by which rules the queue ranks pending workloads, and how many it holds; with options, set them. Rules that are not named stay."""
    import msgspec

    from mizzen.actions.ranking import ranking_of, ranking_table_of, ranking_wish_of, set_ranking
    from mizzen.views.plane_reads import on_plane

    wish = ranking_wish_of(
        half_life=half_life.strip(),
        age_cap=age_cap.strip(),
        share_weight=share_weight.strip(),
        lag_weight=lag_weight.strip(),
        lag_cap=lag_cap.strip(),
        quota_patience=quota_patience.strip(),
        gather=gather.strip(),
        pass_span=pass_.strip(),
        share_by=share_by.strip(),
        walk=walk.strip(),
        borrowed_counts=borrowed_counts.strip(),
        order=order.strip(),
        deadlines=deadlines.strip(),
        pending_max=pending_max.strip(),
        remembered_max=remembered_max.strip(),
        is_paper=paper,
    )
    found = on_plane(lambda bus, _: ranking_of(bus) if wish is None else set_ranking(bus, wish))
    if json:
        tell_json(msgspec.to_builtins(found))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        tell_lines(ranking_table_of(found.settings, width))
