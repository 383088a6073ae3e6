"""Plans of which nodes move between pools: the policy for them, how they are shown, and how an operator applies one.

No planner is there: each test hands the store the plan that a planner would send.
"""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from core.events.control import MaintenanceMoved, NodesClosed
from core.events.pools import PoolChanged, PoolingPolicySet, PoolsApplied, PoolsPlanned
from core.events.region import NodesLost
from core.fact import Event
from core.images import RegionImage
from core.messages.base import Message
from core.messages.planning import ConcernShown
from core.messages.pools import ApplyPools, SetPool, SetPoolingPolicy
from core.nouns.ids import WorkerName
from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds
from core.nouns.maintenance import ClosureKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.pool import PoolSettings, Survives
from core.nouns.pooling import MoveReason, NodesMove, PoolingPolicy, PoolStanding
from mizzen.actions.settings.pooling import (
    Applied,
    PolicyWish,
    RegionPolicy,
    applied_text,
    apply_plan,
    policies_of,
    policy_table,
    policy_wish_of,
    set_policy,
)
from mizzen.actions.settings.pools import need_of, set_pool
from mizzen.actions.workloads import TRIES_MAX
from mizzen.connect.plane import submitter
from mizzen.terminal.output import FAILED, MISUSED, CommandError
from mizzen.views.fleet.pool_needs import LOSSES_SHOWN_MAX, Loss, losses_table
from mizzen.views.fleet.pool_plans import (
    MoveProgress,
    builtins_of,
    merged,
    plan_lines,
    plan_shown,
    plans_of_plane,
)
from mizzen.views.phrases.planner_text import NO_PLANNER
from tests.builders import EU, EU_LOG, US, folded
from tests.mizzen.half_plane import HalfPlane
from tests.mizzen.nodes_scene import at, gang
from tests.mizzen.nodes_scene import planned as planned_work
from tests.mizzen.pools_scene import (
    ALL_AT_ONCE,
    BY_HAND,
    JOINED,
    SERVICE_NEEDS,
    a_plan,
    plane_of,
    planned,
    pools_now,
    recorded,
    region_of,
    settings_now,
)
from tests.runtime.aids import Place, virtual

RESTING = ConcernShown(True, False, 0, "", Nanoseconds(-1))
"""A planner that has nothing to solve."""
NOW = Instant(at(1) + 154 * SECOND)


class Quicker:
    """A bus on which another operator or planner is quicker so many times, each just before a request of this sort is said."""

    def __init__(self, plane: HalfPlane, sort: type[Message], times: int) -> None:
        self._plane = plane
        self._sort = sort
        self.times = times

    async def ask(self, message: Message, timeout: Nanoseconds) -> Message:
        """As the bus does."""
        if isinstance(message, self._sort) and self.times:
            self.times -= 1
            if self._sort is ApplyPools:
                await planned(self._plane, {})
            else:
                policy = PoolingPolicy(at_once=100 + self.times)
                asked = SetPoolingPolicy(EU, policy, (await settings_now(self._plane)).revision)
                await self._plane.bus.ask(asked, timeout)
        return await self._plane.bus.ask(message, timeout)


def quicker(
    plane: HalfPlane, sort: type[Message], times: int = TRIES_MAX
) -> Any:  # Any: a bus that can only be asked
    """The plane's bus, with somebody quicker."""
    return Quicker(plane, sort, times)


# The policy.


@virtual
async def test_policy_is_set_and_shown(place: Place) -> None:
    """What is not named stays, and a policy as it was is no fact."""
    plane = await plane_of(place)
    assert ([RegionPolicy(EU, PoolingPolicy())], []) == await policies_of(plane.bus, "")
    by_hand = PoolingPolicy(is_automatic=False)
    assert RegionPolicy(EU, by_hand) == await set_policy(plane.bus, PolicyWish(is_automatic=False))
    quarter = replace(by_hand, at_once=250)
    for _ in range(2):
        assert RegionPolicy(EU, quarter) == await set_policy(plane.bus, PolicyWish(at_once=250), "eu")
    assert [
        PoolingPolicySet(by_hand, submitter()),
        PoolingPolicySet(quarter, submitter()),
    ] == await recorded(plane)
    found, _ = await policies_of(plane.bus, "eu")
    assert [
        "REGION  PLANS ARE APPLIED  AT ONCE",
        "eu      by hand                25%",
        "us      automatically          10%",
    ] == policy_table([*found, RegionPolicy(US, PoolingPolicy())], None)
    for asked in (policies_of(plane.bus, "mars"), set_policy(plane.bus, PolicyWish(at_once=1), "mars")):
        with pytest.raises(CommandError, match="there is no region mars; there are eu"):
            await asked


