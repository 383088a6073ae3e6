"""State of a function server: executors, calls with and without one, kept answers, and what each router has sent."""

from collections import deque
from collections.abc import Iterable
from itertools import islice, takewhile

from msgspec import Struct, field

from core.agenda import Agenda
from core.calls.lives import life_of
from core.calls.numbers import Numbers
from core.nouns.function import CallAnswer, EndedRun, FunctionSpec, WarmLevel
from core.nouns.function_limits import (
    ANSWERS_KEPT_BYTES_MAX,
    ANSWERS_KEPT_MAX,
    ANSWERS_KEPT_SPAN,
    CALL_WINDOW,
    CALL_WINDOW_MAX,
    KEEP_ALIVE_MAX,
    KEEP_ALIVE_MIN,
)
from core.nouns.ids import FunctionId, TenantName
from core.nouns.instant import Instant, Nanoseconds, after, seconds
from core.nouns.quantities import NOTHING, Amount
from core.routing.room import held_idle

CallKey = tuple[TenantName, str, int]
"""One call: tenant, caller and number."""
RUN_WEIGHT = 8
"""A run changes the mean run time of its function by this part."""
FORGET_SPAN: Nanoseconds = seconds(60)
"""Between two looks for functions that are not used any more."""
ENDS_TOLD_MAX = 4_096
"""Ended runs in one report."""
GAPS_KEPT = 32
"""Idle times of executors that are remembered of one function, the newest."""
KEEP_PART = 0.95
"""Executors are kept for as long as this part of those gaps, and half as long again."""


class Source(Struct, frozen=True):
    """The number under which a router sent a run."""

    router: str
    life: str
    number: int


class RunRow(Struct):
    """One call that has not ended."""

    key: CallKey
    function: FunctionId
    arguments: bytes
    is_once: bool
    sources: list[Source]
    """More than one if the call was sent again under another number."""
    executor: int = 0
    """0: the call waits for one."""
    came_at: WarmLevel = WarmLevel.COLD
    """Level of the best executor of the function when the call came."""
    is_cold: bool = False
    """An executor became ready while the call waited."""
    tries: int = 0
    """How often the call had begun when its executor was taken."""


class ExecutorRow(Struct):
    """One executor."""

    function: FunctionId
    tenant: TenantName
    need: Amount
    top: WarmLevel
    level: WarmLevel = WarmLevel.COLD
    tickets: dict[int, None] = field(default_factory=dict)
    """Runs of the executor, in order."""
    idle_since: Instant = Instant(0)
    is_ending: bool = False

    @property
    def is_ready(self) -> bool:
        """A call begins at once unless another is before it."""
        return self.level is self.top and not self.is_ending

    @property
    def is_idle(self) -> bool:
        """Return whether the executor is ready and has no call."""
        return self.is_ready and not self.tickets

    @property
    def held(self) -> Amount:
        """Return the capacity that the executor holds now."""
        return held_idle(self.need) if self.is_idle else self.need


