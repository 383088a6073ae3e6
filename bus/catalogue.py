"""Every subject, spelled here and nowhere else: `<fleet>.<noun>.<scope…>.<verb>`, lower case.

A message's route says who hears it (the noun), which of them (the scope, read from the message's own fields) and what it
is (the verb). Answers have no route: they go to whoever asked.
"""

import re
from functools import lru_cache

from msgspec import Struct

from bus.errors import BadSubject
from bus.port import Address
from core.messages import MESSAGES, agents, auditor, broker, logs, output, queue, store, workers
from core.messages.base import Answer, Message


class Route(Struct, frozen=True):
    """Where messages of one type go."""

    noun: str
    scope: tuple[str, ...] = ()
    """Fields of the message, in subject order."""


QUEUE = Route("queue")
BROKER = Route("broker", ("region",))
AGENT = Route("agent", ("region", "agent"))
STORE = Route("store", ("region",))
WORKER = Route("worker", ("region", "worker"))
CREW = Route("crew", ("region",))
"""Everybody who serves a region: its agents and its workers."""
OUTPUT = Route("output", ("region", "worker"))
"""What tasks wrote, kept beside their worker."""
AUDITOR = Route("auditor")
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
    queue.ReleaseWorkload: QUEUE,
    queue.RequeueWorkload: QUEUE,
    queue.ShowWorkload: QUEUE,
    queue.ListWorkloads: QUEUE,
    queue.ExplainWorkload: QUEUE,
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
    workers.PrepareTasks: WORKER,
    workers.StartTasks: WORKER,
    workers.StopTasks: WORKER,
    workers.EndRecorded: WORKER,
    workers.InventoryWanted: WORKER,
    workers.WorkerInventory: BROKER,
    workers.WorkerBeat: BROKER,
    workers.WorkerReport: BROKER,
    workers.BeatHeard: WORKER,
    auditor.ShowAudit: AUDITOR,
    logs.FactsTold: LOG,
    logs.HeadTold: LOG,
    logs.AskHead: KEEPER,
    logs.ReadLog: READER,
    logs.ReadAbout: READER,
    logs.FetchImage: READER,
    output.ReadOutput: OUTPUT,
}

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,128}")
_VERBS: dict[type[Message], str] = {}
for _type in MESSAGES:
    if not issubclass(_type, Answer):
        _VERBS[_type] = str(_type.__struct_config__.tag).replace("-", "_")


def subject_of(fleet: str, message: Message) -> str:
    """Where a message goes. Raises BadSubject when a scope field cannot be part of a subject."""
    kind = type(message)
    route = ROUTES[kind]
    scope = tuple([str(getattr(message, field)) for field in route.scope])  # a list is built faster
    return f"{_prefix(fleet, route.noun, scope)}.{_VERBS[kind]}"


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
