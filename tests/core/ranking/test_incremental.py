"""The order that is kept from event to event, against the full scan after every step."""

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.ranking import CreditSettings
from core.ranking.incremental import Line, RankedQueue
from core.ranking.scan import NO_PATIENCE, Group, PendingWork, QuotaClass, Ranked, TenantState, ranked
from tests.core.properties import PROPERTY

TYPES = ("A100", "H100")
TENANTS = tuple(TenantName(name) for name in "abcd")
STRANGER = TenantName("stranger")
SETTINGS = CreditSettings(age_weight=3, age_cap=Nanoseconds(40), share_weight=50, lag_weight=4)
NO_AGE = CreditSettings(age_weight=0, age_cap=Nanoseconds(40), share_weight=50)
NO_LAG = CreditSettings(age_weight=3, age_cap=Nanoseconds(40), share_weight=50, lag_weight=0)
PATIENCE = Nanoseconds(20)


class Both:
    """The order that is kept, and what a full scan needs."""

    def __init__(
        self,
        credit: CreditSettings = SETTINGS,
        block_max: int = 4,
        *,
        walks_by_level: bool = True,
        patience: Nanoseconds = PATIENCE,
    ) -> None:
        self.credit = credit
        self.now = Instant(100)
        self.walks_by_level, self.patience = walks_by_level, patience
        self.queue = RankedQueue(
            credit, self.now, block_max, walks_by_level=walks_by_level, patience=patience
        )
        self.pending: dict[WorkloadId, PendingWork] = {}
        self.tenants: dict[TenantName, TenantState] = {}
        self.number = 0

    def add(
        self, tenant: TenantName, age: int, level: int | None, *needs: dict[str, int], may_borrow: bool = True
    ) -> None:
        self.number += 1
        name = WorkloadId(f"w-{self.number}")
        shape = f"{sorted(needs[0])}"
        work = PendingWork(
            name,
            tenant,
            self.number,
            Instant(self.now - age),
            needs,
            level,
            may_borrow,
            bool(needs[0]),
            shape,
        )
        self.pending[name] = work
        self.queue.add(work)

    def drop(self, index: int) -> None:
        if self.pending:
            name = list(self.pending)[index % len(self.pending)]
            del self.pending[name]
            self.queue.drop(name)

    def swap(self, index: int, level: int | None, need: dict[str, int]) -> None:
        if self.pending:
            name = list(self.pending)[index % len(self.pending)]
            changed = replace(self.pending[name], level=level, needs=(need,), shape=f"{sorted(need)}")
            self.pending[name] = changed
            self.queue.swap(changed)

    def hurry(self, index: int, age: int) -> None:
        """One counts as having waited so long, if that is longer than it did; or as long as it did."""
        if self.pending:
            name = list(self.pending)[index % len(self.pending)]
            was = self.pending[name]
            changed = replace(was, since=min(was.submitted_at, Instant(self.now - age)))
            self.pending[name] = changed
            self.queue.swap(changed)

    def set_tenant(self, name: TenantName, state: TenantState) -> None:
        self.tenants[name] = state
        self.queue.set_tenant(name, state)

    def advance(self, span: int) -> None:
        self.now = Instant(self.now + span)
        self.queue.advance(self.now)

    def scanned(self) -> list[Ranked]:
        """The whole order; and what is kept of quotas is the same."""
        found, kept = ranked(
            self.pending.values(),
            self.tenants,
            self.credit,
            self.now,
            walks_by_level=self.walks_by_level,
            patience=self.patience,
        )
        assert {name: one for name, one in kept.items() if one} == {
            name: one for name in (*TENANTS, STRANGER) if (one := self.queue.kept(name))
        }
        return found

    def drop_tenant(self, name: TenantName) -> None:
        self.tenants.pop(name, None)
        self.queue.drop_tenant(name)


amounts = st.dictionaries(st.sampled_from(TYPES), st.integers(0, 12))
needs = st.dictionaries(st.sampled_from(TYPES), st.integers(1, 6))
states = st.builds(
    TenantState,
    level=st.integers(0, 6),
    entitled=amounts,
    borrowed_max=st.none() | amounts,
    held=amounts,
    within=st.dictionaries(st.integers(0, 6), amounts, max_size=2),
    lasting=st.dictionaries(st.integers(0, 6), amounts, max_size=1),
    use=st.integers(0, 500),
    weight=st.integers(1, 5),
    lag=st.integers(-20, 20),
    is_spent=st.booleans(),
)


