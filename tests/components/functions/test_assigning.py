"""Which executors are started, fed and ended for runs that wait, against sums over all executors."""

from hypothesis import given
from hypothesis import strategies as st

from components.function_server.assigning import Plan, assignment, leaving
from components.function_server.state import ExecutorRow, FunctionRow, RunRow, ServerState
from core.nouns.function import FunctionSpec
from core.nouns.ids import TenantName
from core.nouns.instant import Instant
from core.nouns.quantities import NOTHING, Amount
from tests.builders import START
from tests.components.support.functions import HELD, ML, a_function
from tests.core.properties import PROPERTY

GIB = 1 << 30
VISION = TenantName("vision")
RESOURCES = ("gpu_milli", "cpu_milli", "memory_bytes")
NEEDS = (Amount(0, 1_000, GIB), Amount(0, 2_000, 2 * GIB), Amount(500, 1_000, GIB), Amount(0, 1_000, 0))


def functions() -> list[FunctionSpec]:
    """One for each need and tenant."""
    return [
        a_function(f"{tenant}{number}", tenant=tenant, need=need)
        for tenant in (ML, VISION)
        for number, need in enumerate(NEEDS)
    ]


@st.composite
def servers(draw: st.DrawFn) -> ServerState:
    """Draw a server with executors that run calls, start or idle, within its size, and runs that wait."""
    state = ServerState(START, ("r0",))
    place = state.place(HELD)
    place.lent = draw(st.sampled_from([{}, {ML: Amount(0, 2_000, 2 * GIB)}]))
    place.size = Amount(
        1_000 * draw(st.integers(0, 2)), 1_000 * draw(st.integers(2, 8)), GIB * draw(st.integers(2, 8))
    )
    specs = functions()
    for spec in specs:
        state.functions[spec.id] = FunctionRow(spec, has_code=True)
    for spec, status in draw(
        st.lists(st.tuples(st.sampled_from(specs), st.sampled_from(["busy", "idle", "starts"])), max_size=8)
    ):
        row = ExecutorRow(spec.id, HELD, spec.tenant, spec.need, spec.top)
        if status != "starts":
            row.level = spec.top
        if status == "busy":
            row.tickets[_ticket(state, spec)] = None
        row.idle_since = Instant(START - draw(st.integers(0, 5)))
        if excess(state, [*_held(state), (spec.tenant, row.held)]) == NOTHING:
            state.executor_count += 1
            state.executors[state.executor_count] = row
            state.line((spec.id, HELD)).executors[state.executor_count] = None
    for spec in draw(st.lists(st.sampled_from(specs), max_size=5)):
        line = spec.id, HELD
        state.line(line).waiting.append(_ticket(state, spec))
        state.waits[line] = None
    return state


def _ticket(state: ServerState, spec: FunctionSpec) -> int:
    state.ticket_count += 1
    key = (spec.tenant, "c1", state.ticket_count)
    state.runs[state.ticket_count] = RunRow(key, spec.id, HELD, b"", False, [])
    return state.ticket_count


def _held(state: ServerState) -> list[tuple[TenantName, Amount]]:
    return [(one.tenant, one.held) for one in state.executors.values()]


def excess(state: ServerState, held: list[tuple[TenantName, Amount]]) -> Amount:
    """What is held beyond the size: each tenant's own part is for that tenant alone."""
    found, place = [], state.place(HELD)
    for resource in RESOURCES:
        common = getattr(place.size, resource) - sum(getattr(one, resource) for one in place.lent.values())
        beyond = sum(
            max(
                0,
                sum(getattr(need, resource) for owner, need in held if owner == tenant)
                - getattr(place.lent.get(tenant, NOTHING), resource),
            )
            for tenant in (ML, VISION)
        )
        found.append(max(0, beyond - common))
    return Amount(*found)


def after_plan(state: ServerState, plan: Plan, kept: frozenset[int] = frozenset()) -> Amount:
    """What is held beyond the size once a plan is carried out, but for the ends of the executors in `kept`."""
    held = []
    for number, one in state.executors.items():
        if number in plan.given:
            held.append((one.tenant, one.need))
        elif number not in plan.ended or number in kept:
            held.append((one.tenant, one.held))
    held += [
        (state.functions[one].spec.tenant, state.functions[one].spec.need) for one, _ in plan.started.values()
    ]
    return excess(state, held)


@PROPERTY
@given(servers())
def test_plan_keeps_within_the_size(state: ServerState) -> None:
    """Executors that run, start and idle hold no more than there is."""
    plan = assignment(state)
    assert NOTHING == after_plan(state, plan)
    assert not set(plan.given) & set(plan.ended)
    assert all(state.executors[number].is_idle for number in plan.ended)
    given = [ticket for tickets in plan.given.values() for ticket in tickets]
    assert len(given) == len(set(given))


@PROPERTY
@given(servers())
def test_no_executor_is_ended_for_nothing(state: ServerState) -> None:
    """Executors end for others that start; those that stay have been idle for no longer, and one end fewer would not do."""
    plan = assignment(state)
    if not plan.ended:
        return
    assert plan.started
    assert any(after_plan(state, plan, frozenset({number})) != NOTHING for number in plan.ended)


@PROPERTY
@given(servers())
def test_no_run_waits_that_could_have_room(state: ServerState) -> None:
    """A run that is left has neither an idle executor with cores for it nor room for one more, even with all idle ones ended."""
    plan = assignment(state)
    left = {number: one for number, one in state.executors.items() if not one.is_idle or number in plan.given}
    held = [(one.tenant, one.need) for one in left.values()]
    held += [
        (state.functions[one].spec.tenant, state.functions[one].spec.need) for one, _ in plan.started.values()
    ]
    given = {ticket for tickets in plan.given.values() for ticket in tickets}
    for row in state.functions.values():
        waiting = [one for one in row.waiting() if one not in given]
        starting = sum(one == row.spec.id for one, _ in plan.started.values())
        starting += sum(
            not state.executors[number].is_ready for number in state.line((row.spec.id, HELD)).executors
        )
        if len(waiting) > starting:
            assert excess(state, [*held, (row.spec.tenant, row.spec.need)]) != NOTHING


@PROPERTY
@given(servers(), st.integers(0, 4), st.integers(0, 4))
def test_smaller_server_ends_what_is_too_much(state: ServerState, cores: int, gib: int) -> None:
    """All that remain fit; executors that run calls end only if the idle ones are not enough."""
    place = state.place(HELD)
    place.size, place.lent = Amount(0, 1_000 * cores, GIB * gib), {}
    ended = leaving(state, HELD, START).now
    left = {number: one for number, one in state.executors.items() if number not in ended}
    assert NOTHING == excess(state, [(one.tenant, one.held) for one in left.values()])
    assert all(place.size.covers(one.need) for one in left.values())
    possible = [one for one in state.executors.values() if place.size.covers(one.need)]
    if excess(state, [(one.tenant, one.held) for one in possible if not one.is_idle]) == NOTHING:
        assert all(
            one.is_idle or not place.size.covers(one.need)
            for one in (state.executors[number] for number in ended)
        )
    if excess(state, [(one.tenant, one.held) for one in possible]) == NOTHING:
        assert len(possible) == len(left), "no other has to go"
