"""Servers and loads for tests of routing: drawn ones, and ones with few words."""

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from core.nouns.ids import FunctionId
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.quantities import NOTHING, Amount
from core.routing.policy import Candidate, Load, MemberSet
from core.routing.ring import SLOTS

SCORE = FunctionId("ml/score/0123abcd")
NOW = Instant(1_000 * SECOND)
CORE = Amount(0, 1_000, 1 << 30)


def cores(count: int, gib: int = 0) -> Amount:
    """So many cores and GiB."""
    return Amount(0, 1_000 * count, gib << 30)


def a_server(name: str = "w0", slot: int = 0, **others: Any) -> Candidate:  # Any: a candidate's own fields
    """A server of ten cores and 100 GiB that is empty, can take a call, and has no idle executor."""
    return replace(Candidate(name, slot, cores(10, 100), NOTHING, NOTHING, 0, True, True), **others)


def a_load(running: float = 1.0, need: Amount = CORE) -> Load:
    """So many calls that run at once."""
    return Load(running, Nanoseconds(SECOND), need)


def members(home: str = "w0", size: int = 1, shrunk_at: int = 0) -> MemberSet:
    """A set that shrank last so many seconds before now."""
    return MemberSet(home, size, Instant(NOW - shrunk_at * SECOND))


def in_ring(servers: list[Candidate]) -> list[Candidate]:
    """Sort as routers do."""
    return sorted(servers, key=lambda one: (one.slot, one.name))


amounts = st.builds(Amount, st.sampled_from([0, 500, 1_000]), st.integers(0, 8_000), st.integers(0, 8 << 30))


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    """Draw a ring of servers that are used in any way, some beyond their size, some stale."""
    found = []
    for number in range(draw(st.integers(0, 8))):
        is_usable = draw(st.booleans())
        mine = draw(amounts)
        found.append(
            Candidate(
                f"w{number}",
                draw(st.integers(0, SLOTS - 1)),
                draw(amounts),
                mine.plus(draw(st.sampled_from([NOTHING, CORE, cores(3, 2)]))),
                mine,
                draw(st.integers(0, 2)),
                is_usable and draw(st.booleans()),
                is_usable,
            )
        )
    return in_ring(found)


needs = st.sampled_from(
    [CORE, cores(2), Amount(0, 0, 1 << 30), Amount(500, 1_000, 1 << 30), Amount(1_000, 0, 0)]
)
loads = st.builds(a_load, st.sampled_from([0.0, 0.3, 1.0, 2.5, 7.0, 30.0]), needs)
functions = st.integers(0, 10**6).map(lambda number: FunctionId(f"ml/f{number}/0123abcd"))
