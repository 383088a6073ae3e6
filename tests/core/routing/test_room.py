"""Room of a server, against sums over all its executors."""

from hypothesis import given
from hypothesis import strategies as st

from core.nouns.ids import TenantName
from core.nouns.quantities import NOTHING, Amount
from core.routing.room import Room, cores_of, held_idle
from tests.core.properties import PROPERTY
from tests.core.routing.servers import cores

ML, VISION, WEB = TENANTS = (TenantName("ml"), TenantName("vision"), TenantName("web"))
RESOURCES = ("gpu_milli", "cpu_milli", "memory_bytes")
small = st.builds(Amount, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
Executor = tuple[TenantName, Amount]


def excess(size: Amount, lent: dict[TenantName, Amount], executors: list[Executor]) -> list[int]:
    """What executors use beyond the size, by resource: of each tenant what its own part does not hold, less what is lent to no tenant."""
    found = []
    for resource in RESOURCES:
        common = getattr(size, resource) - sum(getattr(one, resource) for one in lent.values())
        beyond = 0
        for tenant in TENANTS:
            used = sum(getattr(need, resource) for owner, need in executors if owner == tenant)
            beyond += max(0, used - getattr(lent.get(tenant, NOTHING), resource))
        found.append(max(0, beyond - common))
    return found


@PROPERTY
@given(
    small.map(lambda one: one.times(4)),
    st.dictionaries(st.sampled_from(TENANTS), small, max_size=2),
    st.lists(st.tuples(st.sampled_from(TENANTS), small, st.integers(0, 3)), max_size=20),
)
def test_executors_use_no_more_than_there_is(
    size: Amount, lent: dict[TenantName, Amount], wanted: list[tuple[TenantName, Amount, int]]
) -> None:
    """One more fits if, and only if, the sums over all executors say so; executors that fit are never beyond the size."""
    for part in lent.values():
        size = size.plus(part)
    room, executors = Room(size, lent, {}), list[Executor]()
    for tenant, need, action in wanted:
        if action == 0 and executors:
            owner, ended = executors.pop(0)
            room.remove(owner, ended)
        fits = [0, 0, 0] == excess(size, lent, [*executors, (tenant, need)])
        assert fits == room.fits(tenant, need)
        assert room.ever_fits(tenant, need) == ([0, 0, 0] == excess(size, lent, [(tenant, need)]))
        if fits:
            room.add(tenant, need)
            executors.append((tenant, need))
        assert not room.is_over()


@PROPERTY
@given(
    small,
    st.dictionaries(st.sampled_from(TENANTS), small, max_size=2),
    st.dictionaries(st.sampled_from(TENANTS), small.map(lambda one: one.times(2))),
)
def test_excess_is_what_is_too_much(
    size: Amount, lent: dict[TenantName, Amount], used: dict[TenantName, Amount]
) -> None:
    """After a server became smaller, also than the parts that it lends."""
    room = Room(size, lent, used)
    found = room.excess()
    assert [found.gpu_milli, found.cpu_milli, found.memory_bytes] == excess(size, lent, list(used.items()))
    assert room.is_over() == (found != NOTHING)


def test_own_part_is_used_first() -> None:
    """Of ten cores two are lent to one tenant: it may use all ten, the others eight."""
    room = Room(cores(10), {ML: cores(2)}, {})
    assert room.ever_fits(ML, cores(10))
    assert not room.ever_fits(VISION, cores(9))
    room.add(ML, cores(2))
    assert room.fits(VISION, cores(8))
    room.add(VISION, cores(8))
    assert not room.fits(ML, cores(1))
    room.remove(ML, cores(1))
    assert not room.fits(VISION, cores(1))
    assert room.fits(ML, cores(1))


def test_executor_without_a_call_holds_no_cores() -> None:
    """Its memory and its GPU it keeps."""
    need = Amount(500, 4_000, 1 << 30)
    assert Amount(500, 0, 1 << 30) == held_idle(need)
    assert need == held_idle(need).plus(cores_of(need))
