"""Ownership: the tenant of each workload, and the requests that a tenant's credentials allow. All components use this module alone.

The plane's own credentials, which operators have, allow every request; their tenant is the empty one. A tenant's credentials
allow the requests listed here, on the tenant's own work. A message that is not listed is refused, so that a new message is
reserved to operators until listed here; a listed message that names a workload is checked against the workload's tenant.
"""

from collections.abc import Callable

from core.images.queue import WorkloadRow
from core.messages.base import Message
from core.messages.data import ListDatasets
from core.messages.functions import AskCalls, CallFunction, CodeSent, RoutersWanted, ShowFunctions
from core.messages.moves import MoveWorkload
from core.messages.output import FindOutput, ReadOutput
from core.messages.pipelines import (
    CancelPipeline,
    ListPipelines,
    ShowPipeline,
    SubmitPipeline,
    TestPipeline,
)
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
from core.nouns.pipeline import PipelineSpec
from core.nouns.reasons import Reason
from core.nouns.workload import Serves, WorkloadSpec

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
ABOUT_PIPELINE: tuple[type[Message], ...] = (ShowPipeline, CancelPipeline)
"""Messages that name one pipeline in their field `pipeline`."""
ON_ACCOUNT: tuple[type[Message], ...] = (SubmitWorkload, TestSubmission, SubmitPipeline, TestPipeline)
"""Messages with a `spec`, which names the tenant to be charged."""
OF_FUNCTIONS: tuple[type[Message], ...] = (CallFunction, AskCalls, CodeSent, RoutersWanted)
"""Messages of callers of functions, which name their tenant in the field `tenant`."""
OF_ALL: tuple[type[Message], ...] = (
    ListWorkloads,
    ListTenants,
    ShowRanking,
    ListStarts,
    ListDatasets,
    ListPipelines,
    ShowFunctions,
)
"""Messages that name no workload. The answer is limited to permitted rows: the sender's own workloads, but all tenants and data."""
TENANTS_MAY: frozenset[type[Message]] = frozenset(
    (*ABOUT_ONE, *ABOUT_PIPELINE, *ON_ACCOUNT, *OF_FUNCTIONS, *OF_ALL)
)
"""All messages that a tenant's credentials allow."""

TenantOf = Callable[[str], str | None]
"""The tenant of a workload or of a pipeline, by id; None for an unknown one."""
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
    """Return the reason why these credentials do not allow a request; None: ownership is no reason against the request.

    A request for an unknown workload or pipeline passes: the component that answers refuses it for all senders alike.
    """
    if not tenant:
        return None
    if type(message) not in TENANTS_MAY:
        return Reason.OPERATORS_ONLY, ()
    if type(message) in OF_ALL:
        return None
    if type(message) in ON_ACCOUNT:
        return _against_account(tenant, sender, message)
    if type(message) in OF_FUNCTIONS:
        return None if owns(tenant, getattr(message, "tenant", "")) else (Reason.NOT_YOURS, ())
    account = tenant_of(_named_by(message))
    if account is None or owns(tenant, account):
        return None
    return Reason.NOT_YOURS, ()


def _against_account(tenant: str, sender: str, message: Message) -> Against | None:
    """Return the reason why a submission is refused: the account or the share of another tenant, or the name of another sender.

    A sender may use no other name, because submission keys belong to their sender.
    """
    spec = getattr(message, "spec", None)
    assert isinstance(spec, WorkloadSpec | PipelineSpec), message
    specs = [stage.workload for stage in spec.stages] if isinstance(spec, PipelineSpec) else [spec]
    if not all(owns(tenant, one.tenant) for one in specs):
        return Reason.NOT_YOURS, (f"tenant: these are the credentials of {tenant}",)
    if any(one.share is not None and one.share.entity not in ("", tenant) for one in specs):
        return Reason.NOT_YOURS, (
            "share.entity: a tenant's jobs are of its own share; only operators name another",
        )
    if any(job.serves is Serves.ALL for one in specs for job in one.jobs):
        return Reason.OPERATORS_ONLY, ("serves: only operators hold capacity for everybody's functions",)
    if not isinstance(message, SubmitWorkload | SubmitPipeline):
        return None
    if message.submitter != sender:
        return Reason.INVALID, ("submitter: it is not who says this",)
    return None


def _named_by(message: Message) -> str:
    name = getattr(message, "pipeline" if type(message) in ABOUT_PIPELINE else "workload", None)
    assert isinstance(name, str), message
    return name
