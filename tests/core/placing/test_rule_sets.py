"""Rule sets: what is wrong with one is told, all of it; a rule that raises harms nobody; the page on rules tells the truth."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.nouns.reasons import Reason
from core.placing.pick.nodes import Choice
from core.placing.placer import Found
from core.placing.pool_set import Asker
from core.rules.placement import rule_sets
from core.rules.placement.errors import BadRuleSet, RuleFailed
from core.rules.placement.plan import Plan
from core.rules.placement.rule import (
    ClusterValidator,
    Flags,
    Level,
    NodePreference,
    NodeValidator,
    Numbers,
    Preference,
    Refinement,
    Request,
    Rows,
    Rule,
    UnitPreference,
)
from core.rules.placement.rule_sets import (
    HARD,
    LASTING,
    PASSING,
    PLAIN_RULES,
    RULES,
    plan_of,
    problems_of_setting,
    rule_set,
)
from tests.builders import a_job, a_region, amount
from tests.core.placing.rooms import a_group, hard_and, here, picked, placer_by, request, used
from tests.core.properties import PROPERTY

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "placement-rules.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("names", "problems"),
    [
        (PLAIN_RULES, []),
        ((), []),
        (("best_fit:1",), []),
        (("best_fitt:8",), ["best_fitt: there is no rule of this name; there are avoid_empty, "]),
        (("pool",), ["pool: it is a hard rule, which every set has"]),
        (("best_fit:8", "best_fit:4"), ["best_fit: it is named twice"]),
        (("fragmentation:4",), ["fragmentation: it has no steps"]),
        (("best_fit",), ["best_fit: say its steps, 1 (off) to 65536, as in best_fit:4"]),
        (("best_fit:0", "islands:x", "avoid_empty:²"), ["best_fit: say", "islands: say", "avoid_empty: say"]),
        (("best_fit:9999999999999",), ["best_fit: say"]),
        (
            ("best_fit:65536", "fullest_rack:65536"),
            ["preferences among nodes take 32 bits, and 31 are the most"],
        ),
        (("best_fit:65536", "fullest_rack:32768"), []),
        (
            ("best_fit:65536", "fullest_rack:65536", "x"),
            ["x: there is no", "preferences among nodes take 32"],
        ),
    ],
)
def test_problems_of_a_set(names: tuple[str, ...], problems: list[str]) -> None:
    """All at once, each with the rule; and only a set without any becomes a plan."""
    if problems:
        with pytest.raises(BadRuleSet) as caught:
            plan_of(names)
        assert len(problems) == len(caught.value.problems)
        for beginning, text in zip(problems, caught.value.problems, strict=True):
            assert text.startswith(beginning)
    else:
        assert [*HARD, *(name.partition(":")[0] for name in names)] == [
            rule.name for rule in plan_of(names).rules
        ]


@PROPERTY
@given(st.lists(st.one_of(st.text(max_size=12), st.sampled_from([*RULES, *PLAIN_RULES])), max_size=6))
def test_any_set_is_a_plan_or_has_problems(names: list[str]) -> None:
    """Names that are no set are refused as such, and raise nothing else."""
    with suppress(BadRuleSet):
        plan_of(names)


def test_setting_is_the_same_plan_each_time() -> None:
    """So that what was worked out by it is kept; the name of a set is that set, and nothing is the default."""
    own = "best_fit:8, islands:2,fragmentation"
    assert rule_set(own) is rule_set(own)
    assert ["best_fit", "islands", "fragmentation"] == [
        rule.name for rule in rule_set(own).rules[len(HARD) :]
    ]
    assert rule_set(",".join(PLAIN_RULES)).in_order[0][0] == rule_set("plain").in_order[0][0]
    assert rule_sets.PLAIN is rule_set("plain")
    assert rule_sets.DEFAULT is rule_set("") is rule_set("default") is rule_set("belt:8")


@PROPERTY
@given(st.one_of(st.text(max_size=40), st.lists(st.sampled_from([*RULES, *PLAIN_RULES, " "])).map(",".join)))
def test_any_setting_is_a_plan_or_has_problems(text: str) -> None:
    """Whatever somebody wrote, a pool is searched by something."""
    problems = problems_of_setting(text)
    assert (rule_set(text) is rule_sets.DEFAULT) == (problems is not None or text in ("", "default"))


# Rules that raise.


class Fails(NodePreference):
    """Where a node has five GPUs free."""

    name = "fails"

    def score(self, rows: Rows, request: Request) -> Numbers:
        if np.any(rows.gpu == 5_000):
            raise ZeroDivisionError("five")
        return np.zeros(len(rows.gpu), dtype=np.int32)


class FailsToAllow(NodeValidator):
    """The same, hard."""

    name = "fails"
    reason = Reason.INVALID

    def allows(self, rows: Rows, request: Request) -> Flags:
        if np.any(rows.gpu == 5_000):
            raise ZeroDivisionError("five")
        return np.ones(len(rows.gpu), dtype=bool)

    def allows_at(self, present: object, node: int, request: Request) -> bool:
        return True


class FailsOfRack(UnitPreference):
    """Where a rack has five GPUs free."""

    name = "fails"
    level = Level.RACK

    def score(self, free: Any, total: Any) -> Any:  # Any: one unit, or an array
        if np.any(free == 5_000):
            raise ZeroDivisionError("five")
        return free * 0


class FailsOfFew(Refinement):
    """Among those that are left."""

    name = "fails"

    def cost(self, rows: Rows, request: Request) -> Numbers:
        if np.any(rows.gpu == 5_000):
            raise ZeroDivisionError("five")
        return np.zeros(len(rows.gpu), dtype=np.int32)


@pytest.mark.parametrize(
    "rule", [Fails(2), FailsToAllow(), FailsOfRack(2), FailsOfFew()], ids=lambda rule: type(rule).__name__
)
def test_rule_that_raises(rule: Rule) -> None:
    """The search is refused with a reason, nothing is taken, and what was worked out before is not taken for the present."""
    pool_plan = hard_and(rule)
    capacity = a_region(here(a_group(0, 3)), used(0, 1), used(1, 8)).capacity
    placer = placer_by(pool_plan, capacity)
    (pool,) = placer.pools.by_name.values()
    jobs = (a_job(1, 2), a_job(1, 4, name="more"))
    assert isinstance(placer.find(jobs, Asker(), Choice("w-1")), Found)
    before = pool.table.gpu.tolist()
    slot = pool.layout.slot(0)
    pool.table.set(slot, 5_000, 9_000, 9, is_open=True)
    for _ in range(2):
        assert Reason.RULE_FAILED == placer.find(jobs, Asker(), Choice("w-1"))
        assert Reason.RULE_FAILED == placer.find((a_job(1, 3),), Asker(), Choice("w-1"))
    assert 5_000 == pool.table.gpu[slot]
    pool.table.set(slot, 7_000, 64_000, 512 << 30, is_open=True)
    assert before == pool.table.gpu.tolist()
    assert pool._bytes == sum(one.nbytes for one in pool._classes.values())
    assert isinstance(placer.find(jobs, Asker(), Choice("w-1")), Found)
    fresh = placer_by(pool_plan, capacity).pools.by_name["training"].class_of(request())
    assert fresh.key.tolist() == pool.class_of(request()).key.tolist()


def test_rule_on_clusters_that_raises() -> None:
    """It is not asked again and again by a search that goes on."""

    class FailsOnCluster(ClusterValidator):
        name = "fails"
        reason = Reason.INVALID

        def admits(self, cluster: object, request: Request) -> bool:
            raise KeyError("zone")

    capacity = a_region(here(a_group(0))).capacity
    assert Reason.RULE_FAILED == placer_by(hard_and(FailsOnCluster()), capacity).find(
        (a_job(),), Asker(), Choice("w-1")
    )


def test_failure_names_the_rule() -> None:
    """So that somebody can mend it."""
    rows: Any = type("Rows", (), {"gpu": np.asarray([5_000])})
    with pytest.raises(RuleFailed, match=r"fails: ZeroDivisionError\('five'\)") as caught:
        Fails(2).score(rows, request())
    assert "fails" == caught.value.rule


# The page.


def test_page_names_every_rule() -> None:
    """In its tables, in the order of the sets and with their steps, and hard ones with their reasons."""
    hard = re.findall(r"^\| `([a-z_]+)` \|[^|]*\|[^|]*\| `([a-z_]+)` \|$", PAGE, re.MULTILINE)
    known: list[ClusterValidator | NodeValidator] = [*LASTING, *PASSING]
    assert [(rule.name, str(rule.reason)) for rule in known] == hard
    soft = re.findall(r"^\| `([a-z_]+)` \|[^|]*\|[^|]*\| ?([0-9]*) \| ([0-9]+|last) \|$", PAGE, re.MULTILINE)
    plain = [f"{name}:{steps}" for name, steps, _ in soft if steps]
    default = [name if steps == "last" else f"{name}:{steps}" for name, _, steps in soft]
    assert (PLAIN_RULES, rule_sets.DEFAULT_RULES) == (tuple(plain), tuple(default))


def test_rule_of_the_page_is_one_file_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: its example, as it stands, is a rule that decides."""
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    namespace: dict[str, Any] = {"__name__": "memory_left"}
    exec(compile(source, "memory_left.py", "exec"), namespace)  # noqa: S102 (it is our own page)
    monkeypatch.setitem(rule_sets.RULES, "memory_left", namespace["MemoryLeft"])
    plan: Plan = plan_of(("memory_left:8", "best_fit:8"))
    groups = [a_group(number, total=amount(8, 64, 128 * (number + 1))) for number in range(3)]
    assert {2} == picked(plan, [here(*groups), used(0, 6)], request())
    assert {0} == picked(plan_of(("best_fit:8",)), [here(*groups), used(0, 6)], request())
    assert any(isinstance(rule, Preference) and rule.name == "memory_left" for rule in plan.rules)
