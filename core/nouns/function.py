"""Functions: short calls on warm processes, none of which is in a log.

A call is remembered by its caller, who says it again until there is an answer (docs/functions.md has the promise).
"""

from enum import IntEnum, StrEnum

from msgspec import Struct

from core.nouns.ids import FunctionId, TenantName
from core.nouns.instant import Nanoseconds
from core.nouns.quantities import Amount
from core.nouns.workload import NEVER


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


class Serves(StrEnum):
    """For whose functions a service holds capacity. Its tasks start no program."""

    NO = ""
    """It is an ordinary workload."""
    OWN = "own"
    """Its tenant's."""
    ALL = "all"
    """All tenants'; operators alone may say so."""


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


class Executors(Struct, frozen=True, array_like=True, gc=False):
    """The executors of one function on one server, as the server reports them."""

    function: FunctionId
    idle: int
    """At the top level, without a call."""
    busy: int
    starting: int
    level: WarmLevel = WarmLevel.COLD
    """The highest of those that are not at the top; without any, `COLD`."""
