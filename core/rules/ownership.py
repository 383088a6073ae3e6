"""Whose work is whose, and what a tenant's credentials may ask for: here alone, for all who are asked.

The plane's own credentials, which operators have, may ask for everything; their tenant is the empty one. A tenant's may ask
for what is listed here, of their own tenant's work. A message that is not listed is refused to them, so that a new one is
nobody's until it is put here; and whatever is listed and names a workload is held against whose that is.
"""

from collections.abc import Callable

from core.images.queue import WorkloadRow
from core.messages.base import Message
from core.messages.data import ListDatasets
from core.messages.moves import MoveWorkload
from core.messages.output import FindOutput, ReadOutput
from core.messages.queue import (
    CancelWorkload,
    ChangeWorkload,
    ExplainWorkload,
    HoldWorkload,
    ListWorkloads,
    ReleaseWorkload,
    RequeueWorkload,
    SetPriority,
    ShowWorkload,
    SubmitWorkload,
)
from core.messages.starts import ListStarts, TestSubmission
from core.messages.tenants import ListTenants, ShowRanking
from core.nouns.ids import WorkloadId
from core.nouns.reasons import Reason
from core.nouns.workload import WorkloadSpec

ABOUT_ONE: tuple[type[Message], ...] = (
    CancelWorkload,
    HoldWorkload,
    ReleaseWorkload,
    RequeueWorkload,
    ChangeWorkload,
    SetPriority,
    MoveWorkload,
    ShowWorkload,
    ExplainWorkload,
    FindOutput,
    ReadOutput,
)
"""These name one in their field `workload`."""
ON_ACCOUNT: tuple[type[Message], ...] = (SubmitWorkload, TestSubmission)
"""These have a `spec`, which says on whose account it is to be."""
OF_ALL: tuple[type[Message], ...] = (ListWorkloads, ListTenants, ShowRanking, ListStarts, ListDatasets)
"""These name none, and whoever answers tells what may be told: of workloads those that the asker owns, of tenants and data all."""
TENANTS_MAY: frozenset[type[Message]] = frozenset((*ABOUT_ONE, *ON_ACCOUNT, *OF_ALL))
"""All that a tenant's credentials may say."""

TenantOf = Callable[[WorkloadId], str | None]
"""Whose a workload is; None of one that is not known."""
Against = tuple[Reason, tuple[str, ...]]
"""Why not, and every problem."""


def owns(tenant: str, account: str) -> bool:
    """Whether these credentials may touch, and see, work that is on this tenant's account."""
    return tenant in ("", account)


def owned(tenant: str, rows: dict[WorkloadId, WorkloadRow]) -> dict[WorkloadId, WorkloadRow]:
    """Those of all workloads that these credentials may see."""
    if not tenant:
        return rows
    return {workload: row for workload, row in rows.items() if owns(tenant, row.spec.tenant)}


def sender_of(tenant: str, name: str) -> str:
    """What somebody is called who speaks with a tenant's credentials: nobody of the plane itself is called so."""
    return f"{tenant}/{name}"


def against(tenant: str, sender: str, message: Message, tenant_of: TenantOf) -> Against | None:
    """What speaks against doing what somebody asks for with these credentials; None: nothing that has to do with whose it is.

    What is not known is left to whoever is asked: they say so to everybody alike.
    """
    if not tenant:
        return None
    if type(message) not in TENANTS_MAY:
        return Reason.OPERATORS_ONLY, ()
    if type(message) in OF_ALL:
        return None
    if type(message) in ON_ACCOUNT:
        return _against_account(tenant, sender, message)
    account = tenant_of(_workload_of(message))
    if account is None or owns(tenant, account):
        return None
    return Reason.NOT_YOURS, ()


def _against_account(tenant: str, sender: str, message: Message) -> Against | None:
    """On its own account alone, and under its own name: the keys of others are theirs."""
    spec = getattr(message, "spec", None)
    assert isinstance(spec, WorkloadSpec), message
    if not owns(tenant, spec.tenant):
        return Reason.NOT_YOURS, (f"tenant: these are the credentials of {tenant}",)
    if not isinstance(message, SubmitWorkload):
        return None
    if message.submitter != sender:
        return Reason.INVALID, ("submitter: it is not who says this",)
    return None


def _workload_of(message: Message) -> WorkloadId:
    workload = getattr(message, "workload", None)
    assert isinstance(workload, str), message
    return WorkloadId(workload)
