"""Every subject, spelled here and nowhere else: `<fleet>.<noun>.<scope…>.<verb>`, lower case.

A message's route says who hears it (the noun), which of them (the scope, read from the message's own fields) and what it
is (the verb). Answers have no route: they go to whoever asked.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from bus.errors import BadSubject, NotForTenants
from bus.port import Address
from core.codec import Parcel
from core.messages import (
    MESSAGES,
    agents,
    auditor,
    broker,
    control,
    copies,
    data,
    dispatch,
    functions,
    harvest,
    logs,
    moves,
    nodes,
    output,
    pipelines,
    planning,
    pools,
    preemption,
    prices,
    queue,
    regions,
    reserved_starts,
    sharing,
    starts,
    store,
    tenants,
    units,
    workers,
)
from core.messages.base import Answer, Message
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.limits import SENDER_LENGTH_MAX
from core.rules.ownership import TENANTS_MAY, sender_of


class Route(Struct, frozen=True):
    """Where messages of one type go."""

    noun: str
    scope: tuple[str, ...] = ()
    """Fields of the message, in subject order."""
    signed: tuple[str, ...] = ()
    """Fields that stand in the verb, so that credentials can allow one signature and no other."""


QUEUE = Route("queue")
BROKER = Route("broker", ("region",))
AGENT = Route("agent", ("region", "agent"))
STORE = Route("store", ("region",))
WORKER = Route("worker", ("region", "worker"))
CREW = Route("crew", ("region",))
"""Everybody who serves a region: its agents and its workers."""
OUTPUT = Route("output", ("region", "worker"))
"""What tasks wrote, kept beside their worker."""
OUTPUTS = Route("output", ("region",))
"""All of a region's, to find out who has something."""
CONTROL = Route("control", ("region",))
"""A region's task control."""
SIGNED = Route("control", ("region",), signed=("tenant", "controller"))
"""The same, from outside the plane: who may say it in whose name is for the server's permissions to see to."""
CONTROLLER = Route("controller", ("tenant", "controller"))
"""An application's own."""
AUDITOR = Route("auditor")
PLANNER = Route("planner")
UNIT = Route("unit")
"""Every unit of the plane."""
STATUS = Route("status")
"""Units tell their status here: the auditor listens, and operators who look."""
DISPATCH = Route("dispatch")
"""Every host hears here in which order it is to decide messages."""
DISPATCH_OF = Route("dispatch", ("process",))
"""One host is asked what waits in its mailbox."""
FUNCTION_ROUTER = Route("function_router", ("region", "router"))
FUNCTION_ROUTERS = Route("function_routers")
"""Every function router, of all regions."""
FUNCTION_SERVER = Route("function_server", ("region", "server"))
FUNCTION_SERVERS = Route("function_servers", ("region",))
"""Every function server of a region."""
CREWS = {
    "agent": CREW,
    "worker": CREW,
    "function_server": FUNCTION_SERVERS,
    "function_router": FUNCTION_ROUTERS,
}
"""Where all with one noun hear together, of a region or of all, beside the address that each has alone."""
HARVESTER = Route("harvester", ("region",))
"""A region's harvester."""
FUNCTION_CALLER = Route("function_caller", ("tenant", "caller"))
"""Who calls functions: a program outside the plane."""
FUNCTIONS = Route("functions")
"""Routers say here that they live: whoever calls functions listens."""
ALARM = Route("alarm")
"""Violations, for operators' alarms."""
LOG = Route("log", ("log",))
"""Announcements of a log's keeper."""
READER = Route("reader", ("log",))
"""Requests to whoever can read a log."""
KEEPER = Route("keeper", ("log",))
"""Requests that only a log's keeper answers: a second keeper learns of the first by it."""

