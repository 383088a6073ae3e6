"""Ownership: the tenant of each workload, and the requests that a tenant's credentials allow. All components use this module alone.

The plane's own credentials, which operators have, allow every request; their tenant is the empty one. A tenant's credentials
allow the requests listed here, on the tenant's own work. A message that is not listed is refused, so that a new message is
reserved to operators until listed here; a listed message that names a workload is checked against the workload's tenant.
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
"""Messages that name one workload in their field `workload`."""
ON_ACCOUNT: tuple[type[Message], ...] = (SubmitWorkload, TestSubmission)
"""Messages with a `spec`, which names the tenant to be charged."""
OF_ALL: tuple[type[Message], ...] = (ListWorkloads, ListTenants, ShowRanking, ListStarts, ListDatasets)
"""Messages that name no workload. The answer is limited to permitted rows: the sender's own workloads, but all tenants and data."""
TENANTS_MAY: frozenset[type[Message]] = frozenset((*ABOUT_ONE, *ON_ACCOUNT, *OF_ALL))
"""All messages that a tenant's credentials allow."""

TenantOf = Callable[[WorkloadId], str | None]
"""The tenant of a workload; None for an unknown workload."""
Against = tuple[Reason, tuple[str, ...]]
"""The reason of a refusal, and every problem."""


def owns(tenant: str, account: str) -> bool:
    """Return whether these credentials may see and change work on this tenant's account."""
    return tenant in ("", account)


def owned(tenant: str, rows: dict[WorkloadId, WorkloadRow]) -> dict[WorkloadId, WorkloadRow]:
    """Return the workloads that these credentials may see."""
    if not tenant:
        return rows
    return {workload: row for workload, row in rows.items() if owns(tenant, row.tenant)}


def sender_of(tenant: str, name: str) -> str:
    """Return the name of a sender with a tenant's credentials. No component of the plane has such a name."""
    return f"{tenant}/{name}"


def against(tenant: str, sender: str, message: Message, tenant_of: TenantOf) -> Against | None:
    """Return the reason why these credentials do not allow a request; None: ownership is no reason against it.

    A request for an unknown workload passes: the component that answers refuses it for all senders alike.
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
    """Return the reason why a submission is refused: the account or the share of another tenant, or the name of another sender.

    A sender may use no other name, because submission keys belong to their sender.
    """
    spec = getattr(message, "spec", None)
    assert isinstance(spec, WorkloadSpec), message
    if not owns(tenant, spec.tenant):
        return Reason.NOT_YOURS, (f"tenant: these are the credentials of {tenant}",)
    if spec.share is not None and spec.share.entity not in ("", tenant):
        return Reason.NOT_YOURS, (
            "share.entity: a tenant's jobs are of its own share; only operators name another",
        )
    if not isinstance(message, SubmitWorkload):
        return None
    if message.submitter != sender:
        return Reason.INVALID, ("submitter: it is not who says this",)
    return None


def _workload_of(message: Message) -> WorkloadId:
    workload = getattr(message, "workload", None)
    assert isinstance(workload, str), message
    return WorkloadId(workload)