@virtual
async def test_policy_is_set_again_after_another_operators_change(place: Place) -> None:
    """On the policy of the other operator; and not for ever."""
    plane = await plane_of(place)
    done = await set_policy(quicker(plane, SetPoolingPolicy, 1), PolicyWish(is_automatic=False))
    assert PoolingPolicy(is_automatic=False, at_once=100) == done.policy
    with pytest.raises(CommandError, match="try again in a moment"):
        await set_policy(quicker(plane, SetPoolingPolicy), PolicyWish(at_once=500))


@virtual
async def test_policy_that_the_store_refuses(place: Place) -> None:
    """The store is the judge of a share that the options cannot write."""
    plane = await plane_of(place)
    with pytest.raises(CommandError) as raised:
        await set_policy(plane.bus, PolicyWish(at_once=1_001))
    assert "at_once: it is from 1 to 1000 permille of the region's nodes" == str(raised.value)
    assert [] == await recorded(plane)


def test_policy_options_are_understood() -> None:
    """None of them wishes for nothing."""
    assert policy_wish_of("", "") is None
    assert PolicyWish(is_automatic=True) == policy_wish_of("on", "")
    assert PolicyWish(is_automatic=False, at_once=25) == policy_wish_of("off", "2.5%")


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        (("maybe", ""), ["--automatic: maybe is neither on nor off"]),
        (("", "0%"), ["--at-once: 0% is no share of a region's nodes; write --at-once 10%"]),
        (("", "10"), ["--at-once: 10 is no share"]),
        (("", "101%"), ["--at-once: 101% is no share"]),
        (("yes", "all"), ["--automatic: yes", "--at-once: all"]),
    ],
)
def test_invalid_policy_options_are_told_at_once(words: tuple[str, str], problems: list[str]) -> None:
    """Each with how to write it."""
    with pytest.raises(CommandError) as raised:
        policy_wish_of(*words)
    told = raised.value.problems or (str(raised.value),)
    assert (MISUSED, len(problems)) == (raised.value.exit_code, len(told))
    assert [] == [wanted for wanted, text in zip(problems, told, strict=True) if not text.startswith(wanted)]


@virtual
async def test_need_by_hand_sets_the_policy_first(place: Place) -> None:
    """So that no plan for the need is applied by itself."""
    plane = await plane_of(place, ALL_AT_ONCE)
    for _ in range(2):
        done = await set_pool(plane.bus, "service", need_of(["H100=16"], ""), by_hand=True)
        assert PoolingPolicy(is_automatic=False, at_once=1_000) == done.policy
    pools = await settings_now(plane)
    assert (3, False) == (pools.revision, pools.policy.is_automatic)
    answer = await planned(plane, {4: "service"})
    assert (0, 0) == (answer.moved, answer.waiting)


@virtual
async def test_refused_need_by_hand_leaves_the_policy(place: Place) -> None:
    """Nothing is recorded of a request that is refused."""
    plane = await plane_of(place)
    for pool, word, wanted in (
        ("service", "H100=97", "needs: the region has 96 H100; 97 are too many"),
        ("belt", "H100=8", "pool: there is no belt in eu; there are service, training"),
    ):
        with pytest.raises(CommandError) as raised:
            await set_pool(plane.bus, pool, need_of([word], ""), by_hand=True)
        assert (MISUSED, wanted) == (raised.value.exit_code, str(raised.value))
    assert [] == await recorded(plane)


@virtual
async def test_need_that_fails_after_its_policy_says_so(place: Place) -> None:
    """The policy stands by then."""
    plane = await plane_of(place)
    with pytest.raises(CommandError) as raised:
        await set_pool(quicker(plane, SetPool), "service", need_of(["H100=8"], ""), by_hand=True)
    assert str(raised.value).endswith("; plans of eu are applied by hand from now on all the same")


# Plans, as they are shown.