ROUTES: dict[type[Message], Route] = {
    queue.SubmitWorkload: QUEUE,
    queue.CancelWorkload: QUEUE,
    queue.HoldWorkload: QUEUE,
    queue.HoldUnhandled: QUEUE,
    queue.ReleaseWorkload: QUEUE,
    queue.RequeueWorkload: QUEUE,
    queue.ChangeWorkload: QUEUE,
    queue.ShowWorkload: QUEUE,
    queue.ListWorkloads: QUEUE,
    queue.ExplainWorkload: QUEUE,
    starts.ListStarts: QUEUE,
    starts.TestSubmission: QUEUE,
    pipelines.SubmitPipeline: QUEUE,
    pipelines.TestPipeline: QUEUE,
    pipelines.ShowPipeline: QUEUE,
    pipelines.ListPipelines: QUEUE,
    pipelines.CancelPipeline: QUEUE,
    queue.Bid: QUEUE,
    queue.Abstention: QUEUE,
    broker.SolicitBid: BROKER,
    broker.ExecuteAward: BROKER,
    broker.WithdrawAward: BROKER,
    broker.StopAttempt: BROKER,
    agents.AgentPresent: BROKER,
    agents.PresenceWanted: CREW,
    agents.FindBid: AGENT,
    agents.PlaceAward: AGENT,
    agents.RequestHandedBack: BROKER,
    agents.AwardHandedBack: BROKER,
    agents.ShowAgents: BROKER,
    agents.SetAgents: STORE,
    agents.BidSettled: AGENT,
    agents.ClaimAnswered: AGENT,
    store.SubmitClaim: STORE,
    store.DeclineAward: STORE,
    store.RecordJoin: STORE,
    store.RecordLoss: STORE,
    store.RecordReturn: STORE,
    store.OrderStop: STORE,
    store.RecordStarted: STORE,
    store.RecordCheckpoint: STORE,
    store.RecordEnd: STORE,
    control.TaskControlRequest: CONTROLLER,
    control.TaskControlResponse: SIGNED,
    control.ShowControllers: CONTROL,
    control.OperateTasks: STORE,
    control.RecordAnswer: STORE,
    control.BeginOperations: STORE,
    control.ExpireAcks: STORE,
    control.MarkStuck: STORE,
    control.FinishOperations: STORE,
    control.ForgetControl: STORE,
    control.RecordTasksDown: STORE,
    control.RecordTasksGone: STORE,
    control.RecordTasksUp: STORE,
    control.ReviseClaim: STORE,
    control.ChangeAttempt: STORE,
    broker.RankAttempt: STORE,
    control.RevisionAnswered: AGENT,
    control.PlaceTasks: AGENT,
    nodes.DrainNodes: STORE,
    nodes.LiftDrain: STORE,
    nodes.UndrainNodes: STORE,
    nodes.PlanMaintenance: STORE,
    nodes.CancelMaintenance: STORE,
    nodes.ReleaseNodes: STORE,
    nodes.MoveMaintenance: STORE,
    nodes.CloseNodes: STORE,
    nodes.OpenNodes: STORE,
    nodes.RecordDomainLoss: STORE,
    pools.SetPool: STORE,
    pools.SetPoolingPolicy: STORE,
    pools.SetPoolsPlan: STORE,
    pools.ApplyPools: STORE,
    preemption.SetPreemption: STORE,
    prices.SetPrices: STORE,
    reserved_starts.ReserveStart: STORE,
    data.SetDataset: QUEUE,
    data.ListDatasets: QUEUE,
    data.SetStorage: QUEUE,
    data.SetLink: QUEUE,
    data.SetDataPolicy: QUEUE,
    data.ShowDataSettings: QUEUE,
    copies.SetDataPlan: QUEUE,
    copies.ReportCopy: QUEUE,
    copies.ReportHash: QUEUE,
    copies.ReportDrop: QUEUE,
    copies.ListCopies: QUEUE,
    copies.ShowDataPlan: QUEUE,
    regions.AbandonRegion: QUEUE,
    regions.ReadmitRegion: QUEUE,
    regions.ListRegions: QUEUE,
    moves.MoveWorkload: QUEUE,
    tenants.SetTenant: QUEUE,
    tenants.SetEntitlement: QUEUE,
    tenants.SetBudget: QUEUE,
    tenants.SetDeadlineBudget: QUEUE,
    tenants.ListTenants: QUEUE,
    tenants.SetRanking: QUEUE,
    tenants.ShowRanking: QUEUE,
    queue.SetPriority: QUEUE,
    dispatch.SetDispatch: QUEUE,
    dispatch.ShowDispatchSettings: QUEUE,
    dispatch.DispatchTold: DISPATCH,
    dispatch.ShowDispatch: DISPATCH_OF,
    functions.CallFunction: FUNCTION_ROUTER,
    functions.RoutersWanted: FUNCTION_ROUTERS,
    functions.ShowFunctions: FUNCTION_ROUTER,
    functions.ServerReport: FUNCTION_ROUTER,
    functions.RunCalls: FUNCTION_SERVER,
    functions.CodeSent: FUNCTION_SERVER,
    functions.CountFunctions: STORE,
    functions.FunctionsRemembered: FUNCTION_ROUTER,
    functions.AskCalls: FUNCTION_SERVERS,
    functions.CallsRefused: FUNCTION_CALLER,
    functions.CallsAnswered: FUNCTION_CALLER,
    functions.CodeWanted: FUNCTION_CALLER,
    functions.CallsKnown: FUNCTION_CALLER,
    functions.RouterHere: FUNCTIONS,
    harvest.OfferHarvest: STORE,
    harvest.RecallHarvest: STORE,
    harvest.ReleaseHarvest: STORE,
    harvest.TaskLends: STORE,
    harvest.SizeServer: FUNCTION_SERVER,
    harvest.ServerSized: HARVESTER,
    harvest.HarvestOdds: FUNCTION_ROUTER,
    harvest.ShowHarvest: HARVESTER,
    sharing.SetPolicy: QUEUE,
    sharing.SetShares: QUEUE,
    planning.ShowConcern: PLANNER,
    workers.CheckNodes: WORKER,
    workers.NodesChecked: BROKER,
    workers.PrepareTasks: WORKER,
    workers.StartTasks: WORKER,
    workers.StopTasks: WORKER,
    workers.EndRecorded: WORKER,
    workers.InventoryWanted: WORKER,
    workers.WorkerInventory: BROKER,
    workers.JoinRefused: WORKER,
    workers.WorkerBeat: BROKER,
    workers.WorkerReport: BROKER,
    workers.BeatHeard: WORKER,
    auditor.ShowAudit: AUDITOR,
    auditor.ViolationsFound: ALARM,
    auditor.AcknowledgeViolations: AUDITOR,
    units.StatusWanted: UNIT,
    units.UnitStatus: STATUS,
    units.ShowUnits: AUDITOR,
    logs.FactsTold: LOG,
    logs.HeadTold: LOG,
    logs.AskHead: KEEPER,
    logs.AcceptClock: KEEPER,
    logs.ReadLog: READER,
    logs.ReadAbout: READER,
    logs.FetchImage: READER,
    output.FindOutput: OUTPUTS,
    output.ReadOutput: OUTPUT,
}

