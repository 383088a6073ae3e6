"""What operators set of a pool: recorded once, told to whoever was late, and kept to at each grant."""

from typing import Any

import pytest
from msgspec.structs import replace

from components.placement_store.component import PlacementStore
from components.placement_store.pools import headroom_of
from core.component import Decision, Images
from core.events.pools import PoolChanged
from core.events.region import ClaimGranted, NodesJoined
from core.messages.agents import ClaimAnswered
from core.messages.base import Refused
from core.messages.nodes import DrainNodes
from core.messages.pools import PoolAnswered, SetPool
from core.messages.store import RecordJoin, RecordLoss, RecordReturn
from core.nouns.fleet import Inventory
from core.nouns.ids import WorkerName
from core.nouns.maintenance import Scope, ScopeKind
from core.nouns.pool import PERMILLE, UNSET, PoolSettings
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause
from core.rules.headroom import Headroom
from tests.builders import EU, EU_LOG, START, a_claim, an_inventory, attempt
from tests.components.support.machine import Machine
from tests.components.support.placement_store import (
    Start,
    a_store,
    award,
    claim,
    end,
    place,
    promise,
    refusal,
    stop,
    verdict,
)
from tests.core.histories import RegionHistory
from tests.core.properties import SEEDS
from tests.matching import facts, said_once


def set_pool(
    machine: Machine[Any],
    settings: PoolSettings = UNSET,
    pool: str = "training",
    revision: int = -1,
    **changes: Any,
) -> Decision:  # Any: of whichever settings
    """An operator sets a pool so, having seen the newest revision unless told otherwise."""
    seen = machine.state.image.pools.revision if revision < 0 else revision
    return machine.hear(SetPool(EU, pool, replace(settings, **changes), seen, "olga"))


def tried(
    machine: Machine[Any], workload: str, placed: dict[int, int], *, is_healing: bool = False, **parts: Any
) -> tuple[str, str]:  # Any: parts of a claim
    """It is awarded and claimed so. The answer and its reason."""
    made = a_claim(workload, placed=placed, award_sequence=award(machine, workload), **parts)
    decision = claim(machine, replace(made, is_healing=is_healing))
    assert facts(decision) or verdict(decision) != "granted"
    return refusal(decision)


GRANTED = ("granted", "")
RESERVED = ("conflict", Reason.RESERVED)
OVER_LIMIT = ("conflict", Reason.OVER_LIMIT)


# Settings.


def test_setting_is_recorded_and_answered(start: Start) -> None:
    """With the revision that is to be named next."""
    machine = a_store(start)
    settings = PoolSettings("plain", reserve=2, limit=950)
    decision = set_pool(machine, settings)
    assert [PoolChanged("training", settings, "olga")] == facts(decision)
    assert PoolAnswered("training", settings, 1) == said_once(decision, PoolAnswered)
    assert settings == machine.state.image.pools.of("training")
    assert UNSET == machine.state.image.pools.of("shared")


def test_setting_for_an_older_revision_is_superseded(start: Start) -> None:
    """A repeat that comes late undoes nothing, also not what another has set since."""
    machine = a_store(start)
    set_pool(machine, reserve=2)
    set_pool(machine, reserve=1)
    for _ in range(2):
        late = set_pool(machine, reserve=2, revision=0)
        assert [] == facts(late)
        assert Reason.SUPERSEDED == said_once(late, Refused).reason
    assert 1 == machine.state.image.pools.of("training").reserve


def test_settings_that_are_so_already_are_answered_and_not_recorded(start: Start) -> None:
    """This helps an operator that did not receive the first answer, and looked again."""
    machine = a_store(start)
    set_pool(machine, reserve=2)
    again = set_pool(machine, reserve=2)
    assert [] == facts(again)
    assert PoolAnswered("training", PoolSettings(reserve=2), 1) == said_once(again, PoolAnswered)


