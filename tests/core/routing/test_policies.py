"""Routing policies: which server each call goes to, by examples and for drawn servers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.nouns.ids import FunctionId
from core.nouns.instant import Instant
from core.nouns.quantities import Amount
from core.routing import POLICIES
from core.routing.hash import steps_of
from core.routing.jsq import JoinShortestQueue, JsqSettings
from core.routing.load import room_below_ceiling, score_of
from core.routing.mws import MinWorkerSet, MwsSettings
from core.routing.policy import Candidate, Load, MemberSet, RoutingPolicy
from core.routing.ring import SLOTS, start_of, walk
from tests.core.properties import PROPERTY
from tests.core.routing.servers import (
    CORE,
    NOW,
    SCORE,
    a_load,
    a_server,
    candidates,
    cores,
    functions,
    in_ring,
    loads,
    members,
)

HOME = start_of(SCORE)
MWS = POLICIES["mws"]


def after_home(count: int, **others: object) -> list[Candidate]:
    """Servers w0, w1, … on the function's walk, alike."""
    return in_ring([a_server(f"w{one}", (HOME + one) % SLOTS, **others) for one in range(count)])


def changed(ring: list[Candidate], **servers: Candidate) -> list[Candidate]:
    """The ring with some servers in place of those of their names."""
    return [servers.get(one.name, one) for one in ring]


def at(number: int, **others: object) -> Candidate:
    """Server `number` on the walk."""
    return a_server(f"w{number}", (HOME + number) % SLOTS, **others)


def chosen(policy: RoutingPolicy, ring: list[Candidate], load: Load, known: MemberSet | None = None) -> str:
    """The server for a call of the function now."""
    return policy.choose(SCORE, load, ring, known, NOW).server


# Scores.


def test_room_is_under_a_ceiling() -> None:
    """H-4: seven tenths of the size, less all use; with the function's own use free, or not (H-5)."""
    server = a_server(size=Amount(1_000, 10_000, 100), used=Amount(0, 6_000, 80), mine=Amount(0, 2_000, 30))
    assert (700, 1_000, -10) == room_below_ceiling(server, own_too=False)
    assert (700, 3_000, 20) == room_below_ceiling(server, own_too=True)


def test_score_is_a_sum_of_shares() -> None:
    """H-4: used cores and memory, each of the part under the ceiling; GPUs count for functions that need some."""
    server = a_server(size=Amount(1_000, 10_000, 100), used=Amount(350, 3_500, 14))
    assert 0.5 + 0.2 == pytest.approx(score_of(server, CORE))
    assert 0.5 + 0.5 + 0.2 == pytest.approx(score_of(server, Amount(100, 1_000, 1)))
    assert float("inf") == score_of(a_server(), Amount(100, 0, 1))


# Min-worker-sets.


def test_one_server_is_enough_for_little() -> None:
    """H-3: the home alone has the calls, as long as they are no more than seven tenths of it."""
    ring = after_home(5)
    found = MWS.choose(SCORE, a_load(7.0), ring, None, NOW)
    assert ("w0", "w0", 1) == (
        found.server,
        found.members and found.members.home,
        found.members and found.members.size,
    )
    assert 2 == _size(MWS, ring, a_load(7.1))
    assert 3 == _size(MWS, ring, a_load(21.0))
    assert 5 == _size(MWS, ring, a_load(500.0)), "all, if none are enough"


def test_own_use_counts_once() -> None:
    """H-5: seven running calls are the load of seven, and not of fourteen."""
    ring = changed(after_home(3), w0=at(0, used=cores(7), mine=cores(7)))
    assert 1 == _size(MWS, ring, a_load(7.0))
    assert 2 == _size(MinWorkerSet(MwsSettings(counts_own_once=False)), ring, a_load(7.0))
    assert 2 == _size(POLICIES["mws_published"], ring, a_load(7.0))


