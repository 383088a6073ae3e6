"""What must always hold: each check finds exactly what was broken on purpose, and is silent when nothing is."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from core.events.prices import PricesSet
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    RegionAdded,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadHeld,
    WorkloadReleased,
)
from core.events.region import (
    AttemptEnded,
    AttemptsForgotten,
    AwardDeclined,
    ClaimGranted,
    GangStarted,
    NodesLost,
    StopOrdered,
)
from core.fact import Event
from core.images import GlobalImage, RegionImage
from core.images.capacity import Capacity
from core.invariants.consistency import (
    check_global_fact,
    check_grant,
    check_ledger,
    check_nodes_balance,
    check_one_live,
    check_region_fact,
    check_workloads,
    citation_of,
)
from core.invariants.control import check_control
from core.nouns.ids import GLOBAL_LOG, RegionName, TenantName, WorkerName, WorkloadId
from core.nouns.placement import Claim
from core.nouns.prices import Prices
from core.nouns.reasons import Reason
from core.nouns.solved_from import SolvedFrom
from core.nouns.workload import EndCause, Kind, Phase
from core.touched import touched_by
from tests.builders import (
    EU,
    EU_LOG,
    US,
    a_claim,
    a_fact,
    a_job,
    a_queue,
    a_region,
    a_spread,
    attempt,
    granted,
    joined,
    promised,
    submitted,
)
from tests.core.histories import QueueHistory, RegionHistory
from tests.core.properties import SEEDS

W1 = WorkloadId("w-1")
HELD = granted(a_claim("w-1", placed={0: 3, 1: 1}))


@pytest.mark.parametrize("seed", SEEDS)
def test_checks_are_silent_on_a_valid_region(seed: int) -> None:
    """Promises, losses, operations and all: nothing that a region may do is called a violation."""
    image = RegionImage.empty()
    for fact in RegionHistory(seed).draw(200):
        assert [] == check_region_fact(EU, fact, image, None), fact.event
        touched = touched_by(image.capacity, fact)
        image.fold(fact)
        assert [] == check_nodes_balance(image.capacity, touched), fact.event
        assert [] == check_control(image), fact.event
    assert [] == check_ledger(image.capacity)


@pytest.mark.parametrize("seed", SEEDS)
def test_checks_are_silent_on_a_valid_queue(seed: int) -> None:
    """Whatever becomes of workloads, as long as their lives are told in order."""
    image = GlobalImage.empty()
    for fact in QueueHistory(seed).draw(200):
        assert [] == check_global_fact(fact, image, {}), fact.event
        image.fold(fact)
        assert [] == check_workloads(image), fact.event


# Rule 1: the ledger.


def test_balance_when_a_part_is_negative_or_missing() -> None:
    """Each resource of each node is named with its parts."""
    capacity = a_region(joined(), HELD).capacity
    capacity.gpu.free[0] -= 1_000
    capacity.memory.free[3] = -1
    found = check_nodes_balance(capacity, range(4))
    assert ["node 0: gpu free 4000 + held 3000 + ending 0 is not 8000"] == found[:1]
    assert ["node 3: memory"] == [text[:14] for text in found[1:]]
    assert [] == check_nodes_balance(capacity, [1, 2])


def test_balance_when_a_lost_node_has_something() -> None:
    """All that it has is lost."""
    capacity = a_region(joined(), NodesLost(WorkerName("w0"), (0, 1, 2, 3))).capacity
    assert [] == check_nodes_balance(capacity, range(4))
    capacity.cpu.free[2] = 1
    assert ["node 2: cpu free 1 + held 0 + ending 0 is not 0"] == check_nodes_balance(capacity, range(4))


def test_balance_when_one_milli_is_held_twice() -> None:
    """What two hold and one has is less than nothing free."""
    twice = granted(a_claim("w-2", placed={0: 6}))
    found = check_nodes_balance(a_region(joined(), HELD, twice).capacity, [0, 1])
    assert ["node 0: gpu free -1000 + held 9000 + ending 0 is not 8000"] == found


def break_held(capacity: Capacity) -> None:
    """A node has less held than attempts hold there, though its parts still sum up."""
    capacity.gpu.held[1] -= 1_000
    capacity.gpu.free[1] += 1_000


def break_ending(capacity: Capacity) -> None:
    """Something is ending that nobody stopped."""
    capacity.gpu.held[0] -= 1_000
    capacity.gpu.ending[0] += 1_000


@pytest.mark.parametrize(("broken", "node"), [(break_held, 1), (break_ending, 0)])
def test_ledger_with_columns_that_differ_from_the_attempts(
    broken: Callable[[Capacity], None], node: int
) -> None:
    """The columns are worked out again from the attempts' capacity."""
    capacity = a_region(joined(), HELD).capacity
    assert [] == check_ledger(capacity)
    broken(capacity)
    assert [f"node {node}: gpu held or ending is not what attempts hold there"] == check_ledger(capacity)