@pytest.mark.parametrize(
    ("settings", "problems"),
    [
        (PoolSettings(reserve=-1), ["reserve: it must not be negative"]),
        (PoolSettings(reserve=5), ["reserve: no zone of training has more than 4 nodes"]),
        (PoolSettings(limit=0), ["limit: it is from 1 to 1000 permille"]),
        (PoolSettings(limit=1_001), ["limit: it is from 1 to 1000 permille"]),
    ],
)
def test_silly_setting_is_refused(start: Start, settings: PoolSettings, problems: list[str]) -> None:
    """With every problem at once, and nothing recorded."""
    decision = set_pool(a_store(start), settings)
    told = said_once(decision, Refused)
    assert ([], Reason.INVALID, len(problems)) == (facts(decision), told.reason, len(told.problems))
    for wanted, problem in zip(problems, told.problems, strict=True):
        assert problem.startswith(wanted)
        assert len(problem) < 300


@pytest.mark.parametrize(
    ("settings", "reason", "problems"),
    [
        (
            PoolSettings("best"),
            Reason.UNKNOWN_RULE,
            [
                "rules: best: there is no rule of this name; there",
                "rules: best: there is no set of this name either",
            ],
        ),
        (
            PoolSettings("best_fit:8,belt:2,islands"),
            Reason.UNKNOWN_RULE,
            [
                "rules: islands: say its steps",
                "rules: belt: there is no rule of this name; there are avoid_empty, ",
            ],
        ),
        (PoolSettings("best_fit:8,,islands:2"), Reason.UNKNOWN_RULE, ["rules: : there is no rule"]),
        (PoolSettings("best_fit:8,plain"), Reason.UNKNOWN_RULE, ["rules: plain: there is no rule"]),
        (
            PoolSettings("best_fit:8,pool,best_fit:2", -3, -3),
            Reason.BAD_RULE_SET,
            [
                "rules: pool: it is a hard rule",
                "rules: best_fit: it is named twice",
                "reserve: it",
                "limit: it",
            ],
        ),
        (
            PoolSettings("best_fit:65536,fullest_rack:65536"),
            Reason.BAD_RULE_SET,
            ["rules: preferences among nodes take 32 bits"],
        ),
        (PoolSettings("x" * 5_000), Reason.BAD_RULE_SET, ["rules: 5000 characters; 1024 are the most"]),
        (PoolSettings("x," * 500), Reason.BAD_RULE_SET, ["rules: it names 501 rules, and there are "]),
        (PoolSettings("x" * 1_000), Reason.UNKNOWN_RULE, ["rules: xxx", "rules: xxx"]),
    ],
)
def test_rules_that_cannot_be_are_refused(
    start: Start, settings: PoolSettings, reason: Reason, problems: list[str]
) -> None:
    """With what is wrong with them as the reason, all of it told, and nothing recorded."""
    decision = set_pool(a_store(start), settings)
    told = said_once(decision, Refused)
    assert ([], reason) == (facts(decision), told.reason)
    assert len(problems) == len(told.problems)
    for wanted, problem in zip(sorted(problems), sorted(told.problems), strict=True):
        assert problem.startswith(wanted)
        assert len(problem) < 300


@pytest.mark.parametrize(
    "rules", ["default", "best_fit:8,islands:2,fragmentation", "best_fit:8, islands:2", ""]
)
def test_rules_are_recorded_as_they_are_said(start: Start, rules: str) -> None:
    """A set's name, or rules by comma."""
    machine = a_store(start)
    settings = PoolSettings(rules, reserve=1)
    assert [PoolChanged("training", settings, "olga")] == facts(set_pool(machine, settings))


def test_unknown_pool_is_refused(start: Start) -> None:
    """Told with the pools there are, and with whatever else is wrong."""
    told = said_once(set_pool(a_store(start), pool="trainning", limit=0), Refused)
    assert Reason.UNKNOWN_PLACE == told.reason
    assert "pool: there is no trainning; there are training" == told.problems[0]
    assert 2 == len(told.problems)


def test_settings_outlive_the_store(start: Start) -> None:
    """They are facts: a store that starts again keeps to them."""
    machine = a_store(start)
    set_pool(machine, reserve=4)
    again = machine.restart()
    assert machine.state.image.digest() != again.state.image.digest()  # It was opened once more.
    assert RESERVED == tried(again, "w-1", {0: 1})
    set_pool(again, reserve=3)
    assert GRANTED == tried(again, "w-1", {0: 1})