def image_with(
    *events: Event, moves: dict[int, str] | None = None, **parts: Any
) -> RegionImage:  # Any: parts of a plan
    """A region with needs of pool `service` and a plan, and whatever happened then; all facts are of one moment."""
    begun = (*JOINED, BY_HAND, SERVICE_NEEDS)
    plan = a_plan(region_of(BY_HAND, SERVICE_NEEDS), moves or {}, **parts)
    image = folded(RegionImage.empty(), [*begun, PoolsPlanned(plan, "planner"), *events])
    image.pools.planned_at = at(1)
    return image


def lines(image: RegionImage, planner: ConcernShown | None = RESTING) -> list[str]:
    """The lines about a region's plan, two and a half minutes after it."""
    return plan_lines(plan_shown(EU, image, planner), NOW, None)


LOSSES = [
    "as nodes are now, the loss of a power domain would leave:",
    "  LOST     POOL     TYPE  NEEDS  LEFT",
    "  power-1  service  H100     16     0  16 short",
    "  power-0  service  H100     16    32",
]


def test_region_without_needs_is_told_how_to_state_some() -> None:
    """In one sentence, whoever plans."""
    told = ["no pool of eu has needs; `mizzen pools need POOL H100=400 --region eu` states some"]
    assert told == lines(region_of())
    assert told == lines(region_of(), None)


@pytest.mark.parametrize(
    ("planner", "why"),
    [
        (None, NO_PLANNER),
        (replace(RESTING, has_solver=False), "the planner has no solver: install Mizzen with the extra `planner` where it runs"),
        (replace(RESTING, failures=2, why="out of memory", again_in=seconds(60)), "the planner failed 2 times in a row, and tries again in 1:00: out of memory"),
        (replace(RESTING, is_solving=True), "the planner is at work"),
        (replace(RESTING, again_in=seconds(4)), "the planner looks in 4s"),
        (RESTING, "the planner has not looked yet"),
    ],
)  # fmt: skip
def test_region_without_a_plan_is_told_why(planner: ConcernShown | None, why: str) -> None:
    """And what each loss would leave without one."""
    image = region_of(SERVICE_NEEDS)
    assert [f"there is no plan of eu yet: {why}", *LOSSES] == lines(image, planner)


def test_plan_that_waits_for_an_operator() -> None:
    """It is told how to apply it; nothing has moved yet."""
    image = image_with(
        *gang("w-1", {1: 8}), moves={0: "service", 1: "service"}, cost=21_000, gap=1_250,
        standings=(PoolStanding("service", "H100", 16, 48, 16, 0),),
    )  # fmt: skip
    moves = tuple(replace(move, in_use=1) for move in image.pools.plan.moves)
    image.pools.plan = replace(image.pools.plan, moves=moves)
    assert [
        "plan 1 of eu, 2m34s ago, as needs or settings changed: 2 nodes move, 1 of them in use",
        "  FROM      TO       NODES  IN USE  MOVED  WAITING  NODELIST",
        "  training  service      2       1      -        -  eu-[0-1]",
        "that costs as much as moving 21 empty nodes; no plan that leaves as little short is cheaper by more than 0.13%",
        "with these moves pools have:",
        "  POOL     TYPE  NEEDS  HAS  LEFT  SHORT",
        "  service  H100     16   48    16      0",
        *LOSSES,
        "the plan is not applied: `mizzen pools apply --plan 1 --region eu` does it",
    ] == lines(image)


def test_plan_that_is_outdated() -> None:
    """It is not to be applied; and where no planner is there to make another, that is told instead."""
    image = image_with(PoolChanged("service", PoolSettings(needs=(("H100", 8),))), moves={0: "service"})
    assert "needs or settings have changed since: a new plan comes within a minute" == lines(image)[-1]
    assert f"needs or settings have changed since: {NO_PLANNER}" == lines(image, None)[-1]


def test_plan_without_moves() -> None:
    """What pools have is told all the same, and that more could not move; nobody need apply it."""
    image = image_with(why=MoveReason.TIME, standings=(PoolStanding("service", "H100", 16, 32, 0, 16),))
    assert [
        "plan 1 of eu, 2m34s ago, as the plan before was half an hour old: no node moves",
        "pools have:",
        "  POOL     TYPE  NEEDS  HAS  LEFT  SHORT",
        "  service  H100     16   32     0     16",
        *LOSSES,
        "the planner is at work",
    ] == lines(image, replace(RESTING, is_solving=True))