def test_idle_executor_comes_first() -> None:
    """H-4: of the set's servers the one with a warm executor, however loaded; beyond the set it counts for nothing."""
    ring = changed(after_home(3), w1=at(1, used=cores(2), idle=1), w2=at(2, idle=3), w0=at(0, used=cores(1)))
    assert "w1" == chosen(MWS, ring, a_load(1.0), members(size=2))
    assert "w0" == chosen(MWS, ring, a_load(1.0), members(size=1))
    assert "w0" == chosen(
        MinWorkerSet(MwsSettings(takes_idle_first=False)), ring, a_load(1.0), members(size=2)
    )


def test_least_loaded_of_the_set_is_taken() -> None:
    """H-4: not the least loaded of all."""
    ring = changed(after_home(3), w0=at(0, used=cores(3)), w1=at(1, used=cores(2)))
    assert "w1" == chosen(MWS, ring, a_load(1.0), members(size=2))


def test_set_shrinks_by_one_server_in_thirty_seconds() -> None:
    """H-3: and grows at once, by as many as are needed."""
    ring, after = after_home(6), 0
    assert 5 == _size(MWS, ring, a_load(35.0), members(size=1))
    for after, size in ((29, 5), (30, 4), (31, 4)):
        assert size == _size(MWS, ring, a_load(1.0), members(size=5, shrunk_at=after)), after
    assert 1 == _size(MWS, ring, a_load(1.0), members("another", size=5)), "with a new home at once"
    assert 1 == _size(POLICIES["mws_published"], ring, a_load(1.0), members(size=5, shrunk_at=30))


def test_call_waits_when_no_server_can_take_it() -> None:
    """H-4: the set stays as it is. Without the waiting room the least loaded server of all has it."""
    ring = [at(number, can_take=False, used=cores(10 + number % 2)) for number in (1, 2, 3)]
    known = members("w1", size=2)
    assert ("", known) == (
        MWS.choose(SCORE, a_load(), ring, known, NOW).server,
        MWS.choose(SCORE, a_load(), ring, known, NOW).members,
    )
    assert "w2" == chosen(MinWorkerSet(MwsSettings(waits=False)), ring, a_load(), known)


def test_published_goes_beyond_sizes() -> None:
    """H-6: with no room under the ceiling in the set, the least loaded of all servers has the call, full or not."""
    ring = [at(number, can_take=False, used=cores(12 - number)) for number in (0, 1, 2)]
    assert "w2" == chosen(POLICIES["mws_published"], ring, a_load(1.0))
    ring = changed(after_home(3), w0=at(0, used=cores(1)))
    assert "w0" == chosen(POLICIES["mws_published"], ring, a_load(1.0)), (
        "others are emptier, and not in the set"
    )


# Plain balancers.


def test_shortest_queue_is_joined() -> None:
    """H-6: the least loaded of all, of equals the first on the ring; full servers too, unless calls wait."""
    ring = changed(after_home(3), w0=at(0, used=cores(2)), w2=at(2, used=cores(1), idle=1))
    assert "w1" == chosen(POLICIES["jsq"], ring, a_load())
    full = [at(number, used=cores(11 - number), can_take=False) for number in (0, 1)]
    assert "w1" == chosen(POLICIES["jsq"], full, a_load())
    assert "" == chosen(JoinShortestQueue(JsqSettings(waits=True)), full, a_load())


def test_hash_counts_memory_alone() -> None:
    """H-6: the home has calls while there is memory for them, with all cores taken or not; then the next on the function's steps."""
    names = [f"w{place}" for place in steps_of(SCORE, 4)]
    ring = [a_server(f"w{one}", one) for one in range(4)]
    busy = a_server(names[0], int(names[0][1:]), used=cores(40, 99), can_take=False)
    assert names[0] == chosen(POLICIES["hash"], changed(ring, **{names[0]: busy}), a_load())
    full = a_server(names[0], int(names[0][1:]), used=cores(0, 100))
    assert names[1] == chosen(POLICIES["hash"], changed(ring, **{names[0]: full}), a_load())


