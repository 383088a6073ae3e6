"""Functions: short calls on warm processes, none of which is in a log.

A call is remembered by its caller, who says it again until there is an answer (docs/functions.md has the promise).
"""

from enum import IntEnum, StrEnum

from msgspec import Struct

from core.nouns.ids import FunctionId, TenantName
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.quantities import Amount
from core.nouns.workload import NEVER, Serves


class WarmLevel(IntEnum):
    """How much of an executor is ready before a call comes."""

    COLD = 0
    """There is no process."""
    PROCESS = 1
    """The process has loaded the function's code."""
    HOST = 2
    """`init` has run; weights are in host memory."""
    DEVICE = 3
    """Weights are on the device. A function without GPUs ends at `HOST`."""


class WarmSpans(Struct, frozen=True, forbid_unknown_fields=True):
    """Emulated: how long an executor takes from each level to the next."""

    process: Nanoseconds = Nanoseconds(0)
    host: Nanoseconds = Nanoseconds(0)
    device: Nanoseconds = Nanoseconds(0)


class FunctionCode(Struct, frozen=True, forbid_unknown_fields=True):
    """Where executors find the code of a function."""

    target: str = ""
    """`module:name`, imported from `directory`; empty: the code is pickled, and sent by callers when a server wants it."""
    directory: str = ""
    """Absolute, seen by all nodes."""
    is_init: bool = False
    """Whether an `init` runs once in each executor, before its first call."""


class FunctionSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A function as its callers describe it; the same for all calls of one digest."""

    tenant: TenantName
    name: str
    digest: str
    """Of its code and needs, in hexadecimal: other code is another function."""
    need: Amount
    """Of one executor."""
    code: FunctionCode = FunctionCode()
    timeout: Nanoseconds = NEVER
    """A call that runs for longer has failed, and its executor is ended; `NEVER`: no limit."""
    warm: WarmSpans | None = None
    """Set of an emulated function: the arguments of a call are its run time, a whole number of nanoseconds in MessagePack."""

    @property
    def id(self) -> FunctionId:
        """The name of the function in the plane."""
        return FunctionId(f"{self.tenant}/{self.name}/{self.digest}")

    @property
    def top(self) -> WarmLevel:
        """The level at which an executor takes a call without any delay."""
        return WarmLevel.DEVICE if self.need.gpu_milli else WarmLevel.HOST


class CallOutcome(StrEnum):
    """How a call ended for its caller."""

    DONE = "done"
    FAILED = "failed"
    """The function raised, ran for too long, or its executor died of it."""
    LOST = "lost"
    """Nobody can tell whether it ran, and it may not run twice."""
    REFUSED = "refused"
    """It was not begun, and will not be."""


class Call(Struct, frozen=True, array_like=True, gc=False):
    """One call, as its caller says it."""

    number: int
    """Counts the calls of one caller, from 1 on."""
    arguments: bytes
    """As the function's SDK packs them; nobody in between looks into them."""
    within: Nanoseconds = NEVER
    """The time that its caller has left for it, when said; `NEVER`: any."""
    is_once: bool = False
    """Whether it may be begun once at most."""


class CallAnswer(Struct, frozen=True, array_like=True, gc=False):
    """How one call ended."""

    number: int
    outcome: CallOutcome
    value: bytes = b""
    """As the SDK packs it; of a failure, the exception."""
    problem: str = ""
    """Of what is not done: one sentence."""
    ran: Nanoseconds = Nanoseconds(0)
    level: WarmLevel = WarmLevel.COLD
    """Of the executor when the call was given to it."""


class Place(Struct, frozen=True, order=True, array_like=True, gc=False):
    """A part of a function server's machine, which routers see as a server of its own: what is held on one node, or harvested of it."""

    node: int = 0
    is_harvested: bool = False
    """Nobody holds it for functions: whoever it belongs to takes it back (core/nouns/harvest.py)."""

    @property
    def name(self) -> str:
        """Return its name beside that of its server."""
        return f"{self.node}.harvest" if self.is_harvested else str(self.node)