class KeptOrder(RuleBasedStateMachine):
    """Submissions, ends, changes of tenants, time."""

    def __init__(self) -> None:
        super().__init__()
        self.both = Both()

    @initialize(patience=st.sampled_from((NO_PATIENCE, PATIENCE)))
    def begin(self, patience: Nanoseconds) -> None:
        """Whether anybody ever keeps anything."""
        self.both = Both(patience=patience)

    @rule(
        tenant=st.sampled_from((*TENANTS, STRANGER)),
        age=st.integers(-3, 60),
        any_of=st.lists(needs, min_size=1, max_size=2),
        level=st.none() | st.integers(0, 6),
        may_borrow=st.booleans(),
    )
    def submit(
        self,
        tenant: TenantName,
        age: int,
        any_of: list[dict[str, int]],
        level: int | None,
        may_borrow: bool,
    ) -> None:
        """One more; it may have waited before, when it comes back."""
        self.both.add(tenant, age, level, *any_of, may_borrow=may_borrow)

    @rule(index=st.integers(0, 50))
    def end(self, index: int) -> None:
        """One fewer."""
        self.both.drop(index)

    @rule(index=st.integers(0, 50), level=st.none() | st.integers(0, 6), need=needs)
    def swap(self, index: int, level: int | None, need: dict[str, int]) -> None:
        """One asks for something else, at another level or at the same."""
        self.both.swap(index, level, need)

    @rule(index=st.integers(0, 50), age=st.integers(0, 60))
    def hurry(self, index: int, age: int) -> None:
        """One has a deadline, or has none any more."""
        self.both.hurry(index, age)

    @rule(name=st.sampled_from(TENANTS), state=states)
    def change(self, name: TenantName, state: TenantState) -> None:
        """A tenant's entitlement, level, holdings and use."""
        self.both.set_tenant(name, state)

    @rule(name=st.sampled_from(TENANTS))
    def forget(self, name: TenantName) -> None:
        """Nothing is stated of a tenant any more."""
        self.both.drop_tenant(name)

    @rule(span=st.integers(0, 30))
    def wait(self, span: int) -> None:
        """Time passes."""
        self.both.advance(span)

    @invariant()
    def equals_the_scan(self) -> None:
        """All of it, the first few alone and of one shape, the place of each and who is just ahead of it."""
        expected, queue = self.both.scanned(), self.both.queue
        assert expected == list(queue.ranked())
        assert expected[:3] == queue.first(3)
        shape = "['A100']"
        alike = [one for one in expected if one.work.shape == shape and one.work.number % 2]
        assert alike[:2] == queue.first(
            2, lambda group, example: group[1] == shape == example.shape, lambda one: one.work.number % 2 == 1
        )
        done: set[Group] = set()

        def is_first(one: Ranked) -> bool:
            assert one.group not in done
            done.add(one.group)
            return True

        firsts = {one.group: one for one in reversed(expected)}
        of_each = [one for one in expected if one is firsts[one.group]]
        assert of_each == queue.first(len(expected), is_free=is_first, done=done)
        lines: set[Line] = set()

        def is_first_of_its_line(one: Ranked) -> bool:
            line = one.group, one.work.tenant
            assert line not in lines
            lines.add(line)
            return True

        in_line = {(one.group, one.work.tenant): one for one in reversed(expected)}
        of_each_line = [one for one in expected if one is in_line[one.group, one.work.tenant]]
        assert of_each_line == queue.first(len(expected), is_free=is_first_of_its_line, done=lines)
        for place, one in enumerate(expected):
            name = one.work.workload
            assert (place, one) == (queue.rank(name), queue.one(name))
            assert expected[max(0, place - 3) : place] == queue.ahead_of(name, 3)


TestKeptOrder = KeptOrder.TestCase
TestKeptOrder.settings = settings(PROPERTY, max_examples=40, stateful_step_count=25)