UNIT_USER = "unit."
"""Before a unit's name, or `operator`, the name of its user of the NATS server, where each has one of its own."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,128}")
_VERBS: dict[type[Message], str] = {}
for _type in MESSAGES:
    if not issubclass(_type, Answer):
        _VERBS[_type] = str(_type.__struct_config__.tag).replace("-", "_")
_NOUNS = {
    str(kind.__struct_config__.tag): ("agent", "worker") if route is CREW else (route.noun,)
    for kind, route in ROUTES.items()
}
_SIGNED = frozenset(kind for kind, route in ROUTES.items() if route.signed)


def own_costs(sender: str, costs: Mapping[str, int]) -> dict[str, int]:
    """Return the costs of messages that go to hosts such as the sender; what a host tells of others' is nobody's to tell."""
    noun = sender.partition(".")[0]
    return {tag: cost for tag, cost in costs.items() if noun in _NOUNS.get(tag, ())}


def subject_of(fleet: str, message: Message, tenant: str = "") -> str:
    """Where a message goes, said with the credentials of a tenant or with the plane's own.

    Raises BadSubject when a scope field cannot be part of a subject, and NotForTenants.
    """
    kind = type(message)
    route = ROUTES[kind]
    scope = tuple([str(getattr(message, field)) for field in route.scope])  # a list is built faster
    if tenant:
        return f"{_prefix(fleet, route.noun, scope)}.{_tenants_verb(kind, tenant)}"
    if route.signed:
        return f"{_prefix(fleet, route.noun, scope)}.{_signed_verb(message, route)}"
    return f"{_prefix(fleet, route.noun, scope)}.{_VERBS[kind]}"


def is_signed(subject: str) -> bool:
    """Whether whoever says this is named by the subject: a controller or a tenant, from outside the plane."""
    return "/" in subject and "/" in subject.rpartition(".")[2]


def answers_to(subject: str, reply_to: str) -> str:
    """Where the answer to what was said to a subject may go; empty: nowhere.

    Where it would go is for a stranger to name, and could be anybody's subject: nowhere, then, but into a tenant's own inbox.
    """
    if not is_signed(subject):
        return reply_to
    signature = subject.rpartition(".")[2].split("/")[1:]
    if len(signature) != 1 or len(reply_to) > SENDER_LENGTH_MAX:
        return ""
    owner, _, rest = reply_to.partition(f"{inbox_of_tenant(signature[0])}.")
    is_its_own = not owner and bool(rest) and all(map(_TOKEN.fullmatch, rest.split(".")))
    return reply_to if is_its_own else ""


def is_forged(fleet: str, subject: str, parcel: Parcel) -> bool:
    """Whether a message came under another signature than its own, or without one, or has none and came under one.

    A tenant's, which its parcel has, is that of whoever may say nothing else: so it holds for who said it, and for its id.
    """
    message, tenant = parcel.message, parcel.tenant
    if not tenant and type(message) not in _SIGNED and not is_signed(subject):
        return False
    if type(message) not in ROUTES:
        return True  # An answer, which belongs into somebody's inbox.
    if tenant and not (parcel.sender.startswith(sender_of(tenant, "")) and _fits(parcel.sender, parcel.id)):
        return True
    try:
        return subject != subject_of(fleet, message, tenant)
    except (BadSubject, NotForTenants):
        return True


def _fits(*names: str) -> bool:
    """Whether a stranger's names may become part of facts, and be told to people."""
    return all(len(name) <= SENDER_LENGTH_MAX and name.isprintable() for name in names)