def test_bounded_plan_is_told() -> None:
    """Another follows it."""
    image = image_with(moves={0: "service"}, is_bounded=True, cost=1_000)
    told = lines(image)
    assert told[0].endswith("1 node moves, none of them in use")
    assert [
        "that costs as much as moving 1 empty node; no plan that leaves as little short is cheaper",
        "no more nodes may move at once; another plan follows for what is short still",
    ] == told[3:5]


def test_pool_that_need_not_survive_is_never_short_after_a_loss() -> None:
    """What a loss would leave it is told all the same."""
    image = image_with(
        PoolChanged("service", PoolSettings(needs=(("H100", 16),), survives=Survives.NOTHING)),
        standings=(PoolStanding("service", "H100", 16, 32, 0, 0),),
    )
    told = lines(image)
    assert "  service  H100     16   32     -      0" == told[3]
    assert ["  power-0  service  H100     16    32", "  power-1  service  H100     16     0"] == told[6:8]


def test_one_domain_alone_is_told_in_a_sentence() -> None:
    """As is a type of which no node takes work: lost and drained nodes survive nothing."""
    lost = NodesLost(WorkerName("w0"), (0, 1, 2, 3))
    told = lines(region_of(SERVICE_NEEDS, lost))
    assert "all H100 of eu are in power domain power-1: its loss would leave service none" == told[-1]
    others = NodesClosed("d-1", ClosureKind.DRAIN, ((4, 11),), "fan")
    told = lines(region_of(SERVICE_NEEDS, lost, others))
    assert "no node with H100 takes work in eu, and service needs some" == told[-1]


def test_pool_that_a_drain_names_is_left_alone() -> None:
    """In a sentence; no figure is right for it."""
    work = replace(planned_work(8, 9, 10, 11), scope=Scope(ScopeKind.POOL, ("service",)))
    begun = MaintenanceMoved(work.maintenance, MaintenancePhase.NOTICED)
    told = lines(region_of(SERVICE_NEEDS, work, begun))
    assert "service is left alone while a drain or planned work names the whole pool" == told[-1]
    assert 2 == len(told)


def test_losses_below_a_need_come_first() -> None:
    """And a table is no longer than people read."""
    some = [Loss(f"power-{at:03}", "service", "H100", 16, 16 - at % 2, at % 2) for at in range(90)]
    told = losses_table(some, None)
    assert LOSSES_SHOWN_MAX + 2 == len(told)
    assert "power-079  service  H100     16    15  1 short" == told[LOSSES_SHOWN_MAX]
    assert "and 50 more lines, 5 of them short; --json has all" == told[-1]


def test_moves_in_parts_are_one_line() -> None:
    """Facts tell a move of many nodes in parts."""
    parts = (
        NodesMove("a", "b", ((0, 1),), 1),
        NodesMove("b", "c", ((8, 8),)),
        NodesMove("a", "b", ((4, 4),), 1),
    )
    assert (NodesMove("a", "b", ((0, 1), (4, 4)), 2), NodesMove("b", "c", ((8, 8),))) == merged(parts)


@virtual
async def test_plan_that_was_applied_by_itself(place: Place) -> None:
    """Empty nodes have moved, and one in use waits to be vacant."""
    plane = await plane_of(place, ALL_AT_ONCE, SERVICE_NEEDS, *gang("w-1", {1: 8}))
    answer = await planned(plane, {0: "service", 1: "service", 2: "service"})
    assert (2, 1) == (answer.moved, answer.waiting)
    assert "ststttttssss" == await pools_now(plane)
    ((shown,), silent) = await plans_of_plane(plane.bus, "")
    assert ([], None, (MoveProgress(2, 1, 0),)) == (silent, shown.planner, shown.progress)
    assert [
        "plan 1 of eu, 0s ago, as needs or settings changed: 3 nodes move, none of them in use",
        "  FROM      TO       NODES  IN USE  MOVED  WAITING  NODELIST",
        "  training  service      3       0      2        1  eu-[0-2]",
        "that costs as much as moving 2 empty nodes; no plan that leaves as little short is cheaper",
        "with these moves pools have:",
        "  POOL     TYPE  NEEDS  HAS  LEFT  SHORT",
        "  service  H100     16   48    16      0",
        "as nodes are now, the loss of a power domain would leave:",
        "  LOST     POOL     TYPE  NEEDS  LEFT",
        "  power-0  service  H100     16    32",
        "  power-1  service  H100     16    16",
        NO_PLANNER,
    ] == plan_lines(shown, Instant(shown.planned_at), None)
    told = json.loads(json.dumps(builtins_of(shown)))
    move = {"pool_from": "training", "pool_to": "service", "nodes": [[0, 2]], "in_use": 0}
    assert [move | {"moved": 2, "waiting": 1, "staying": 0}] == told["plan"]["moves"]
    assert {"pool": "service", "left": 16}.items() <= told["plan"]["standings"][0].items()
    with pytest.raises(CommandError, match="there is no region mars"):
        await plans_of_plane(plane.bus, "mars")


