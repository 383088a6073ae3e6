"""`mizzen controller`: run a controller of one's own, and let it in under its own name."""

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import (
    MISUSED,
    CommandError,
    command_name,
    explained,
    tell_json,
    tell_lines,
    tell_note,
)

if TYPE_CHECKING:
    from mizzen.control.access import ControllerAccess
    from runtime.control.controller import TaskController

Tenant = Annotated[str, Parameter(help="Whose jobs it decides about; `default`, as in a job file.")]


def run_controller(
    target: Annotated[str, Parameter(name="MODULE:CLASS", help="Where it is, seen from this folder.")],
    /,
    *,
    name: Annotated[str, Parameter(help="As `control.controller` of its jobs.")] = "",
    tenant: Tenant = "",
    credentials: Annotated[
        Path | None,
        Parameter(help="What `mizzen controller credentials` wrote; none: the plane's own address."),
    ] = None,
    json: Json = False,
) -> None:
    """Run a controller until SIGTERM or SIGINT ends it."""
    from bus.errors import BusError
    from mizzen.control.serving import serve
    from runtime.logs import UnknownLevel, set_up_logs
    from runtime.process import run_until_signalled

    controller = find_controller(target)
    with explained(BusError, UnknownLevel):
        set_up_logs(os.environ, default="info", is_json=True if json else None)
        run_until_signalled(lambda: serve(controller, name=name, tenant=tenant, plane=credentials))


def find_controller(target: str) -> "TaskController":
    """What `module:Class` names: a class that needs no arguments, what else makes a controller, or one. Raises CommandError."""
    from runtime.control.controller import TaskController

    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise CommandError(
            f"{target!r} names no controller; write MODULE:CLASS, for example my_app:Careful", MISUSED
        )
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        text = f"there is no module {error.name} here; run this where {module_name} can be imported"
        raise CommandError(text, MISUSED) from error
    except Exception as error:
        raise CommandError(f"{module_name} cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, attribute, None)
    if found is None:
        raise CommandError(f"{module_name} has no {attribute}", MISUSED)
    if not isinstance(found, TaskController) and callable(found):
        try:
            found = found()
        except Exception as error:
            raise CommandError(f"{target} cannot be made: {type(error).__name__}: {error}") from error
    if not isinstance(found, TaskController):
        raise CommandError(f"{target} is no mizzen.TaskController", MISUSED)
    return found


def credentials(
    name: Annotated[str, Parameter(help="As `control.controller` of its jobs.")],
    /,
    *,
    tenant: Tenant = "",
    output: Annotated[
        Path | None, Parameter(help="The file to write; TENANT.NAME.credentials.json if not named.")
    ] = None,
    revoke: Annotated[bool, Parameter(negative=(), help="Let it in no longer, and cut it off.")] = False,
    json: Json = False,
) -> None:
    """Write a file with which a controller may be this one and no other; of a foreign server, print the permissions to grant."""
    from bus.errors import BusError
    from mizzen.connect.credentials import plane_of_operators, users_directory
    from mizzen.control.access import DEFAULT_TENANT, ControllerAccess, check_names
    from runtime.logs import UnknownLevel, set_up_logs

    with explained(UnknownLevel):
        set_up_logs(os.environ, default="error", is_json=True if json else None)
    plane = plane_of_operators()
    access = ControllerAccess(plane.url, plane.fleet, tenant or DEFAULT_TENANT, name)
    check_names(access)
    directory = users_directory(plane)
    with explained(BusError):
        if directory is None:
            _tell_what_to_grant(access, is_revoked=revoke, is_json=json)
        elif revoke:
            _revoke(directory, access, is_json=json)
        else:
            path = output or Path(f"{access.tenant}.{name}.credentials.json")
            _grant(directory, access, path, is_json=json)


def _grant(directory: Path, access: "ControllerAccess", path: Path, *, is_json: bool) -> None:
    import msgspec

    from mizzen.control.access import grant, stranger_of
    from runtime.loop import run
    from runtime.plane import write_for_me_alone

    granted = run(grant(directory, access))
    write_for_me_alone(path, msgspec.json.encode(granted))
    user = stranger_of(access).user
    assert user.permissions is not None
    if is_json:
        hears, says = user.permissions.subscribe.allow, user.permissions.publish.allow
        tell_json({"file": str(path), "user": user.user, "hears": hears, "says": says})
        return
    print(f"{path} lets {access.controller} of {access.tenant} in, and every user that can read it")
    tell_lines([f"  {command_name()} controller run MODULE:CLASS --credentials {path}"])


def _revoke(directory: Path, access: "ControllerAccess", *, is_json: bool) -> None:
    from mizzen.control.access import revoke
    from runtime.loop import run

    if not run(revoke(directory, access)):
        raise CommandError(f"controller {access.controller} of {access.tenant} has no credentials to revoke")
    if is_json:
        tell_json({"tenant": access.tenant, "controller": access.controller, "revoked": True})
    else:
        print(f"{access.controller} of {access.tenant} is let in no longer")


def _tell_what_to_grant(access: "ControllerAccess", *, is_revoked: bool, is_json: bool) -> None:
    """Its users are for whoever keeps that server to change."""
    import msgspec

    from mizzen.connect.credentials import permissions_text
    from mizzen.control.access import stranger_of

    user = stranger_of(access).user
    if is_revoked:
        text = f"this plane's NATS server is kept elsewhere; remove its user {user.user} there"
        raise CommandError(text)
    if is_json:
        tell_json({"user": user.user, "permissions": msgspec.to_builtins(user.permissions)})
        return
    tell_note(
        f"this plane's NATS server is kept elsewhere; this belongs into its authorization, and then "
        f"`{command_name()} controller run` finds the server by MIZZEN_NATS_URL=nats://{user.user}:PASSWORD@HOST:PORT",
        is_json=False,
    )
    print(permissions_text(stranger_of(access)))