def member_of(server: str, place: Place) -> str:
    """Return the name under which routers know a place of a server."""
    return f"{server}/{place.name}"


class GpuPart(Struct, frozen=True):
    """A part of one GPU."""

    index: int
    """The GPU's number on this machine, in the order of the PCI bus."""
    milli: int


class Holding(Struct, frozen=True):
    """The part of this machine that one task of a service holds for functions, or that is harvested."""

    share: str
    """The name of the task's share, which tells this holding from others."""
    tenant: TenantName
    serves: Serves
    """`OWN`: for functions of the tenant alone; `ALL`: for everybody's."""
    is_ending: bool
    """Executors leave the holding now."""
    gpus: tuple[GpuPart, ...]
    """Empty where slots are CPUs."""
    cpu_slots: tuple[int, ...]
    """Empty: executors may run on every core of this process."""
    amount: Amount
    place: Place = Place()
    leaves_by: Instant = Instant(0)
    """Of what is harvested: when executors beyond the amount have to be gone at the latest."""
    slows: bool = False
    """Of what is harvested: executors stay where they use more cores than there are, and become slower."""


class EndedRun(Struct, frozen=True, array_like=True, gc=False):
    """How one run of a router ended on a server."""

    number: int
    outcome: CallOutcome
    """`REFUSED`: the call was not begun, and is for another server."""
    ran: Nanoseconds
    """0: the call had ended before, under another number."""
    level: WarmLevel
    """Of the best executor when the call came, if the call waited for an executor to become ready; else the top."""
    is_harvested: bool = False
    """Whether the run was on harvested capacity. A call that comes again by way of another place stays where it is."""


class FunctionCount(Struct, frozen=True, forbid_unknown_fields=True):
    """Counts of one function's calls, and sums of their times."""

    function: FunctionId
    done: int = 0
    failed: int = 0
    lost: int = 0
    refused: int = 0
    """After a router had taken them: the time that their callers had for them was over."""
    again: int = 0
    """Calls that were said again after their end was known."""
    cold: tuple[int, int, int] = (0, 0, 0)
    """Calls for which an executor was brought up, by its level when they came: none, process, host."""
    ran: Nanoseconds = Nanoseconds(0)
    waited: Nanoseconds = Nanoseconds(0)
    """In the router."""
    harvested: int = 0
    """Calls that were done on harvested capacity."""
    harvested_span: Nanoseconds = Nanoseconds(0)
    """How long these ran."""
    retried: int = 0
    """Runs that were lost on harvested capacity, of calls that were sent once more."""
    lost_span: Nanoseconds = Nanoseconds(0)
    """How long all runs had run that were lost there."""

    @property
    def ended(self) -> int:
        """Return how many calls came to an end on a server."""
        return self.done + self.failed + self.lost

    def plus(self, other: "FunctionCount") -> "FunctionCount":
        """Return the sums of both."""
        return FunctionCount(
            self.function,
            self.done + other.done,
            self.failed + other.failed,
            self.lost + other.lost,
            self.refused + other.refused,
            self.again + other.again,
            (self.cold[0] + other.cold[0], self.cold[1] + other.cold[1], self.cold[2] + other.cold[2]),
            Nanoseconds(self.ran + other.ran),
            Nanoseconds(self.waited + other.waited),
            self.harvested + other.harvested,
            Nanoseconds(self.harvested_span + other.harvested_span),
            self.retried + other.retried,
            Nanoseconds(self.lost_span + other.lost_span),
        )


class FunctionEstimate(Struct, frozen=True, forbid_unknown_fields=True):
    """A function's load, as last counted."""

    function: FunctionId
    calls_per_minute: int
    run_time: Nanoseconds
    """Mean."""


class Executors(Struct, frozen=True, array_like=True, gc=False):
    """The executors of one function on one server, as the server reports them."""

    function: FunctionId
    idle: int
    """At the top level, without a call."""
    busy: int
    starting: int
    level: WarmLevel = WarmLevel.COLD
    """The highest of those that are not at the top; without any, `COLD`."""
