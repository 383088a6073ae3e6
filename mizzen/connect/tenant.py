"""A tenant's credentials: who connects with them is that tenant to the plane, and nobody else."""

from bus.catalogue import heard_of_functions, inbox_of_tenant, subjects_of_tenant
from bus.errors import BadSubject
from bus.server_users import Allowed, Permissions, ServerUser
from mizzen.connect.credentials import Stranger
from mizzen.connect.plane import TENANT_USER
from mizzen.terminal.output import MISUSED, CommandError


def stranger_of(fleet: str, tenant: str) -> Stranger:
    """Who may ask for what is its own tenant's, hear the answers, and nothing else. Raises CommandError."""
    try:
        said = subjects_of_tenant(fleet, tenant)
    except BadSubject as error:
        raise CommandError(str(error), MISUSED) from error
    inbox = inbox_of_tenant(tenant)
    echo = f"{inbox}.>"
    may = Permissions(
        publish=Allowed((*said, echo)), subscribe=Allowed((echo, *heard_of_functions(fleet, tenant)))
    )
    return Stranger(ServerUser(f"{TENANT_USER}{tenant}", "", may), inbox)
