"""What a mailbox knows of each type of message: its class, its order key, its size, what it leads to, and when it is looked at.

A new message is one line here; tests/core/dispatch/test_traits.py walks the registry and refuses one that has none.

Messages of one sender with the same order key are decided in the order in which they came. The empty key puts all of a sender's
messages of such types into one order. Requests of one cycle of auctions are in one order because an agent offers capacity by rank
(docs/decisions/0035-awards-by-rank.md); commands to a worker, because a worker refuses a lower sequence than it has obeyed; beats and
reports of a worker, because they count one order. A person's submissions, questions, settings, and changes of one workload are orders of
their own: whoever looks at lists all the time can still submit.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Any

from msgspec import Struct

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
from core.messages.base import Answer, Message, Notice
from core.nouns.dispatch import UrgencyClass
from core.nouns.instant import Nanoseconds
from core.nouns.limits import AUCTION_SPAN, PRESENCE_INTERVAL, SUSPECT_SILENCE, TASKS_LOOK
from core.nouns.operation import WHOLE
from core.nouns.workload import JobSpec, Kind

Types = tuple[type[Message], ...]

FEW_TASKS = 8
"""The most tasks of work that is placed as `placement`; what has more is a `gang`."""
AUCTION_HALF = Nanoseconds(AUCTION_SPAN // 2)
"""An answer that comes after its cycle's end is worth nothing, so each side of an auction has half of its span at most."""
BEAT_LOOK = Nanoseconds(SUSPECT_SILENCE - 2 * PRESENCE_INTERVAL - PRESENCE_INTERVAL // 2)
"""From a beat until the earliest time at which its worker becomes suspect for want of it, the beat before having been lost, with half of
an interval to spare."""


class Traits(Struct, frozen=True):
    """Of one type of message."""

    sort: UrgencyClass | Callable[[Any], UrgencyClass]
    """Its class, or that of one message."""
    key: Callable[[Any], str] | None = None
    """The order key of a message; None: the empty one."""
    size: Callable[[Any], int] | None = None
    """By which costs are told apart; None: they are alike."""
    look_in: Nanoseconds | Callable[[Any], Nanoseconds] = Nanoseconds(0)
    """The time until somebody looks at what the message tells: it is not needed before."""
    within_max: Nanoseconds | None = None
    """The most time for its chain, whatever its class; None: that of the class."""
    leads_to: Types = ()
    """Types that its decision may say, answers aside: the ways onward. They never lead back."""
    retries: Types = ()
    """Types that its decision may say to try something again, which no way counts."""

    def class_of(self, message: Message) -> UrgencyClass:
        """Return the class of a message."""
        sort = self.sort
        return sort if isinstance(sort, UrgencyClass) else sort(message)

    def key_of(self, message: Message) -> str:
        """Return the order key of a message."""
        return "" if self.key is None else self.key(message)

    def size_of(self, message: Message) -> int:
        """Return the size of a message."""
        return 0 if self.size is None else self.size(message)

    def look_of(self, message: Message) -> Nanoseconds:
        """Return the time until somebody looks at what a message tells."""
        look_in = self.look_in
        return look_in if isinstance(look_in, int) else look_in(message)


def class_of_work(kind: str, jobs: Iterable[JobSpec]) -> UrgencyClass:
    """Return the class of messages by which work of this kind and size is started."""
    if kind == Kind.INTERACTIVE:
        return UrgencyClass.INTERACTIVE
    tasks = sum(job.tasks for job in jobs)
    if tasks <= 1:
        return UrgencyClass.INTERACTIVE
    return UrgencyClass.PLACEMENT if tasks <= FEW_TASKS else UrgencyClass.GANG


def _of_jobs(message: Any) -> UrgencyClass:  # Any: these read messages of the types that they are listed for
    return class_of_work(message.kind, message.jobs)


def _tasks_of(message: Any) -> int:
    return sum(job.tasks for job in message.jobs)


def _of_request(message: Any) -> UrgencyClass:
    return _of_jobs(message.request)


def _of_award(message: Any) -> UrgencyClass:
    return _of_jobs(message.award)


def _of_claim(message: Any) -> UrgencyClass:
    return _of_jobs(message.claim)


def _of_prepared(message: Any) -> UrgencyClass:
    return class_of_work("", message.jobs)


def _request_size(message: Any) -> int:
    """A request that wants a prospect is many searches: it is told apart from the widest gang without."""
    request = message if isinstance(message, broker.SolicitBid) else message.request
    return _tasks_of(request) << 20 if request.wants_prospect else _tasks_of(request)


def _calls_size(message: Any) -> int:
    return len(message.calls)


def _runs_size(message: Any) -> int:
    return len(message.runs)


def _ended_size(message: Any) -> int:
    return len(message.ended)


def _report_look(message: Any) -> Nanoseconds:
    return TASKS_LOOK if message.tasks.task != WHOLE else Nanoseconds(0)


def _submission(_: Any) -> str:
    return "submissions"


def _query(_: Any) -> str:
    return "queries"


WORKLOAD = attrgetter("workload")
WORKER = attrgetter("worker")

SYSTEM, INTERACTIVE, QUERY = UrgencyClass.SYSTEM, UrgencyClass.INTERACTIVE, UrgencyClass.QUERY
PLACEMENT, REPORT, BULK = UrgencyClass.PLACEMENT, UrgencyClass.REPORT, UrgencyClass.BULK

_OF_STARTS: dict[type[Message], Traits] = {
    broker.SolicitBid: Traits(
        _of_jobs,
        size=_request_size,
        within_max=AUCTION_HALF,
        leads_to=(agents.FindBid, queue.Abstention),
    ),
    agents.FindBid: Traits(
        _of_request,
        size=_request_size,
        within_max=AUCTION_HALF,
        leads_to=(queue.Bid, queue.Abstention),
        retries=(agents.RequestHandedBack,),
    ),
    agents.RequestHandedBack: Traits(
        _of_request, within_max=AUCTION_HALF, size=_request_size, leads_to=(agents.FindBid,)
    ),
    queue.Bid: Traits(PLACEMENT, WORKLOAD, within_max=AUCTION_HALF, leads_to=(agents.BidSettled,)),
    queue.Abstention: Traits(PLACEMENT, WORKLOAD, within_max=AUCTION_HALF),
    broker.ExecuteAward: Traits(
        _of_jobs, WORKLOAD, _tasks_of, leads_to=(agents.PlaceAward, store.DeclineAward)
    ),
    agents.PlaceAward: Traits(
        _of_award,
        attrgetter("award.workload"),
        lambda message: _tasks_of(message.award),
        leads_to=(store.SubmitClaim, store.DeclineAward),
        retries=(agents.AwardHandedBack,),
    ),
    agents.AwardHandedBack: Traits(_of_award, attrgetter("award.workload"), leads_to=(agents.PlaceAward,)),
    store.SubmitClaim: Traits(
        _of_claim,
        attrgetter("claim.workload"),
        lambda message: _tasks_of(message.claim),
        leads_to=(agents.ClaimAnswered,),
    ),
    reserved_starts.ReserveStart: Traits(PLACEMENT, WORKLOAD),
    workers.PrepareTasks: Traits(_of_prepared, size=_tasks_of, leads_to=(workers.WorkerReport,)),
    workers.StartTasks: Traits(PLACEMENT, leads_to=(workers.WorkerReport,)),
    control.PlaceTasks: Traits(PLACEMENT, WORKLOAD, leads_to=(control.ReviseClaim,)),
    control.ReviseClaim: Traits(PLACEMENT, WORKLOAD, leads_to=(control.RevisionAnswered,)),
}
_ACKNOWLEDGED_AND_STOPPED: dict[type[Message], Traits] = {
    broker.WithdrawAward: Traits(SYSTEM, WORKLOAD, leads_to=(store.DeclineAward,)),
    broker.StopAttempt: Traits(SYSTEM, WORKLOAD, leads_to=(store.OrderStop,)),
    store.OrderStop: Traits(SYSTEM, WORKLOAD),
    store.DeclineAward: Traits(SYSTEM, WORKLOAD),
    store.RecordLoss: Traits(SYSTEM, WORKER),
    store.RecordReturn: Traits(SYSTEM, WORKER),
    nodes.RecordDomainLoss: Traits(SYSTEM),
    nodes.CloseNodes: Traits(SYSTEM),
    agents.BidSettled: Traits(SYSTEM, WORKLOAD),
    agents.ClaimAnswered: Traits(SYSTEM, WORKLOAD, retries=(store.SubmitClaim, store.DeclineAward)),
    control.RevisionAnswered: Traits(SYSTEM, WORKLOAD, retries=(control.ReviseClaim,)),
    workers.StopTasks: Traits(SYSTEM, leads_to=(workers.WorkerReport,)),
    workers.EndRecorded: Traits(SYSTEM),
    workers.BeatHeard: Traits(SYSTEM),
    queue.HoldUnhandled: Traits(SYSTEM, WORKLOAD),
    dispatch.DispatchTold: Traits(SYSTEM),
    logs.FactsTold: Traits(SYSTEM),
    logs.HeadTold: Traits(SYSTEM),
    logs.AskHead: Traits(SYSTEM),
    logs.AcceptClock: Traits(SYSTEM),
    auditor.ViolationsFound: Traits(SYSTEM),
}
_REPORTED: dict[type[Message], Traits] = {
    workers.WorkerBeat: Traits(
        REPORT,
        size=lambda message: len(message.tasks),
        look_in=BEAT_LOOK,
        leads_to=(
            workers.BeatHeard,
            workers.InventoryWanted,
            workers.StopTasks,
            workers.EndRecorded,
            store.RecordReturn,
            nodes.CloseNodes,
        ),
    ),
    workers.WorkerReport: Traits(
        REPORT, look_in=_report_look, retries=(workers.EndRecorded, workers.StopTasks)
    ),
    workers.WorkerInventory: Traits(REPORT, leads_to=(store.RecordJoin,)),
    workers.InventoryWanted: Traits(REPORT, retries=(workers.WorkerInventory,)),
    workers.JoinRefused: Traits(REPORT),
    workers.CheckNodes: Traits(REPORT),
    workers.NodesChecked: Traits(REPORT, leads_to=(nodes.OpenNodes, nodes.CloseNodes)),
    agents.AgentPresent: Traits(REPORT),
    agents.PresenceWanted: Traits(REPORT, leads_to=(agents.AgentPresent,)),
    store.RecordJoin: Traits(REPORT, attrgetter("inventory.worker"), leads_to=(workers.JoinRefused,)),
    store.RecordStarted: Traits(REPORT, WORKLOAD),
    store.RecordCheckpoint: Traits(REPORT, WORKLOAD),
    store.RecordEnd: Traits(REPORT, WORKLOAD),
    nodes.OpenNodes: Traits(REPORT),
    broker.RankAttempt: Traits(REPORT, WORKLOAD),
    control.TaskControlRequest: Traits(REPORT),
    control.TaskControlResponse: Traits(
        REPORT, WORKLOAD, leads_to=(control.RecordAnswer, control.BeginOperations)
    ),
    **{
        kind: Traits(REPORT, WORKLOAD)
        for kind in (
            control.RecordAnswer,
            control.BeginOperations,
            control.ExpireAcks,
            control.MarkStuck,
            control.FinishOperations,
            control.ForgetControl,
            control.RecordTasksDown,
            control.RecordTasksGone,
            control.RecordTasksUp,
            control.ChangeAttempt,
        )
    },
    nodes.LiftDrain: Traits(REPORT),
    nodes.MoveMaintenance: Traits(REPORT),
    copies.ReportCopy: Traits(REPORT),
    copies.ReportHash: Traits(REPORT),
    copies.ReportDrop: Traits(REPORT),
    units.UnitStatus: Traits(REPORT),
    sharing.SetShares: Traits(REPORT),
}
_OF_PEOPLE: dict[type[Message], Traits] = {
    queue.SubmitWorkload: Traits(INTERACTIVE, _submission),
    pipelines.SubmitPipeline: Traits(INTERACTIVE, _submission),
    pipelines.CancelPipeline: Traits(INTERACTIVE, attrgetter("pipeline")),
    **{
        kind: Traits(INTERACTIVE, WORKLOAD)
        for kind in (
            queue.CancelWorkload,
            queue.HoldWorkload,
            queue.ReleaseWorkload,
            queue.RequeueWorkload,
            queue.ChangeWorkload,
            queue.SetPriority,
            moves.MoveWorkload,
            control.OperateTasks,
        )
    },
    **{
        kind: Traits(INTERACTIVE)
        for kind in (
            nodes.DrainNodes,
            nodes.UndrainNodes,
            nodes.PlanMaintenance,
            nodes.CancelMaintenance,
            nodes.ReleaseNodes,
            regions.AbandonRegion,
            regions.ReadmitRegion,
            auditor.AcknowledgeViolations,
            agents.SetAgents,
            data.SetDataset,
            data.SetStorage,
            data.SetLink,
            data.SetDataPolicy,
            dispatch.SetDispatch,
            pools.SetPool,
            pools.SetPoolingPolicy,
            pools.ApplyPools,
            preemption.SetPreemption,
            sharing.SetPolicy,
            tenants.SetTenant,
            tenants.SetEntitlement,
            tenants.SetBudget,
            tenants.SetDeadlineBudget,
            tenants.SetRanking,
        )
    },
    **{
        kind: Traits(QUERY, _query)
        for kind in (
            queue.ShowWorkload,
            queue.ListWorkloads,
            queue.ExplainWorkload,
            starts.ListStarts,
            pipelines.ListPipelines,
            pipelines.ShowPipeline,
            pipelines.TestPipeline,
            starts.TestSubmission,
            agents.ShowAgents,
            auditor.ShowAudit,
            control.ShowControllers,
            copies.ListCopies,
            copies.ShowDataPlan,
            data.ListDatasets,
            data.ShowDataSettings,
            dispatch.ShowDispatch,
            dispatch.ShowDispatchSettings,
            regions.ListRegions,
            tenants.ListTenants,
            tenants.ShowRanking,
            planning.ShowConcern,
            units.StatusWanted,
            units.ShowUnits,
            output.FindOutput,
            output.ReadOutput,
            logs.ReadLog,
            logs.ReadAbout,
            logs.FetchImage,
        )
    },
}
_OF_FUNCTIONS: dict[type[Message], Traits] = {
    functions.CallFunction: Traits(
        INTERACTIVE,
        attrgetter("caller"),
        _calls_size,
        leads_to=(functions.RunCalls,),
        retries=(functions.CallsRefused,),
    ),
    functions.RunCalls: Traits(
        INTERACTIVE, attrgetter("router"), _runs_size, retries=(functions.CallsAnswered, functions.CodeWanted)
    ),
    functions.ServerReport: Traits(INTERACTIVE, attrgetter("server"), _ended_size),
    functions.CallsAnswered: Traits(INTERACTIVE),
    functions.CallsRefused: Traits(INTERACTIVE),
    functions.CallsKnown: Traits(INTERACTIVE),
    functions.AskCalls: Traits(INTERACTIVE),
    functions.CodeWanted: Traits(INTERACTIVE),
    functions.CodeSent: Traits(INTERACTIVE),
    functions.RoutersWanted: Traits(INTERACTIVE, leads_to=(functions.RouterHere,)),
    functions.RouterHere: Traits(REPORT),
    functions.CountFunctions: Traits(REPORT, attrgetter("router"), leads_to=(functions.FunctionsRemembered,)),
    functions.FunctionsRemembered: Traits(REPORT),
    functions.ShowFunctions: Traits(QUERY, _query),
}
_OF_HARVEST: dict[type[Message], Traits] = {
    harvest.OfferHarvest: Traits(REPORT),
    harvest.RecallHarvest: Traits(REPORT),
    harvest.ReleaseHarvest: Traits(REPORT),
    harvest.TaskLends: Traits(REPORT, WORKLOAD),
    harvest.SizeServer: Traits(INTERACTIVE, leads_to=(harvest.ServerSized, functions.ServerReport)),
    harvest.ServerSized: Traits(REPORT, attrgetter("server"), leads_to=(harvest.ReleaseHarvest,)),
    harvest.HarvestOdds: Traits(REPORT),
    harvest.ShowHarvest: Traits(QUERY, _query),
}
_OF_SOLVERS: dict[type[Message], Traits] = {
    prices.SetPrices: Traits(BULK),
    copies.SetDataPlan: Traits(BULK),
    pools.SetPoolsPlan: Traits(BULK),
}

NOTICE = Traits(SYSTEM)
"""Of what a host says to its own component. In one order, and never lost."""
ANSWER = Traits(INTERACTIVE)
"""Of answers, which wait in no mailbox."""
TRAITS: dict[type[Message], Traits] = {
    **_OF_STARTS,
    **_ACKNOWLEDGED_AND_STOPPED,
    **_REPORTED,
    **_OF_PEOPLE,
    **_OF_FUNCTIONS,
    **_OF_HARVEST,
    **_OF_SOLVERS,
    **{kind: ANSWER for kind in MESSAGES if issubclass(kind, Answer)},
}
"""Of every type in the registry."""


def traits_of(kind: type[Message]) -> Traits:
    """Return the traits of a type of message."""
    return NOTICE if issubclass(kind, Notice) else TRAITS[kind]


def classes_of(traits: Traits) -> frozenset[UrgencyClass]:
    """Return the classes that messages with these traits can have of themselves."""
    if isinstance(traits.sort, UrgencyClass):
        return frozenset((traits.sort,))
    return frozenset((UrgencyClass.INTERACTIVE, UrgencyClass.PLACEMENT, UrgencyClass.GANG))


@lru_cache(maxsize=1)
def possible_classes() -> dict[type[Message], frozenset[UrgencyClass]]:
    """Return, for each type, the classes that its messages can have: their own, those of what leads to them, and `bulk`.

    What follows from requests beyond a tenant's rate is `bulk`, whatever its type.
    """
    found = {kind: classes_of(traits) | {UrgencyClass.BULK} for kind, traits in TRAITS.items()}
    is_changed = True
    while is_changed:
        is_changed = False
        for kind, traits in TRAITS.items():
            for onward in (*traits.leads_to, *traits.retries):
                joined = found[onward] | found[kind]
                is_changed |= joined != found[onward]
                found[onward] = joined
    return found