# Rule 2: grants.


def grant(claim: Claim, *history: Event) -> list[str]:
    """What a grant breaks after this."""
    return [text for _, text in check_grant(claim, a_region(*(history or (joined(),))))]


def test_grant_that_breaks_nothing() -> None:
    """Whole, on open nodes of its type, with room."""
    assert [] == grant(a_claim("w-9", placed={0: 5, 2: 8}), joined(), HELD)


def test_grant_of_half_a_gang() -> None:
    """A gang is placed whole or not at all."""
    half = a_claim("w-9", jobs=(a_job(3),), spreads=(a_spread({0: 2}),))
    assert ["w-9.1: not a whole gang"] == grant(half)


def test_gang_that_is_granted_in_part() -> None:
    """Only an incremental service without victims may be."""
    part = replace(a_claim("w-1", placed={0: 2}), kind=Kind.SERVICE, is_incremental=True)
    for claim in (part, replace(part, is_incremental=False), replace(part, kind=Kind.TRAINING)):
        fact = a_fact(replace(granted(claim), unplaced=(1,)), 2)
        text = "w-1.1: granted in part, and it is a gang"
        wanted = [] if claim == part else [(2, text)]
        assert wanted == check_region_fact(EU, fact, a_region(joined()), None)


def test_grant_on_nodes_that_cannot_hold_it() -> None:
    """Every hard rule is kept at the moment of the grant."""
    other = (joined(), joined("w1", 4, 1, gpu_type="A100"))
    assert ["w-9.1: granted against unknown_node"] == grant(a_claim("w-9", placed={4: 1}))
    assert ["w-9.1: granted against wrong_gpu_type"] == grant(a_claim("w-9", placed={4: 1}), *other)
    either = replace(a_job(2), or_types=("A100",))
    mixed = a_claim("w-9", jobs=(either,), spreads=(a_spread({0: 1, 4: 1}),))
    assert ["w-9.1: granted against types_mixed"] == grant(mixed, *other)


def test_grant_on_a_lost_node() -> None:
    """It is not open."""
    lost = (joined(), joined("w1", 4, 1), NodesLost(WorkerName("w1"), (4,)))
    assert ["w-9.1: granted on node 4, which is not open"] == grant(
        a_claim("w-9", placed={0: 1, 4: 1}), *lost
    )


def test_grant_without_capacity() -> None:
    """Neither over capacity that others hold nor over capacity promised to others; over its own promise it may."""
    assert ["w-9.1: granted without room on node 0"] == grant(
        a_claim("w-9", placed={0: 6, 1: 7}), joined(), HELD
    )
    waiting = a_claim("w-8", placed={0: 8}, priority=5, victims=(attempt("w-1"),))
    history = [joined(), HELD, promised(waiting)]
    assert ["w-9.1: granted without room on node 0"] == grant(a_claim("w-9", placed={0: 1}), *history)
    assert [] == grant(waiting, *history, AttemptEnded(*attempt("w-1"), EndCause.PREEMPTED))
    assert ["w-8.1: granted without room on node 0"] == grant(waiting, *history)


def alone_on(node: int, workload: str, tenant: str, *, is_alone: bool = True) -> Claim:
    """One GPU there, on a node that is shared with no other tenant."""
    claim = a_claim(workload, jobs=(replace(a_job(1, 1), is_alone=is_alone),), spreads=(a_spread({node: 1}),))
    return replace(claim, tenant=TenantName(tenant))


def test_grant_beside_a_workload_that_shares_no_node() -> None:
    """Of two tenants on one node, neither is alone there; one tenant's own work is no other's."""
    together = alone_on(0, "w-8", "ml", is_alone=False)
    against = ["w-9.1: granted on node 0 against tenants_apart"]
    assert against == grant(alone_on(0, "w-9", "me"), joined(), granted(together))
    assert [] == grant(alone_on(1, "w-9", "me"), joined(), granted(together))
    kept = alone_on(0, "w-8", "ml")
    for there in (granted(kept), promised(kept)):
        assert against == grant(alone_on(0, "w-9", "me", is_alone=False), joined(), there)
        assert [] == grant(alone_on(0, "w-9", "ml"), joined(), there)
        assert [] == grant(alone_on(1, "w-9", "me", is_alone=False), joined(), there)
    assert [] == grant(kept, joined(), promised(kept))


