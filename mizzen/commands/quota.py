"""`mizzen quota`: what a tenant may hold of each GPU type, and what it holds of it."""

import shutil
import sys
from typing import Annotated

from cyclopts import App, Parameter

from mizzen.answers import CommandError, tell_json, tell_lines
from mizzen.options import Json

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
    """Show what a tenant may hold of each GPU type, and what it holds, has borrowed and has lent."""
    import msgspec

    from mizzen.quotas import tenants_of
    from mizzen.views.reading import on_plane
    from mizzen.views.tenant_table import quota_of

    rows = [row for row in on_plane(lambda bus, _: tenants_of(bus)) if tenant in ("", row.tenant)]
    if tenant and not rows:
        text = f"there is no tenant {tenant}; `mizzen tenants` lists them, and `mizzen quota set {tenant} --level 3` makes it"
        raise CommandError(text)
    if json:
        tell_json(msgspec.to_builtins(rows))
    else:
        tell_lines(quota_of(rows, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))


@quota.command(name="set")
def set_(
    tenant: Annotated[
        str, Parameter(name="TENANT", help="The tenant; with --level it is made if there is none.")
    ],
    *gpus: Annotated[str, Parameter(name="TYPE=COUNT", help="GPUs guaranteed of a type, as in H100=64.")],
    borrow: Annotated[
        str, Parameter(help="GPUs of each of these types that it may hold beyond that; all for no limit.")
    ] = "",
    lend: Annotated[str, Parameter(help="Whether others may hold what it does not use: yes or no.")] = "",
    level: Annotated[str, Parameter(help="Of its work within its quota: 0 to 6, the highest.")] = "",
    min_run: Annotated[
        str, Parameter(help="How long its work runs at least before it may be a victim, as in 30m.")
    ] = "",
    budget: Annotated[str, Parameter(help="GPU-hours in a period, as in 10000/7d; none for no budget.")] = "",
    force: Annotated[
        bool, Parameter(negative=(), help="Also less than what it holds, or of a type that there is not.")
    ] = False,
    json: Json = False,
) -> None:
    """Set a tenant's level, what it may hold, and its budget; what is not said stays as it is."""
    import msgspec

    from core.nouns.ids import TenantName
    from mizzen.quotas import set_quota, wish_of
    from mizzen.views.reading import on_plane
    from mizzen.views.tenant_table import quota_of, table_of

    wish = wish_of(
        gpus,
        borrow=borrow.strip(),
        lend=lend.strip(),
        level=level.strip(),
        run_min=min_run.strip(),
        budget=budget.strip(),
        is_forced=force,
    )
    row = on_plane(lambda bus, _: set_quota(bus, TenantName(tenant), wish))
    if json:
        tell_json(msgspec.to_builtins(row))
    else:
        tell_lines(table_of([row], None) if not wish.gpus else quota_of([row], None))
