"""Which executor takes which waiting run, and which executors are started and ended for that.

A run goes to a ready executor without a call, if there are cores for it; else an executor is started, if there is room or idle executors
of other functions make some; else to the executor with fewest calls, up to the window of its function: short calls would else wait for a round trip each.
"""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct, field

from components.function_server.state import ExecutorRow, FunctionRow, ServerState
from core.nouns.ids import FunctionId
from core.routing.room import Room, cores_of

CALLS_GIVEN_MAX = 2_048
"""In one decision."""


class Plan(Struct):
    """The result of an assignment."""

    given: dict[int, list[int]] = field(default_factory=dict)
    """Runs by executor, in order."""
    started: dict[int, FunctionId] = field(default_factory=dict)
    """New executors, by number."""
    ended: list[int] = field(default_factory=list)
    """Idle executors that make room."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is no change."""
        return not (self.given or self.started or self.ended)


def assignment(state: ServerState) -> Plan:
    """Return the plan for all waiting runs, functions in the order in which they began to wait."""
    plan = Plan()
    room = Room(state.size, state.lent, state.used())
    left = CALLS_GIVEN_MAX
    for function in state.waits:
        row = state.functions[function]
        if row.has_code and left > 0:
            left -= _assign(state, plan, room, function, row, left)
    return plan


def _assign(
    state: ServerState, plan: Plan, room: Room, function: FunctionId, row: FunctionRow, most: int
) -> int:
    """Plan for the runs of one function. Return how many were given."""
    waiting: deque[int] = deque(list(row.waiting)[:most])
    before = len(waiting)
    rows = {
        number: state.executors[number]
        for number in row.executors
        if not state.executors[number].is_ending and number not in plan.ended
    }
    cores = cores_of(row.spec.need)
    for number, executor in rows.items():
        if waiting and executor.is_idle and room.fits(row.spec.tenant, cores):
            plan.given[number] = [waiting.popleft()]
            room.add(row.spec.tenant, cores)
    starting = sum(not executor.is_ready for executor in rows.values())
    while starting * row.window < len(waiting):
        if not (room.fits(row.spec.tenant, row.spec.need) or _make_room(state, plan, room, row)):
            break
        number = state.executor_count + len(plan.started) + 1
        plan.started[number] = function
        room.add(row.spec.tenant, row.spec.need)
        starting += 1
    ready = {
        number: one for number, one in rows.items() if one.is_ready and (one.tickets or number in plan.given)
    }
    _fill_windows(plan, ready, waiting, row.window)
    return before - len(waiting)


def _fill_windows(plan: Plan, ready: dict[int, ExecutorRow], waiting: deque[int], window: int) -> None:
    """Give each executor calls up to the window, all of them alike."""
    counts = {number: len(one.tickets) + len(plan.given.get(number, ())) for number, one in ready.items()}
    while waiting:
        open_ = [number for number, count in counts.items() if count < window]
        if not open_:
            return
        least = min(counts[number] for number in open_)
        for number in open_:
            if counts[number] == least and waiting:
                plan.given.setdefault(number, []).append(waiting.popleft())
                counts[number] += 1


def _make_room(state: ServerState, plan: Plan, room: Room, row: FunctionRow) -> bool:
    """End idle executors, the one first that is idle for longest, until one of the function fits; none if all are not enough."""
    tenant, need = row.spec.tenant, row.spec.need
    # Idle executors have no cores to give.
    if not room.ever_fits(tenant, need) or not room.fits(tenant, cores_of(need)):
        return False
    ended: list[int] = []
    for number in _idle_longest(state, plan):
        executor = state.executors[number]
        room.remove(executor.tenant, executor.held)
        ended.append(number)
        if room.fits(tenant, need):
            plan.ended += ended
            return True
    for number in ended:
        room.add(state.executors[number].tenant, state.executors[number].held)
    return False


def _idle_longest(state: ServerState, plan: Plan) -> Iterator[int]:
    idle = [
        (one.idle_since, number)
        for number, one in state.executors.items()
        if one.is_idle and number not in plan.given and number not in plan.ended
    ]
    return (number for _, number in sorted(idle))


def without_room(state: ServerState) -> list[int]:
    """Return the waiting runs for which the server would be too small without any other; none while no size is known."""
    if not state.is_sized:
        return []
    room = Room(state.size, state.lent, {})
    return [
        ticket
        for row in (state.functions[function] for function in state.waits)
        if not room.ever_fits(row.spec.tenant, row.spec.need)
        for ticket in row.waiting
    ]


def beyond_size(state: ServerState) -> list[int]:
    """Return the executors to end because the server has become smaller: those that would not fit alone, then idle ones, then the newest.

    Others whose end would leave as much beyond the size as before stay.
    """
    room = Room(state.size, state.lent, state.used())
    ended: list[int] = []
    order = sorted(
        (room.ever_fits(one.tenant, one.need), bool(one.tickets), -number)
        for number, one in state.executors.items()
        if not one.is_ending
    )
    for fits, _, place in order:
        number = -place
        one, excess = state.executors[number], room.excess()
        room.remove(one.tenant, one.held)
        if not fits or room.excess() != excess:
            ended.append(number)
        else:
            room.add(one.tenant, one.held)
    return ended