@PROPERTY
@given(functions, st.integers(0, 40))
def test_steps_reach_each_server_once(function: FunctionId, count: int) -> None:
    """H-6: whatever their number is."""
    assert list(range(count)) == sorted(steps_of(function, count))


# All of them.


@PROPERTY
@given(candidates(), functions, loads, st.sampled_from(sorted(POLICIES)))
def test_stale_server_gets_nothing(
    ring: list[Candidate], function: FunctionId, load: Load, policy: str
) -> None:
    """H-4: a server that is not usable is as good as none; a policy without a waiting room finds any that is."""
    found = POLICIES[policy].choose(function, load, ring, None, NOW)
    usable = [one for one in ring if one.is_usable]
    assert found == POLICIES[policy].choose(function, load, usable, None, NOW) or policy == "hash"
    assert found.server in {"", *(one.name for one in usable)}
    if not POLICIES[policy].waits:
        assert bool(usable) == bool(found.server)


WAITING = (
    MinWorkerSet(),
    MinWorkerSet(MwsSettings(counts_own_once=False)),
    MinWorkerSet(MwsSettings(takes_idle_first=False)),
    JoinShortestQueue(JsqSettings(waits=True)),
)


@PROPERTY
@given(candidates(), functions, loads, st.sampled_from(WAITING), st.none() | st.integers(1, 8))
def test_nothing_goes_beyond_a_servers_size(
    ring: list[Candidate], function: FunctionId, load: Load, policy: RoutingPolicy, size: int | None
) -> None:
    """H-4: a call goes to a server that can take one, and waits only if there is none."""
    servers = walk(ring, function)
    known = members(servers[0].name, size) if servers and size else None
    found = policy.choose(function, load, ring, known, NOW).server
    takers = {one.name for one in ring if one.can_take}
    assert (found in takers) if takers else (found == "")
    assert policy.waits


@PROPERTY
@given(candidates(), functions, loads, st.integers(1, 8))
def test_call_stays_in_the_set(ring: list[Candidate], function: FunctionId, load: Load, size: int) -> None:
    """H-3, H-4: among the set's servers that can take the call one with an idle executor, of these the least loaded."""
    servers = walk(ring, function)
    found = MWS.choose(function, load, ring, members(servers[0].name, size) if servers else None, NOW)
    if not found.server:
        return
    assert found.members is not None
    takers = [one for one in servers[: found.members.size] if one.can_take]
    warm = [one for one in takers if one.idle] or takers
    best = min(score_of(one, load.need) for one in warm)
    assert found.server in {one.name for one in warm if score_of(one, load.need) == best}


@PROPERTY
@given(
    st.lists(st.tuples(candidates(), loads, st.integers(0, 45)), max_size=12),
    functions,
    st.sampled_from(["mws", "mws_published"]),
)
def test_sets_shrink_slowly(
    steps: list[tuple[list[Candidate], Load, int]], function: FunctionId, policy: str
) -> None:
    """H-3: over any life of a set with one home, two steps down are 30 s apart, and a step up waits for nothing."""
    known: MemberSet | None = None
    now, shrunk = NOW, dict[str, Instant]()
    for ring, load, gap in steps:
        now = Instant(now + gap * 1_000_000_000)
        found = POLICIES[policy].choose(function, load, ring, known, now).members
        fresh = POLICIES[policy].choose(function, load, ring, None, now).members
        if found is not None and fresh is not None and found != known:
            assert found.size >= fresh.size, "the set suffices"
            if known is not None and found.home == known.home and found.size < known.size:
                assert now - shrunk.get(found.home, Instant(0)) >= 30_000_000_000
                assert policy != "mws" or found.size == known.size - 1
            if known is None or found.home != known.home:
                shrunk = {}
            elif found.size < known.size:
                shrunk[found.home] = now
        known = found


def _size(policy: RoutingPolicy, ring: list[Candidate], load: Load, known: MemberSet | None = None) -> int:
    found = policy.choose(SCORE, load, ring, known, NOW).members
    assert found is not None
    return found.size
