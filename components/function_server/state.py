"""State of a function server: executors, calls with and without one, kept answers, and what each router has sent."""

from collections import deque
from collections.abc import Iterable
from itertools import islice, takewhile

from msgspec import Struct, field

from core.agenda import Agenda
from core.calls.lives import life_of
from core.calls.numbers import Numbers
from core.messages.harvest import NodeSize
from core.nouns.function import CallAnswer, EndedRun, FunctionSpec, Place, WarmLevel
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
from core.routing.rates import RunTimes
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


Line = tuple[FunctionId, Place]
"""Calls and executors of one function on one place."""


class Source(Struct, frozen=True):
    """The number under which a router sent a run to a place."""

    router: str
    life: str
    number: int
    place: Place


class RunRow(Struct):
    """One call that has not ended."""

    key: CallKey
    function: FunctionId
    place: Place
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
    place: Place
    tenant: TenantName
    need: Amount
    top: WarmLevel
    level: WarmLevel = WarmLevel.COLD
    tickets: dict[int, None] = field(default_factory=dict)
    """Runs of the executor, in order."""
    idle_since: Instant = Instant(0)
    begun_at: Instant = Instant(0)
    """When its first run was given to it, or the run before that ended."""
    leaves_by: Instant = Instant(0)
    """When it has to be gone, after the call that runs if that ends sooner; 0: it stays."""
    is_ending: bool = False

    @property
    def is_ready(self) -> bool:
        """A call begins at once unless another is before it."""
        return self.level is self.top and not self.is_ending

    @property
    def takes_calls(self) -> bool:
        """Return whether calls may be given to it, now or once it is ready."""
        return not (self.is_ending or self.leaves_by)

    @property
    def is_idle(self) -> bool:
        """Return whether the executor is ready and has no call."""
        return self.is_ready and not self.tickets

    @property
    def held(self) -> Amount:
        """Return the capacity that the executor holds now."""
        return held_idle(self.need) if self.is_idle else self.need


class LineRow(Struct):
    """Calls and executors of one function on one place."""

    waiting: deque[int] = field(default_factory=deque)
    """Runs without an executor, in order."""
    executors: dict[int, None] = field(default_factory=dict)


class FunctionRow(Struct):
    """One function that was called here."""

    spec: FunctionSpec
    has_code: bool
    used_at: Instant = Instant(0)
    """When a call came last."""
    code_missed_at: Instant = Instant(0)
    """Since when the code is missing; 0: the code is here."""
    lines: dict[Place, LineRow] = field(default_factory=dict)
    """Rows of places that were ever sent a call of the function, or have an executor."""
    run_time: Nanoseconds = Nanoseconds(0)
    """Mean; 0: none has ended yet."""
    run_times: RunTimes = field(default_factory=RunTimes)
    gaps: deque[int] = field(default_factory=lambda: deque(maxlen=GAPS_KEPT))
    """Idle times of executors that had another call afterwards."""
    failed_starts: int = 0
    """In a row."""

    @property
    def has_waiting(self) -> bool:
        """Return whether a run waits for an executor on any place."""
        return any(line.waiting for line in self.lines.values())

    @property
    def has_executors(self) -> bool:
        """Return whether there is an executor on any place."""
        return any(line.executors for line in self.lines.values())

    def waiting(self) -> list[int]:
        """Return the runs that wait for an executor, place by place."""
        return [ticket for line in self.lines.values() for ticket in line.waiting]

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

    def add_run(self, ran: Nanoseconds, *, is_lost: bool = False) -> None:
        """Learn from a call that ended; of one that was lost it is known that it ran for no less."""
        ran = Nanoseconds(max(1, ran))
        if is_lost:
            self.run_times.add_lost(ran)
            return
        self.run_times.add(ran)
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
    """The runs that one router has sent to one place, and their ends."""

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
    whole_at: Instant | None = None
    """When the next whole report is due; None: the place is empty."""
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


