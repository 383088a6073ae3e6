"""`mizzen tenants`: the tenants with their quotas and GPUs, and the credentials to act as one of them."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import CommandError, command_name, tell_json, tell_lines, tell_note

if TYPE_CHECKING:
    from mizzen.connect.credentials import Stranger
    from mizzen.connect.plane import Plane

tenants = App(name="tenants", version_flags=[], default_parameter=Parameter(show_default=False))

Tenant = Annotated[str, Parameter(name="TENANT", help="As `tenant` of its jobs.")]


@tenants.default
def list_all(*, json: Json = False) -> None:
    """List tenants: level, GPUs guaranteed, held, borrowed and lent, workloads, the shortest run, and the budget.

    PENDING is how many of its workloads wait, and how many may; the last line tells the same of all tenants.
    """
    import msgspec

    from mizzen.actions.quotas import tenants_listed
    from mizzen.views.fleet.tenant_table import ceilings_of, table_of
    from mizzen.views.plane_reads import on_plane

    listed = on_plane(lambda bus, _: tenants_listed(bus))
    if json:
        tell_json(msgspec.to_builtins(listed.rows))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    tell_lines([*table_of(listed.rows, width), "", *ceilings_of(listed)])


@tenants.command(name="set")
def set_(
    tenant: Tenant,
    /,
    *,
    harvest: Annotated[
        str,
        Parameter(
            help="How far its functions use harvested capacity: none, all, or bounded:P, where P is the part of calls that may be lost, as in bounded:0.001."
        ),
    ],
    json: Json = False,
) -> None:
    """Set how much risk a tenant's functions take: whether they use capacity that its owner may want back.

    `mizzen quota set` sets its level, entitlements and budget.
    """
    import msgspec

    from core.nouns.ids import TenantName
    from mizzen.actions.quotas import set_harvest
    from mizzen.actions.settings.harvest import tenant_use_of, use_text
    from mizzen.views.plane_reads import on_plane

    use = tenant_use_of(harvest.strip())
    row = on_plane(lambda bus, _: set_harvest(bus, TenantName(tenant), use))
    if json:
        tell_json(msgspec.to_builtins(row))
    else:
        print(f"functions of {row.tenant} use harvested capacity: {use_text(row.settings.harvest)}")


@tenants.command(name="grant")
def grant(
    tenant: Tenant,
    /,
    *,
    output: Annotated[
        Path | None, Parameter(help="The file to write; TENANT.credentials.json if not named.")
    ] = None,
    json: Json = False,
) -> None:
    """Write a file with which its user is this tenant to the plane, and no other; of a foreign server, print the permissions to grant.

    With it users submit, see and steer the tenant's own workloads. Granted again, it holds the same password.
    """
    import msgspec

    from mizzen.connect.credentials import let_in
    from mizzen.connect.plane import CREDENTIALS_VARIABLE, Plane
    from runtime.loop import run
    from runtime.plane import write_for_me_alone

    plane, stranger, directory = _found(tenant, is_json=json)
    if directory is None:
        _tell_what_to_grant(stranger, is_json=json)
        return
    url = run(let_in(directory, plane, stranger))
    path = output or Path(f"{tenant}.credentials.json")
    write_for_me_alone(path, msgspec.json.encode(Plane(url, plane.fleet)))
    if json:
        tell_json({"file": str(path), "user": stranger.user.user, **_may(stranger)})
        return
    print(f"{path} lets tenant {tenant} in, and every user that can read it")
    tell_lines([f"  {CREDENTIALS_VARIABLE}={path} {command_name()} queue"])


@tenants.command(name="revoke")
def revoke(tenant: Tenant, /, *, json: Json = False) -> None:
    """Revoke this tenant's credentials, and cut off clients that use them; its workloads stay as they are."""
    from mizzen.connect.credentials import let_out
    from runtime.loop import run

    plane, stranger, directory = _found(tenant, is_json=json)
    if directory is None:
        text = f"this plane's NATS server is kept elsewhere; remove its user {stranger.user.user} there"
        raise CommandError(text)
    if not run(let_out(directory, plane, stranger)):
        raise CommandError(f"tenant {tenant} has no credentials to revoke")
    if json:
        tell_json({"tenant": tenant, "revoked": True})
    else:
        print(f"tenant {tenant} is let in no longer")


def _found(tenant: str, *, is_json: bool) -> "tuple[Plane, Stranger, Path | None]":
    """The plane, who is to be let in, and where its users are, if its server is its own. Raises CommandError."""
    import os

    from mizzen.connect.credentials import plane_of_operators, users_directory
    from mizzen.connect.tenant import stranger_of
    from mizzen.terminal.output import explained
    from runtime.logs import UnknownLevel, set_up_logs

    with explained(UnknownLevel):
        set_up_logs(os.environ, default="error", is_json=True if is_json else None)
    plane = plane_of_operators()
    return plane, stranger_of(plane.fleet, tenant), users_directory(plane)


def _may(stranger: "Stranger") -> dict[str, tuple[str, ...]]:
    """What it may hear and say."""
    permissions = stranger.user.permissions
    assert permissions is not None, stranger
    return {"hears": permissions.subscribe.allow, "says": permissions.publish.allow}


def _tell_what_to_grant(stranger: "Stranger", *, is_json: bool) -> None:
    """Its users are for whoever keeps that server to change."""
    import msgspec

    from bus.server import URL_VARIABLE
    from mizzen.connect.credentials import permissions_text

    user = stranger.user
    if is_json:
        tell_json({"user": user.user, "permissions": msgspec.to_builtins(user.permissions)})
        return
    tell_note(
        f"this plane's NATS server is kept elsewhere; this belongs into its authorization, and then commands "
        f"find it by {URL_VARIABLE}=nats://{user.user}:PASSWORD@HOST:PORT",
        is_json=False,
    )
    print(permissions_text(stranger))
