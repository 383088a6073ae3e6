"""Which executor takes which waiting run, and which executors are started and ended for that.

A run goes to a ready executor without a call, if there are cores for it; else an executor is started, if there is room or idle executors
of other functions make some; else to the executor with fewest calls, up to the window of its function: short calls would else wait for a round trip each.
"""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct, field

from components.function_server.state import ExecutorRow, FunctionRow, Line, PlaceRow, ServerState
from core.nouns.function import Place
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.quantities import NOTHING, Amount
from core.routing.room import Room, cores_of

CALLS_GIVEN_MAX = 2_048
"""In one decision."""


class Plan(Struct):
    """The result of an assignment."""

    given: dict[int, list[int]] = field(default_factory=dict)
    """Runs by executor, in order."""
    started: dict[int, Line] = field(default_factory=dict)
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
    rooms: dict[Place, Room] = {}
    left = CALLS_GIVEN_MAX
    for line in state.waits:
        function, place = line
        row = state.functions[function]
        if row.has_code and left > 0:
            if place not in rooms:
                rooms[place] = room_of(state, place)
            left -= _assign(state, plan, rooms[place], line, row, left)
    return plan


def room_of(state: ServerState, place: Place) -> Room:
    """Return the room of a place beside the executors that it has."""
    row = state.place(place)
    return Room(row.size, row.lent, state.used(place))


def _assign(state: ServerState, plan: Plan, room: Room, line: Line, row: FunctionRow, most: int) -> int:
    """Plan for the runs of one function on one place. Return how many were given."""
    here = state.line(line)
    waiting: deque[int] = deque(list(here.waiting)[:most])
    before = len(waiting)
    rows = {
        number: state.executors[number]
        for number in here.executors
        if state.executors[number].takes_calls and number not in plan.ended
    }
    cores = cores_of(row.spec.need)
    for number, executor in rows.items():
        if waiting and executor.is_idle and room.fits(row.spec.tenant, cores):
            plan.given[number] = [waiting.popleft()]
            room.add(row.spec.tenant, cores)
    starting = sum(not executor.is_ready for executor in rows.values())
    while starting * row.window < len(waiting):
        if not (room.fits(row.spec.tenant, row.spec.need) or _make_room(state, plan, room, line, row)):
            break
        number = state.executor_count + len(plan.started) + 1
        plan.started[number] = line
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


def _make_room(state: ServerState, plan: Plan, room: Room, line: Line, row: FunctionRow) -> bool:
    """End idle executors, the one first that is idle for longest, until one of the function fits; none if all are not enough."""
    tenant, need = row.spec.tenant, row.spec.need
    # Idle executors have no cores to give.
    if not room.ever_fits(tenant, need) or not room.fits(tenant, cores_of(need)):
        return False
    ended: list[int] = []
    for number in _idle_longest(state, plan, line[1]):
        executor = state.executors[number]
        room.remove(executor.tenant, executor.held)
        ended.append(number)
        if room.fits(tenant, need):
            plan.ended += ended
            return True
    for number in ended:
        room.add(state.executors[number].tenant, state.executors[number].held)
    return False


def _idle_longest(state: ServerState, plan: Plan, place: Place) -> Iterator[int]:
    idle = [
        (one.idle_since, number)
        for number, one in state.executors.items()
        if one.place == place and one.is_idle and number not in plan.given and number not in plan.ended
    ]
    return (number for _, number in sorted(idle))


def without_room(state: ServerState) -> list[int]:
    """Return the waiting runs for which their place would be too small without other executors; an empty list while sizes are unknown."""
    found: list[int] = []
    for function, place in state.waits if state.is_sized else ():
        spec, row = state.functions[function].spec, state.place(place)
        if not Room(row.size, row.lent, {}).ever_fits(spec.tenant, spec.need):
            found += state.line((function, place)).waiting
    return found


class Leaving(Struct):
    """Executors that have to leave a place which has become smaller."""

    now: list[int] = field(default_factory=list)
    by_then: list[int] = field(default_factory=list)
    """Executors with a call, which may end before the time of the place."""


def leaving(state: ServerState, place: Place, now: Instant) -> Leaving:
    """Return the executors that have to leave a place because it has become smaller.

    Those go that were to leave already, for an owner that counts on their time, the earliest first; then those that would not fit alone;
    then idle ones; then those whose call is expected to end in time, that have run for the least time, the newest. Others whose end
    would leave as much beyond the size as before stay. Where the place is harvested, those with a call may stay until its time.
    """
    row, room = state.place(place), room_of(state, place)
    found = Leaving()
    is_in_time = row.leaves_by > now
    order = [number for number, one in state.executors.items() if one.place == place and not one.is_ending]
    order.sort(key=lambda number: _order(state, room, number, row, now))
    for number in order:
        one, excess = state.executors[number], _excess(room, row)
        is_alone_too_large = not _ever_fits(room, row, one)
        room.remove(one.tenant, one.held)
        if not is_alone_too_large and _excess(room, row) == excess:
            room.add(one.tenant, one.held)
        else:
            (found.by_then if one.tickets and is_in_time else found.now).append(number)
    return found


def _order(
    state: ServerState, room: Room, number: int, row: PlaceRow, now: Instant
) -> tuple[bool, Instant, bool, bool, bool, int, int]:
    """Return the place of an executor among those that may have to leave, the first first."""
    one = state.executors[number]
    ran = Nanoseconds(max(0, now - one.begun_at) if one.tickets else 0)
    rest = state.functions[one.function].run_times.expected_rest(ran)
    is_late = rest is None or after(now, rest) > row.leaves_by
    stays = not one.leaves_by
    return stays, one.leaves_by, _ever_fits(room, row, one), not one.is_idle, is_late, ran, -number


def _excess(room: Room, row: PlaceRow) -> Amount:
    """Return the use of executors beyond the size of a place, without cores where executors become slower for that."""
    excess = room.excess()
    if row.slows and row.size != NOTHING:
        return excess.minus(cores_of(excess))
    return excess


def _ever_fits(room: Room, row: PlaceRow, one: ExecutorRow) -> bool:
    if row.slows and row.size != NOTHING:
        return room.ever_fits(one.tenant, one.need.minus(cores_of(one.need)))
    return room.ever_fits(one.tenant, one.need)
