"""Messages of each class, and a mailbox that they are put into."""

from core.codec import Parcel
from core.dispatch.context import Urgency
from core.dispatch.costs import Costs
from core.messages.agents import AgentPresent
from core.messages.base import LogHeard, Message
from core.messages.broker import StopAttempt
from core.messages.queue import Bid, CancelWorkload, ListWorkloads
from core.nouns.dispatch import DEFAULT_QUANTUM, DEFAULT_RATE, TARGETS, DispatchSettings, Target, UrgencyClass
from core.nouns.ids import GLOBAL_LOG, AgentName, RegionName, WorkloadId
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds
from core.nouns.placement import View
from core.nouns.workload import EndCause
from runtime.dispatch.mailbox import Mailbox

EU = RegionName("eu")
START = Instant(10**18)


def said(sort: str, about: str = "w-1") -> Message:
    """A message of this class; those about a workload have it as their order key."""
    workload = WorkloadId(about)
    match sort:
        case UrgencyClass.SYSTEM:
            return StopAttempt(EU, workload, 1, EndCause.CANCELLED)
        case UrgencyClass.INTERACTIVE:
            return CancelWorkload(workload)
        case UrgencyClass.QUERY | UrgencyClass.BULK:
            return ListWorkloads()
        case UrgencyClass.PLACEMENT:
            return Bid(EU, AgentName("a0"), workload, "1.1", (), (), (), View(0))
        case UrgencyClass.REPORT:
            return AgentPresent(EU, AgentName("a0"))
    return LogHeard(GLOBAL_LOG)


class Post:
    """A mailbox, with a clock that is moved by hand, and a name for each message."""

    def __init__(
        self,
        policy: str = "llf",
        room: int = 1_000,
        *,
        targets: dict[str, Target] | None = None,
        quantum: Nanoseconds = DEFAULT_QUANTUM,
        rate: int = DEFAULT_RATE,
    ) -> None:
        self.now = START
        settings = DispatchSettings(policy, targets or {}, quantum, rate)
        self.mailbox = Mailbox(Costs(), settings, room=room)

    def put(
        self,
        name: str,
        sort: str,
        sender: str = "",
        about: str = "",
        *,
        urgency: Urgency | None = None,
        tenant: str = "",
        message: Message | None = None,
    ) -> bool:
        """A message arrives, of a sender of its own and about a workload of its own if none is named."""
        if sort == UrgencyClass.BULK and urgency is None:
            urgency = Urgency(sort, TARGETS[sort].within)
        parcel = Parcel(name, sender or name, message or said(sort, about or name), tenant, urgency)
        return self.mailbox.put(parcel, "", self.now)

    def take(self) -> str:
        """The name of the next message; empty: none waits."""
        mail = self.mailbox.take(self.now)
        return mail.parcel.id if mail is not None else ""

    def take_all(self) -> list[str]:
        """The names of all messages, in order."""
        names = []
        while name := self.take():
            names.append(name)
        return names

    def sleep(self, milliseconds: float) -> None:
        """Let time pass."""
        self.now = Instant(self.now + round(milliseconds * MILLISECOND))