# Rule 3: one life.


def standing(epoch: int = 1, region: RegionName = EU) -> WorkloadAwarded:
    """Its award."""
    return WorkloadAwarded(W1, epoch, region, 0, ())


def told(event: Event, *history: Event, regions: dict[RegionName, RegionImage] | None = None) -> list[str]:
    """What a fact of the queue breaks after these."""
    before = a_queue(RegionAdded(EU), RegionAdded(US), submitted(1), *history)
    return check_global_fact(a_fact(event, 9, log=GLOBAL_LOG), before, regions or {})


CLOSED = AttemptClosed(W1, 1, EndCause.PREEMPTED, Phase.PENDING, EU, 7)
COMPLETED = AttemptClosed(W1, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 7)


def test_queue_fact_that_breaks_nothing() -> None:
    """An award, what becomes of it, and the next."""
    assert [] == told(standing())
    assert [] == told(WorkloadBound(W1, 1, EU, 7), standing())
    assert [] == told(AwardReturned(W1, 1, "", EU, 7), standing())
    assert [] == told(COMPLETED, standing())
    assert [] == told(standing(2), standing(), CLOSED)
    assert [] == told(submitted(2))
    assert [] == told(WorkloadCancelled(W1))


def test_epoch_that_does_not_grow_by_one() -> None:
    """Epochs only grow, and none is left out."""
    assert ["w-1: epoch 1 after 1"] == told(standing(1), standing(), CLOSED)
    assert ["w-1: epoch 3 after 1"] == told(standing(3), standing(), CLOSED)


def test_award_while_another_stands() -> None:
    """Two regions might start it."""
    assert ["w-1: awarded while epoch 1 stands in eu"] == told(standing(2, US), standing())


@pytest.mark.parametrize("kind", [WorkloadBound, AwardReturned, AttemptClosed])
def test_word_about_an_award_that_does_not_stand(kind: type[Event]) -> None:
    """Of another epoch, or of none."""
    words: dict[type[Event], Event] = {
        WorkloadBound: WorkloadBound(W1, 2, EU, 7),
        AwardReturned: AwardReturned(W1, 2, "", EU, 7),
        AttemptClosed: AttemptClosed(W1, 2, EndCause.PREEMPTED, Phase.PENDING, EU, 7),
    }
    assert [f"w-1: {kind.__name__} of epoch 2, standing is 1"] == told(words[kind], standing())
    assert [f"w-1: {kind.__name__} of epoch 2, standing is 1"] == told(words[kind], standing(), CLOSED)


def test_fact_about_an_ended_workload() -> None:
    """Terminal is absorbing."""
    assert ["w-1: WorkloadAwarded after COMPLETED"] == told(standing(2), standing(), COMPLETED)
    assert ["w-1: WorkloadHeld after CANCELLED"] == told(WorkloadHeld(W1, 1), WorkloadCancelled(W1))


@pytest.mark.parametrize(
    "history", [[HELD], [HELD, GangStarted(*attempt("w-1"))]], ids=["granted", "started"]
)
def test_workload_ends_while_a_region_runs_it(history: list[Event]) -> None:
    """An end leaves nothing behind, in any region."""
    ended = [HELD, GangStarted(*attempt("w-1")), AttemptEnded(*attempt("w-1"), EndCause.COMPLETED)]
    regions = {EU: a_region(joined(), *ended), US: a_region(joined(), *history)}
    phase = "granted" if len(history) == 1 else "started"
    wanted = [f"w-1: ended, and us still has attempt 1 {phase}"]
    assert wanted == told(COMPLETED, standing(), regions=regions)
    assert wanted == told(WorkloadCancelled(W1), regions=regions)
    regions[EU] = a_region(joined(), HELD, AttemptEnded(*attempt("w-1"), EndCause.PREEMPTED))
    assert [] == told(CLOSED, standing(), regions=regions), "it has not ended: it is pending"


DECLINED = AwardDeclined(*attempt("w-1"), Reason.WITHDRAWN, 4)
STARTED = GangStarted(*attempt("w-1"))
ENDED = AttemptEnded(*attempt("w-1"), EndCause.PREEMPTED)