class Lost(Struct):
    """Calls that were ended before they were done."""

    calls: int = 0
    span: Nanoseconds = Nanoseconds(0)
    """How long they had run."""


class PlaceRow(Struct):
    """One place of the server's machine. A row stays for the life of the server, for the numbers of reports and runs."""

    links: dict[str, RouterLink]
    """Links by router."""
    size: Amount = NOTHING
    lent: dict[TenantName, Amount] = field(default_factory=dict)
    leaves_by: Instant = Instant(0)
    """When executors beyond the size have to be gone."""
    slows: bool = False
    """Executors stay where they use more cores than there are."""
    is_resized: bool = False
    """The size has changed since runs were assigned last: only then do executors use more than there is."""


class HarvestHeard(Struct):
    """The newest sizes from the harvester, of the nodes of this machine."""

    revision: int = 0
    """The newest; 0: the harvester was not heard in this life."""
    sizes: dict[int, NodeSize] = field(default_factory=dict)
    """Sizes by node."""
    lost: dict[int, Lost] = field(default_factory=dict)
    """Calls that were ended before they were done, by node, since the newest revision that made its size smaller."""


class ServerState:
    """All that one life of a function server knows."""

    def __init__(self, at: Instant, routers: tuple[str, ...]) -> None:
        self.life = life_of(at)
        self.routers = routers
        self.places: dict[Place, PlaceRow] = {}
        self.is_sized = False
        """The doer has told the sizes of places."""
        self.is_book_asked = False
        self.executors: dict[int, ExecutorRow] = {}
        self.executor_count = 0
        """That were started in this life."""
        self.functions: dict[FunctionId, FunctionRow] = {}
        self.runs: dict[int, RunRow] = {}
        self.tickets: dict[CallKey, int] = {}
        self.ticket_count = 0
        self.waits: dict[Line, None] = {}
        """Functions, by place, with runs that wait for an executor, the one first that began to wait first."""
        self.answers = KeptAnswers()
        self.assign_at: Instant | None = None
        """Set while an assignment of waiting runs may find something new."""
        self.report_at: Instant | None = at
        self.forget_at: Instant = after(at, FORGET_SPAN)
        """When functions that are not used are looked for."""
        self.idle: Agenda[int] = Agenda()
        """Idle executors, by when they are ended."""
        self.leaving: Agenda[int] = Agenda()
        """Executors that have to leave, by when they are ended if they run a call still."""
        self.harvest = HarvestHeard()
        self.sized_at: Instant | None = None
        """When the harvester is told the use of executors."""
        self.code: Agenda[FunctionId] = Agenda()
        """Functions whose code is missing, by when callers are asked for it."""

    def place(self, place: Place) -> PlaceRow:
        """Return the row of a place, a new one for one that was not heard of before."""
        if place not in self.places:
            self.places[place] = PlaceRow({router: RouterLink() for router in self.routers})
        return self.places[place]

    def line(self, line: Line) -> LineRow:
        """Return the calls and executors of a function on a place."""
        function, place = line
        return self.functions[function].lines.setdefault(place, LineRow())

    def used(self, place: Place) -> dict[TenantName, Amount]:
        """Return the amounts that executors use of a place, by the tenant of their functions, without those that are being ended."""
        used: dict[TenantName, Amount] = {}
        for row in self.executors.values():
            if row.place == place and not row.is_ending:
                used[row.tenant] = used.get(row.tenant, NOTHING).plus(row.held)
        return used

    def used_of_node(self, node: int) -> Amount:
        """Return the use of the harvested part of a node, as the region counts: executors that are being ended are included."""
        used = NOTHING
        for row in self.executors.values():
            if row.place.node == node and row.place.is_harvested:
                used = used.plus(row.need if row.is_ending else row.held)
        size = self.harvest.sizes.get(node)
        return used if size is None else size.of_node(used)