def one_step(both: Both, dice: random.Random, crowd: int) -> None:
    """A random event, as often an end as a submission once there are so many."""
    kind = dice.choice(("add", "add", "drop", "held", "use", "quota", "lasts", "wait", "hurry"))
    name = dice.choice(TENANTS)
    state = both.tenants.get(name, TenantState())
    if kind == "add" and len(both.pending) < crowd:
        need = {one: dice.choice((1, 1, 2, 4, 8)) for one in dice.sample(TYPES, dice.choice((1, 1, 1, 2)))}
        level = dice.choice((None, None, 0, 2, 4, 6))
        tenant = dice.choice((*TENANTS, TENANTS[0], STRANGER))
        both.add(tenant, dice.choice((0, 0, 0, 20, 60)), level, need, may_borrow=dice.random() < 0.8)
    elif kind in ("add", "drop"):
        both.drop(dice.randrange(crowd))
    elif kind == "wait":
        both.advance(dice.randrange(6))
    elif kind == "hurry":
        both.hurry(dice.randrange(crowd), dice.choice((0, 20, 60)))
    else:
        amount = {one: dice.randrange(30) for one in TYPES}
        limit = dice.choice((None, {}, {"H100": dice.randrange(10)}))
        changed = {
            "held": replace(state, held=amount, within={dice.randrange(7): amount}),
            "use": replace(state, use=dice.randrange(200), weight=dice.randrange(1, 4)),
            "quota": replace(state, level=dice.randrange(7), entitled=amount, borrowed_max=limit),
            "lasts": replace(state, lasting={dice.randrange(7): {"H100": dice.randrange(20)}}),
        }[kind]
        both.set_tenant(name, changed)


@pytest.mark.parametrize("walks_by_level", [True, False])
def test_ten_thousand_steps_equal_the_scan(walks_by_level: bool) -> None:
    """M9, M10: after each the order, levels, standings and credits are those of a full scan, and all sorts came up."""
    both, dice = Both(walks_by_level=walks_by_level), random.Random(8)
    seen: set[tuple[QuotaClass, bool]] = set()
    kept = 0
    for _ in range(5_000):
        one_step(both, dice, crowd=20)
        expected = both.scanned()
        assert expected == list(both.queue.ranked())
        seen.update((one.quota_class, one.level > 0) for one in expected)
        kept += any(both.queue.kept(name) for name in TENANTS)
    assert {(quota_class, False) for quota_class in QuotaClass} | {(QuotaClass.NOMINAL, True)} == seen
    assert kept > 500


@pytest.mark.parametrize("credit", [CreditSettings(), NO_AGE, NO_LAG])
def test_large_blocks_and_other_settings_equal_the_scan(credit: CreditSettings) -> None:
    """Blocks as they are used, and waiting that has no weight."""
    both, dice = Both(credit, 128), random.Random(9)
    for step in range(4_500):
        one_step(both, dice, crowd=600)
        if step % 100 == 0:
            assert both.scanned() == list(both.queue.ranked())
    lanes = both.queue._lanes.values()
    assert 1 < max(len(floor.blocks) for lane in lanes for floor in lane.floors.values())


def test_a_start_looks_into_one_block() -> None:
    """What a tenant's next workload wanted it now holds: nobody behind it stands otherwise, and nobody is walked through."""
    both = Both()
    both.set_tenant(TENANTS[0], TenantState(level=3, entitled={"H100": 50}))
    for _ in range(100):
        both.add(TENANTS[0], 0, None, {"H100": 1})
    assert both.scanned() == list(both.queue.ranked())
    floor = both.queue._lanes[TENANTS[0]].floors[3]
    before = [block.bands for block in floor.blocks]
    both.drop(0)
    held = {"H100": 1}
    both.set_tenant(TENANTS[0], TenantState(level=3, entitled={"H100": 50}, held=held, within={3: held}))
    assert both.scanned() == list(both.queue.ranked())
    walked = [block.bands is not was for block, was in zip(floor.blocks, before, strict=True)]
    assert [True] == walked[:1]
    assert 1 == sum(walked)
    assert len(walked) > 20


def test_waiting_workload_is_in_the_queue() -> None:
    """Once added it is in; dropped once or twice it is not."""
    both = Both()
    both.add(TENANTS[0], 0, None, {})
    name = next(iter(both.pending))
    assert name in both.queue
    assert 1 == len(both.queue)
    both.drop(0)
    both.queue.drop(name)
    assert name not in both.queue
    assert [] == both.queue.first(1)