@pytest.mark.parametrize(
    ("word", "history", "shown"),
    [
        (WorkloadBound(W1, 1, EU, 7), [HELD], "granted"),
        (WorkloadBound(W1, 1, EU, 7), [DECLINED], "declined"),
        (AwardReturned(W1, 1, "", EU, 7), [], "nowhere"),
        (AwardReturned(W1, 1, "", EU, 7), [HELD], "granted"),
        (CLOSED, [], "nowhere"),
        (CLOSED, [HELD, STARTED], "started"),
        (
            CLOSED,
            [granted(a_claim("w-1", 2)), AttemptEnded(*attempt("w-1", 2), EndCause.PREEMPTED)],
            "nowhere",
        ),
    ],
)
def test_word_about_an_attempt_of_which_its_region_shows_another(
    word: Event, history: list[Event], shown: str
) -> None:
    """What the queue records of an attempt is what the region's log says of that one, and of none before it."""
    text = f"w-1: {type(word).__name__} of epoch 1, and eu shows it {shown}"
    assert [text] == told(word, standing(), regions={EU: a_region(joined(), *history)})


@pytest.mark.parametrize(
    ("word", "history"),
    [
        (WorkloadBound(W1, 1, EU, 7), [HELD, STARTED]),
        (WorkloadBound(W1, 1, EU, 7), [HELD, STARTED, ENDED]),
        (AwardReturned(W1, 1, "", EU, 7), [DECLINED]),
        (CLOSED, [HELD, ENDED]),
    ],
)
def test_word_about_an_attempt_as_its_region_shows_it(word: Event, history: list[Event]) -> None:
    """Also when the region has come further meanwhile."""
    assert [] == told(word, standing(), regions={EU: a_region(joined(), *history)})


def test_hold_under_a_revision_that_does_not_follow() -> None:
    """A word that came late undoes no newer one: revisions grow by one, whichever way they set it."""
    held, released = WorkloadHeld(W1, 1), WorkloadReleased(W1, 2)
    assert [] == told(held)
    assert [] == told(released, held)
    assert ["w-1: hold revision 1 after 2"] == told(held, held, released)
    assert ["w-1: hold revision 2 after 0"] == told(released)


def test_two_live_attempts_of_one_workload() -> None:
    """In two regions or in one; a promise and an end are not live."""
    second = granted(a_claim("w-1", 2, placed={2: 1}))
    there, there_too = a_region(joined(), HELD), a_region(joined(), second)
    assert ["w-1: live attempts eu:1, us:2"] == check_one_live(W1, {US: there_too, EU: there})
    assert ["w-1: live attempts eu:1, eu:2"] == check_one_live(W1, {EU: a_region(joined(), HELD, second)})
    ended = a_region(joined(), HELD, AttemptEnded(*attempt("w-1"), EndCause.PREEMPTED))
    waiting = a_region(joined(), promised(a_claim("w-1", 3)))
    assert [] == check_one_live(W1, {EU: ended, US: there_too, RegionName("ap"): waiting})


def image_with(change: Callable[[GlobalImage], None]) -> GlobalImage:
    """A running workload, of which something was changed by hand."""
    image = a_queue(RegionAdded(EU), submitted(1), standing(), WorkloadBound(W1, 1, EU, 7))
    change(image)
    return image


def test_workloads_when_phase_and_award_disagree() -> None:
    """Each workload is pending, awarded, running or ended, and its award stands exactly when it should."""

    def fall(image: GlobalImage) -> None:
        image.awards.rows[W1].is_active = False

    def pend(image: GlobalImage) -> None:
        image.workloads.rows[W1].phase = Phase.PENDING

    def jump(image: GlobalImage) -> None:
        image.awards.rows[W1].epoch = 2

    def vanish(image: GlobalImage) -> None:
        image.workloads.rows[W1].region = RegionName("")

    assert [] == check_workloads(image_with(lambda image: None))
    assert ["w-1: RUNNING, and its award does not stand"] == check_workloads(image_with(fall))
    assert ["w-1: PENDING, and its award stands"] == check_workloads(image_with(pend))
    assert ["w-1: epoch 1, and its newest award has 2"] == check_workloads(image_with(jump))
    assert ["w-1: runs nowhere"] == check_workloads(image_with(vanish))


# Rules at a region's fact.


def happened(
    event: Event, *history: Event, queue: GlobalImage | None = None, region: RegionName = EU
) -> list[str]:
    """What a fact of a region breaks after these."""
    found = check_region_fact(region, a_fact(event, 9, log=EU_LOG), a_region(joined(), *history), queue)
    return [text for _, text in found]


AWARDED = a_queue(RegionAdded(EU), submitted(1), standing())
CLAIM = a_claim("w-1", award_sequence=3)


def test_grant_under_a_standing_award() -> None:
    """Its region, its epoch: nothing is broken. Without the queue's image nobody knows, and nothing is said."""
    assert [] == happened(granted(CLAIM), queue=AWARDED)
    assert [] == happened(granted(CLAIM))