# The reserve.


def test_reserve_is_kept_from_ordinary_work_alone(start: Start) -> None:
    """P23: an ordinary job cannot break the reserve of empty nodes; a job that heals what a failure ended can."""
    machine = a_store(start)
    set_pool(machine, reserve=2)
    assert RESERVED == tried(machine, "w-1", {0: 8, 1: 8, 2: 8})
    assert GRANTED == tried(machine, "w-1", {0: 4, 1: 8})
    assert RESERVED == tried(machine, "w-2", {2: 1})
    assert GRANTED == tried(machine, "w-2", {2: 8, 3: 8}, is_healing=True)


def test_no_empty_node_taken_breaks_no_reserve(start: Start) -> None:
    """Also when there are fewer than the reserve: who shares a node takes nothing from it."""
    machine = a_store(start)
    place(machine, "w-1", {0: 1, 1: 1})
    set_pool(machine, reserve=4)
    assert GRANTED == tried(machine, "w-2", {0: 7, 1: 7})
    assert RESERVED == tried(machine, "w-3", {2: 1})


def test_reserve_counts_usable_nodes(start: Start) -> None:
    """A node that is closed or lost is no reserve, and counts again once it is back."""
    machine = a_store(start)
    machine.hear(RecordJoin(EU, an_inventory("w1", 4, 1)))
    set_pool(machine, reserve=3)
    machine.hear(DrainNodes(EU, Scope(ScopeKind.NODE, ("3",)), "fan", 0))
    machine.hear(RecordLoss(EU, WorkerName("w1"), machine.sequence(EU_LOG)))
    assert RESERVED == tried(machine, "w-1", {0: 1})
    machine.hear(RecordReturn(EU, WorkerName("w1"), machine.sequence(EU_LOG)))
    assert GRANTED == tried(machine, "w-1", {0: 1})
    assert RESERVED == tried(machine, "w-2", {1: 1})


def test_reserve_is_of_each_zone_alone(start: Start) -> None:
    """What another zone has free helps nobody here."""
    machine = a_store(start)
    served = an_inventory("w1", 4, 2)
    group = replace(served.groups[0], zone="zone-1")
    machine.hear(RecordJoin(EU, Inventory(served.worker, (group,))))
    set_pool(machine, reserve=2)
    assert RESERVED == tried(machine, "w-1", {4: 1})
    assert RESERVED == tried(machine, "w-1", {0: 8, 1: 8, 2: 8})
    assert GRANTED == tried(machine, "w-1", {0: 8, 1: 8})


def test_promise_takes_from_the_reserve_when_it_is_made(start: Start) -> None:
    """And is granted when its victim has ended, whatever was set meanwhile."""
    machine = a_store(start)
    place(machine, "w-1", {0: 8}, priority=1)
    set_pool(machine, reserve=2)
    over: dict[str, Any] = {"victims": (attempt("w-1"),), "priority": 5}  # Any: parts of a claim
    assert RESERVED == tried(machine, "w-2", {0: 1, 1: 8, 2: 8}, **over)
    promise(machine, "w-2", {0: 1, 1: 8}, (attempt("w-1"),))
    assert RESERVED == tried(machine, "w-3", {2: 1})
    set_pool(machine, reserve=4)
    stop(machine, "w-1", EndCause.PREEMPTED, "w-2")
    assert [ClaimGranted] == [type(fact) for fact in facts(end(machine, "w-1"))[1:]]


@pytest.mark.parametrize("seed", SEEDS)
def test_figures_by_zone_equal_a_count_over_all_nodes(seed: int) -> None:
    """After each fact of any history: joins, losses, closures, promises, claims that are revised."""
    store = PlacementStore(EU)
    state = store.initial(Images(START))
    for fact in RegionHistory(seed).draw(200):
        headroom_of(state)
        state = store.evolve(state, fact)
        assert Headroom(state.image.capacity).zones == headroom_of(state).zones, fact


# The limit.