def subjects_of_tenant(fleet: str, tenant: str) -> tuple[str, ...]:
    """What a tenant may say, as patterns for the server's permissions; it hears its inbox alone. Raises BadSubject."""
    found = []
    for kind in sorted(TENANTS_MAY, key=lambda kind: _VERBS[kind]):
        route = ROUTES[kind]
        scope = ("*",) * len(route.scope)
        found.append(".".join((fleet, route.noun, *scope, _tenants_verb(kind, tenant))))
    return tuple(found)


def heard_of_functions(fleet: str, tenant: str) -> tuple[str, ...]:
    """Return what callers of a tenant's functions hear, as patterns for the server's permissions; of an empty tenant, those of all."""
    callers = f"{fleet}.{FUNCTION_CALLER.noun}.{tenant or '*'}.*.*"
    return callers, pattern_of(fleet, Address(FUNCTIONS.noun))


def inbox_of_tenant(tenant: str) -> str:
    """Under which connections with a tenant's credentials have their inboxes."""
    return inbox_of(f"tenant.{tenant}")


def subjects_said(fleet: str, kind: type[Message], known: Mapping[str, str]) -> str:
    """Return the pattern of the subjects of one type of message: `known` fields of its scope as they are, `*` for each other one."""
    route = ROUTES[kind]
    assert not route.signed, f"{kind.__name__} is said from outside the plane"
    scope = [token for field in route.scope for token in known.get(field, "*").split(".")]
    return ".".join((fleet, route.noun, *scope, _VERBS[kind]))


def inbox_of_user(user: str) -> str:
    """Return the prefix of the inboxes of a user of the server that is one unit of a plane; empty for every other user."""
    return inbox_of(user) if user.startswith(UNIT_USER) else ""


def subjects_of_controller(fleet: str, tenant: str, controller: str) -> tuple[str, str]:
    """What one controller may hear, and what it may say, as patterns for the server's permissions. Raises BadSubject."""
    named = control.TaskControlResponse(
        RegionName("any"), TenantName(tenant), controller, WorkloadId(""), 0, 0, ()
    )
    said = f"{fleet}.{SIGNED.noun}.*.{_signed_verb(named, SIGNED)}"
    return pattern_of(fleet, Address(CONTROLLER.noun, (tenant, controller))), said


def inbox_of_controller(tenant: str, controller: str) -> str:
    """Under which a controller's connection has its inbox. It asks nobody; its own echo comes back there."""
    return inbox_of(f"{CONTROLLER.noun}.{tenant}.{controller}")


def _tenants_verb(kind: type[Message], tenant: str) -> str:
    """Raises BadSubject and NotForTenants."""
    if kind not in TENANTS_MAY:
        raise NotForTenants(str(kind.__struct_config__.tag), tenant)
    if not _TOKEN.fullmatch(tenant):
        raise BadSubject(f"{tenant!r} cannot be part of a subject; use letters, digits, '-' and '_'")
    return f"{_VERBS[kind]}/{tenant}"


def _signed_verb(message: Message, route: Route) -> str:
    signature = [str(getattr(message, field)) for field in route.signed]
    for token in signature:
        if not _TOKEN.fullmatch(token):
            raise BadSubject(f"{token!r} cannot be part of a subject; use letters, digits, '-' and '_'")
    return "/".join([_VERBS[type(message)], *signature])


def pattern_of(fleet: str, address: Address) -> str:
    """All verbs of an address."""
    return f"{_prefix(fleet, address.noun, address.scope)}.*"


def dead_letters_of(fleet: str) -> str:
    """Where bytes go that are no message of ours."""
    return f"{fleet}.dead.letter"


def inbox_of(owner: str) -> str:
    """Where answers to one asker go, before the number of what it asked. NATS grants its users inboxes by this prefix."""
    return f"_INBOX.{owner}"


@lru_cache(maxsize=65_536)  # agents and workers of one fleet; a miss costs a microsecond
def _prefix(fleet: str, noun: str, scope: tuple[str, ...]) -> str:
    """A log's name has a dot and so is two tokens."""
    tokens = [token for value in scope for token in value.split(".")]
    for token in tokens:
        if not _TOKEN.fullmatch(token):
            raise BadSubject(
                f"{noun}: {token!r} cannot be part of a subject; use letters, digits, '-' and '_'"
            )
    return ".".join([fleet, noun, *tokens])