def test_grant_without_a_standing_award() -> None:
    """Another region's, another epoch's, or none."""
    assert ["w-1.1: granted in us without a standing award"] == happened(
        granted(CLAIM), queue=AWARDED, region=US
    )
    second = granted(a_claim("w-1", 2))
    assert ["w-1.2: granted in eu without a standing award"] == happened(second, queue=AWARDED)
    over = a_queue(RegionAdded(EU), submitted(1), standing(), CLOSED)
    assert ["w-1.1: granted in eu without a standing award"] == happened(granted(CLAIM), queue=over)


def test_grant_of_an_attempt_that_is_known() -> None:
    """Once for each epoch, unless it was promised."""
    ended = [granted(CLAIM), AttemptEnded(*attempt(), EndCause.PREEMPTED)]
    assert ["w-1.1: granted again after ended"] == happened(granted(CLAIM), *ended)
    declined = AwardDeclined(*attempt(), "withdrawn", 3)
    assert ["w-1.1: granted again after declined"] == happened(granted(CLAIM), declined)
    assert ["w-1.1: granted again after granted"] == happened(granted(CLAIM), granted(CLAIM))
    assert [] == happened(ClaimGranted(*attempt(), CLAIM, is_merged=True), promised(CLAIM))


PREEMPTED = StopOrdered(*attempt("w-1"), EndCause.PREEMPTED, WorkloadId("w-2"))


def pushing(priority: int) -> Event:
    """Its promise over `w-1`, which has priority 3."""
    return promised(a_claim("w-2", placed={0: 8}, priority=priority, victims=(attempt("w-1"),)))


def test_preemption_by_a_promise_of_higher_priority() -> None:
    """As it should be; and other stops need no promise."""
    assert [] == happened(PREEMPTED, HELD, pushing(4))
    assert [] == happened(StopOrdered(*attempt("w-1"), EndCause.CANCELLED), HELD)


def test_preemption_by_equal_or_lower_priority() -> None:
    """Nobody is."""
    assert ["w-1.1: preempted by equal or lower priority 3"] == happened(PREEMPTED, HELD, pushing(3))


def test_preemption_of_interactive_work() -> None:
    """Never by choice, whatever preempts it."""
    held = granted(a_claim("w-1", placed={0: 8}, kind=Kind.INTERACTIVE))
    assert ["w-1.1: preempted, and it is interactive"] == happened(PREEMPTED, held, pushing(4))


def test_preemption_without_a_promise() -> None:
    """Without a promise over the victim its work is destroyed for nothing."""
    assert ["w-1.1: preempted for w-2, which has no promise over it"] == happened(PREEMPTED, HELD)
    elsewhere = promised(a_claim("w-2", placed={2: 8}, priority=4))
    assert ["w-1.1: preempted for w-2, which has no promise over it"] == happened(PREEMPTED, HELD, elsewhere)
    nobody = StopOrdered(*attempt("w-1"), EndCause.PREEMPTED)
    assert ["w-1.1: preempted for nobody, which has no promise over it"] == happened(nobody, HELD, pushing(4))


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        (WorkloadBound(W1, 1, EU, 7), (EU_LOG, 7)),
        (AwardReturned(W1, 1, "", EU, 7), (EU_LOG, 7)),
        (CLOSED, (EU_LOG, 7)),
        (granted(CLAIM), (GLOBAL_LOG, 3)),
        (promised(CLAIM), (GLOBAL_LOG, 3)),
        (AwardDeclined(*attempt(), "", 3), (GLOBAL_LOG, 3)),
        (AttemptsForgotten((attempt(),), 5), (GLOBAL_LOG, 5)),
        (standing(), None),
        (AttemptEnded(*attempt(), EndCause.COMPLETED), None),
    ],
)
def test_citation_names_the_fact_that_another_rests_on(event: Event, wanted: object) -> None:
    """What is not cited rests on its own log alone."""
    assert wanted == citation_of(event)


@pytest.mark.parametrize(
    ("revision", "sequence", "wrong"),
    [
        (2, 8, []),
        (1, 8, ["prices 1 after 1"]),
        (3, 8, ["prices 3 after 1"]),
        (2, 9, ["prices solved from fact 9, and recorded as 9"]),
    ],
)
def test_prices_follow_on_those_before(revision: int, sequence: int, wrong: list[str]) -> None:
    """A choice names them by their revision, so no two may have one."""
    history = PricesSet(Prices(1))
    assert wrong == happened(PricesSet(Prices(revision), SolvedFrom(sequence=sequence)), history)