class FunctionRow(Struct):
    """One function that was called here."""

    spec: FunctionSpec
    has_code: bool
    used_at: Instant = Instant(0)
    """When a call came last."""
    code_missed_at: Instant = Instant(0)
    """Since when the code is missing; 0: the code is here."""
    waiting: deque[int] = field(default_factory=deque)
    """Runs without an executor, in order."""
    executors: dict[int, None] = field(default_factory=dict)
    run_time: Nanoseconds = Nanoseconds(0)
    """Mean; 0: none has ended yet."""
    gaps: deque[int] = field(default_factory=lambda: deque(maxlen=GAPS_KEPT))
    """Idle times of executors that had another call afterwards."""
    failed_starts: int = 0
    """In a row."""

    @property
    def window(self) -> int:
        """Return how many calls an executor is given at once."""
        if not self.run_time:
            return 1
        return max(1, min(CALL_WINDOW_MAX, CALL_WINDOW // self.run_time))

    @property
    def keep_alive(self) -> Nanoseconds:
        """Return how long an idle executor is kept, by the gaps that are known."""
        if len(self.gaps) < GAPS_KEPT // 4:
            return KEEP_ALIVE_MAX
        ordered = sorted(self.gaps)
        gap = ordered[min(len(ordered) - 1, int(KEEP_PART * len(ordered)))]
        return Nanoseconds(max(KEEP_ALIVE_MIN, min(KEEP_ALIVE_MAX, gap + gap // 2)))

    def add_run(self, ran: Nanoseconds) -> None:
        """Learn from a call that ended."""
        ran = Nanoseconds(max(1, ran))
        self.run_time = Nanoseconds(
            ran if not self.run_time else max(1, self.run_time + (ran - self.run_time) // RUN_WEIGHT)
        )


class Kept(Struct, frozen=True):
    """The answer of a call that ended."""

    answer: CallAnswer
    at: Instant


class KeptAnswers:
    """Answers of the last minute, for calls that are said again; bounded by count and bytes."""

    def __init__(self) -> None:
        self._rows: dict[CallKey, Kept] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: CallKey) -> CallAnswer | None:
        """Return the answer of a call, if still known."""
        kept = self._rows.get(key)
        return None if kept is None else kept.answer

    def put(self, key: CallKey, answer: CallAnswer, now: Instant) -> None:
        """Keep an answer, and let go of those that are too old or too many."""
        self._drop(key)
        self._rows[key] = Kept(answer, now)
        self._bytes += len(answer.value)
        while self._rows:
            oldest = next(iter(self._rows))
            is_full = len(self._rows) > ANSWERS_KEPT_MAX or self._bytes > ANSWERS_KEPT_BYTES_MAX
            if not is_full and now - self._rows[oldest].at < ANSWERS_KEPT_SPAN:
                return
            self._drop(oldest)

    def _drop(self, key: CallKey) -> None:
        kept = self._rows.pop(key, None)
        if kept is not None:
            self._bytes -= len(kept.answer.value)


class RouterLink(Struct):
    """The runs that one router has sent, and their ends."""

    life: str = ""
    """Empty: the router was not heard yet."""
    numbers: Numbers = field(default_factory=Numbers)
    floor: int = 1
    """The router has heard of the end of all runs below."""
    heard_at: Instant = Instant(0)
    ended: dict[int, EndedRun] = field(default_factory=dict)
    """Runs that have ended, of which the router may not have heard, in the order of their ends."""
    told: dict[int, int] = field(default_factory=dict)
    """Of these, the ones in whole reports, by the number of the first: the oldest are in each whole report since."""
    fresh: dict[int, None] = field(default_factory=dict)
    """Ended runs that were not reported yet."""
    changed: dict[FunctionId, None] = field(default_factory=dict)
    """Functions of which executors have changed since the newest report."""
    whole_at: Instant = Instant(0)
    """When the next whole report is due."""
    said: int = 0
    """Reports."""

    def reset(self, life: str) -> None:
        """Forget the runs of the router's life before."""
        self.life, self.numbers, self.floor = life, Numbers(), 1
        self.ended, self.told, self.fresh = {}, {}, {}

    def forget(self, numbers: Iterable[int]) -> None:
        """The router has heard of the end of these runs."""
        for number in numbers:
            if self.ended.pop(number, None) is not None:
                self.told.pop(number, None)
                self.fresh.pop(number, None)

    def rise(self, floor: int) -> None:
        """The router has heard of the end of all runs below a floor."""
        self.numbers.take_up_to(floor - 1)
        passed = range(self.floor, floor)
        self.forget(passed if len(passed) <= len(self.ended) else [one for one in self.ended if one < floor])
        self.floor = max(self.floor, floor)

    def hear(self, report: int) -> None:
        """The router has heard a whole report."""
        self.forget(list(takewhile(lambda number: self.told[number] <= report, self.told)))

    def to_tell(self, is_whole: bool) -> tuple[EndedRun, ...]:
        """Return the ended runs for the next report, the oldest first."""
        return tuple(
            self.ended[number] for number in islice(self.ended if is_whole else self.fresh, ENDS_TOLD_MAX)
        )

    def note_told(self, report: int, is_whole: bool, ended: tuple[EndedRun, ...]) -> None:
        """These ended runs are in a report."""
        for one in ended:
            self.fresh.pop(one.number, None)
            if is_whole and one.number in self.ended:
                self.told.setdefault(one.number, report)


class ServerState:
    """All that one life of a function server knows."""

    def __init__(self, at: Instant, routers: tuple[str, ...]) -> None:
        self.life = life_of(at)
        self.size = NOTHING
        self.lent: dict[TenantName, Amount] = {}
        self.is_resized = False
        """The size has changed since runs were assigned last: only then do executors use more than there is."""
        self.is_sized = False
        """The doer has told a size."""
        self.is_book_asked = False
        self.executors: dict[int, ExecutorRow] = {}
        self.executor_count = 0
        """That were started in this life."""
        self.functions: dict[FunctionId, FunctionRow] = {}
        self.runs: dict[int, RunRow] = {}
        self.tickets: dict[CallKey, int] = {}
        self.ticket_count = 0
        self.waits: dict[FunctionId, None] = {}
        """Functions with runs that wait for an executor, the one first that began to wait first."""
        self.answers = KeptAnswers()
        self.links = {router: RouterLink() for router in routers}
        self.assign_at: Instant | None = None
        """Set while an assignment of waiting runs may find something new."""
        self.report_at: Instant | None = at
        self.forget_at: Instant = after(at, FORGET_SPAN)
        """When functions that are not used are looked for."""
        self.idle: Agenda[int] = Agenda()
        """Idle executors, by when they are ended."""
        self.code: Agenda[FunctionId] = Agenda()
        """Functions whose code is missing, by when callers are asked for it."""

    def used(self) -> dict[TenantName, Amount]:
        """Return the amounts that executors use, by the tenant of their functions, without those that are being ended."""
        used: dict[TenantName, Amount] = {}
        for row in self.executors.values():
            if not row.is_ending:
                used[row.tenant] = used.get(row.tenant, NOTHING).plus(row.held)
        return used