def test_limit_raised_by_one_percent_admits_the_expected_count(start: Start) -> None:
    """P24: of 400 GPUs, one percent more is four tasks of one GPU, and not a fifth."""
    machine = start_with(start, nodes=50)
    set_pool(machine, limit=900)
    full = dict.fromkeys(range(45), 8)
    assert GRANTED == tried(machine, "w-1", full)
    assert OVER_LIMIT == tried(machine, "w-2", {45: 1})
    set_pool(machine, limit=910)
    for number in range(2, 6):
        assert GRANTED == tried(machine, f"w-{number}", {45: 1})
    assert OVER_LIMIT == tried(machine, "w-6", {45: 1})
    assert OVER_LIMIT == tried(machine, "w-6", {45: 1}, gpus=0.5)
    set_pool(machine, limit=PERMILLE)
    assert GRANTED == tried(machine, "w-6", {46: 8, 47: 8, 48: 8, 49: 8})


def test_work_that_heals_may_go_over_the_limit(start: Start) -> None:
    """What was lost is in use no more and counts no more: who ran there is owed its place."""
    machine = a_store(start)
    place(machine, "w-1", {0: 8, 1: 8})
    set_pool(machine, limit=500)
    assert OVER_LIMIT == tried(machine, "w-2", {2: 1})
    assert GRANTED == tried(machine, "w-2", {2: 1}, is_healing=True)


def test_victims_free_capacity_under_the_limit(start: Start) -> None:
    """Their GPUs will not be in use; a claim that needs no more than those stays under."""
    machine = a_store(start)
    place(machine, "w-1", {0: 8, 1: 8}, priority=1)
    set_pool(machine, limit=500)
    over: dict[str, Any] = {"victims": (attempt("w-1"),), "priority": 5}  # Any: parts of a claim
    assert OVER_LIMIT == tried(machine, "w-2", {0: 8, 1: 8, 2: 1}, **over)
    assert ("promised", "") == tried(machine, "w-2", {0: 8, 1: 8}, **over)


def test_gpus_of_victims_on_closed_nodes_free_no_capacity(start: Start) -> None:
    """They are not counted as in use there, and are not subtracted a second time."""
    machine = a_store(start)
    place(machine, "w-1", {0: 8, 1: 8}, priority=1)
    machine.hear(DrainNodes(EU, Scope(ScopeKind.NODE, ("1",)), "fan", 0))
    set_pool(machine, limit=500)
    over: dict[str, Any] = {"victims": (attempt("w-1"),), "priority": 5}  # Any: parts of a claim
    assert OVER_LIMIT == tried(machine, "w-2", {0: 8, 2: 8}, **over)
    assert ("promised", "") == tried(machine, "w-2", {0: 8, 2: 4}, **over)


def test_nodes_that_join_count(start: Start) -> None:
    """From their first moment, in what is set already."""
    machine = a_store(start)
    set_pool(machine, reserve=4)
    assert RESERVED == tried(machine, "w-1", {0: 1})
    machine.hear(RecordJoin(EU, an_inventory("w1", 4, 1)))
    assert GRANTED == tried(machine, "w-1", {4: 1})
    assert RESERVED == tried(machine, "w-2", {0: 1})


def test_work_without_gpus_is_in_nobodys_way(start: Start) -> None:
    """Reserves and limits are of GPUs."""
    machine = a_store(start)
    set_pool(machine, reserve=4, limit=1)
    assert GRANTED == tried(machine, "w-1", {0: 3}, gpus=0)


def test_answer_names_the_sequence_to_catch_up_to(start: Start) -> None:
    """An agent that has folded so far sees what its claim would break, and looks elsewhere."""
    machine = a_store(start)
    set_pool(machine, reserve=4)
    made = a_claim(award_sequence=award(machine))
    told = said_once(claim(machine, made), ClaimAnswered)
    assert ("conflict", machine.sequence(EU_LOG), ()) == (told.verdict, told.sequence, told.rows)


def start_with(start: Start, nodes: int) -> Machine[Any]:
    """A store with so many nodes of 8 GPUs."""
    machine = a_store(start)
    decision = machine.hear(RecordJoin(EU, an_inventory("w1", 4, nodes - 4)))
    assert [NodesJoined] == [type(event) for event in facts(decision)]
    return machine