# Plans, as an operator applies them.


@virtual
async def test_plan_is_applied_by_hand(place: Place) -> None:
    """Once: a second time nothing is recorded, and it is told how far the moves are."""
    plane = await plane_of(
        place, BY_HAND, SERVICE_NEEDS, *gang("w-1", {1: 8}), NodesLost(WorkerName("w1"), (4, 5, 6, 7))
    )
    await planned(plane, {0: "service", 1: "service", 4: "service"})
    assert "ttttttttssss" == await pools_now(plane)
    done = await apply_plan(plane.bus, None)
    progress = MoveProgress(1, 1, 1)
    assert Applied(EU, 1, False, progress) == done
    assert (
        "plan 1 of eu is applied: 1 node moved, 1 node waits to be vacant, 1 node stays where it is: "
        "lost, closed for another reason, or not vacant in time"
    ) == applied_text(done)
    again = await apply_plan(plane.bus, 1, "eu")
    assert Applied(EU, 1, True, progress) == again
    assert applied_text(again).startswith("plan 1 of eu is applied already: 1 node moved, 1 node waits")
    assert [PoolsApplied(1, submitter())] == await plane.events(EU_LOG, PoolsApplied)


@virtual
async def test_plan_without_moves_is_applied(place: Place) -> None:
    """Which moves nothing."""
    plane = await plane_of(place, BY_HAND, SERVICE_NEEDS)
    await planned(plane, {})
    assert "plan 1 of eu is applied: it moves no node" == applied_text(await apply_plan(plane.bus, 1))


@virtual
async def test_plan_that_cannot_be_applied(place: Place) -> None:
    """There is none, it is not the newest, or it rests on other needs: one sentence each, and nothing is recorded."""
    plane = await plane_of(place, BY_HAND, SERVICE_NEEDS)
    assert "there is no plan of eu; `mizzen pools plan --region eu` tells why" == await refused(plane, None)
    await planned(plane, {0: "service"})
    await planned(plane, {4: "service"})
    assert (
        "plan 1 of eu is superseded: the newest is 2; `mizzen pools plan --region eu` shows it"
        == await refused(plane, 1)
    )
    assert "there is no plan 3 of eu; the newest is 2" == await refused(plane, 3)
    await set_pool(plane.bus, "service", need_of(["H100=24"], ""))
    superseded = (
        "plan 2 of eu is superseded: needs or settings have changed since; a new plan comes within a minute"
    )
    assert superseded == await refused(plane, 2)
    assert superseded == await refused(plane, None)
    with pytest.raises(CommandError, match="there is no region mars; there are eu"):
        await apply_plan(plane.bus, None, "mars")
    assert [] == await plane.events(EU_LOG, PoolsApplied)
    assert "ttttttttssss" == await pools_now(plane)


async def refused(plane: HalfPlane, number: int | None) -> str:
    """Why a plan cannot be applied."""
    with pytest.raises(CommandError) as raised:
        await apply_plan(plane.bus, number)
    assert FAILED == raised.value.exit_code
    return str(raised.value)


@virtual
async def test_newer_plan_is_applied_unless_a_number_was_named(place: Place) -> None:
    """The operator looked at the plan of that number; and planners are not waited for without end."""
    plane = await plane_of(place, BY_HAND, SERVICE_NEEDS)
    await planned(plane, {0: "service"})
    assert 2 == (await apply_plan(quicker(plane, ApplyPools, 1), None)).number
    await planned(plane, {1: "service"})
    with pytest.raises(CommandError, match="plan 3 of eu is superseded: the newest is 4"):
        await apply_plan(quicker(plane, ApplyPools, 1), 3)
    with pytest.raises(CommandError, match="try again in a moment"):
        await apply_plan(quicker(plane, ApplyPools), None)
