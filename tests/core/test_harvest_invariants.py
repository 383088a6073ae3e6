"""What must hold of harvested capacity: it is free or lent, its offers are allowed, and its recalls end in time."""

from core.events.control import NodesClosed
from core.events.harvest import HarvestOffered, HarvestReleased
from core.events.pools import PoolChanged
from core.events.region import AttemptEnded, NodesLost
from core.fact import Event
from core.images import RegionImage
from core.invariants.harvest import LATE, RecallWatch, check_harvest_fact, check_harvested
from core.nouns.harvest import HarvestPart, ReleasedPart
from core.nouns.ids import AttemptKey, WorkerName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.maintenance import ClosureKind
from core.nouns.quantities import Amount
from core.nouns.workload import EndCause
from tests.builders import a_claim, a_fact, a_region, attempt, folded, granted, joined, opened
from tests.components.support.harvest import GRACE, OFF, ON, POOL, gpus

W1 = attempt("w-1")
CLOSED = NodesClosed("d-1", ClosureKind.DRAIN, ((0, 0),), "old")


def offered(size: Amount, primary: AttemptKey | None = None, pool: str = POOL) -> HarvestOffered:
    """Of node 0."""
    return HarvestOffered(1, (HarvestPart(((0, 0),), size, primary, pool),), GRACE)


def a_harvest(*events: Event) -> RegionImage:
    """Four nodes in a pool that is harvested, and then this."""
    return a_region(joined(), PoolChanged(POOL, ON), *events)


def texts(event: Event, *before: Event) -> list[str]:
    """What is found of a fact."""
    found = check_harvest_fact(a_fact(event, len(before) + 3), a_harvest(*before))
    assert {1} >= {rule for rule, _ in found}
    return [text for _, text in found]


def test_offers_that_may_not_be() -> None:
    """Where the pool is not harvested, the node takes no new work, or a recall stands or is unconfirmed."""
    grant = granted(a_claim("w-1"))
    assert [] == texts(offered(gpus(8)))
    assert ["node 0: offered, and pool training is not harvested"] == texts(
        offered(gpus(8), pool="harvest"), PoolChanged(POOL, OFF)
    ), "the node's own pool counts, whatever the fact names"
    assert ["node 0: offered, and it takes no new work"] == texts(offered(gpus(8)), CLOSED)
    assert ["node 0: offered, and it takes no new work"] == texts(
        offered(gpus(8)), NodesLost(WorkerName("w0"), (0,))
    )
    stands = "node 0: offered, and a recall of it stands or is unconfirmed"
    assert [stands] == texts(offered(gpus(7)), offered(gpus(8)), grant)
    unconfirmed = HarvestReleased((ReleasedPart(0, 2, Nanoseconds(0), is_confirmed=False),))
    assert [stands] == texts(offered(gpus(7)), offered(gpus(8)), grant, unconfirmed)


def test_release_of_nothing() -> None:
    """There is no recall of that node."""
    release = HarvestReleased((ReleasedPart(0, 1, Nanoseconds(0)),))
    assert ["node 0: a recall is released, and none stands"] == texts(release)
    assert ["node 0: a recall is released, and none stands"] == texts(release, offered(gpus(8)))


def test_more_is_harvested_than_is_free() -> None:
    """Of any resource, of devices only whole ones; on a closed node nothing at all."""
    grant = granted(a_claim("w-1", placed={0: 2}))
    assert [] == check_harvested(a_harvest(grant, offered(gpus(6))), [0, 1])
    (text,) = check_harvested(a_harvest(grant, offered(gpus(7))), [0])
    assert text.startswith("node 0: Amount(gpu_milli=7000")
    (text,) = check_harvested(a_harvest(offered(Amount(8_000, 64_001))), [0])
    assert "cpu_milli=64001" in text
    part = granted(a_claim("w-1", gpus=0.25))
    assert [] == check_harvested(a_harvest(part, offered(Amount(7_000))), [0])
    assert 1 == len(check_harvested(a_harvest(part, offered(Amount(7_500))), [0]))
    (text,) = check_harvested(a_harvest(CLOSED, offered(gpus(8))), [0])
    assert text.startswith("node 0: it takes no new work")


def test_more_is_lent_than_is_held() -> None:
    """By an attempt that holds less there, or nothing any more."""
    grant = granted(a_claim("w-1", placed={0: 2}))
    assert [] == check_harvested(a_harvest(grant, offered(Amount(2_000), W1)), [0])
    (text,) = check_harvested(a_harvest(grant, offered(Amount(3_000), W1)), [0])
    assert text.startswith("node 0: w-1.1 lends Amount(gpu_milli=3000")
    gone = a_harvest(grant, AttemptEnded(*W1, EndCause.COMPLETED), offered(Amount(1_000), W1))
    assert 1 == len(check_harvested(gone, [0]))


def test_recall_that_never_ends_is_found() -> None:
    """Once two facts, some seconds apart, show it overdue: a store that was held up ends it before it says much else."""
    image = a_harvest(offered(gpus(8)), granted(a_claim("w-1")))
    due = image.harvest.recalling[0] + GRACE + seconds(5)
    watch = RecallWatch()
    assert [] == watch.look(due, image) + watch.look(due + 600 * SECOND, image)
    assert [] == watch.look(due + 600 * SECOND + LATE - 1, image)
    (text,) = watch.look(due + 600 * SECOND + LATE, image)
    assert text.startswith("node 0: a recall stands since ")
    assert [] == watch.look(due + 600 * SECOND + LATE + 1, image), "it is told now and then, not at each fact"
    released = HarvestReleased((ReleasedPart(0, 2, Nanoseconds(0), is_confirmed=False),))
    folded(image, (released,), first=9)
    assert [] == watch.look(due + 900 * SECOND, image)


def test_recall_that_is_due_first_is_looked_at() -> None:
    """A short grace ends before a longer one that began earlier."""
    short = HarvestOffered(2, (HarvestPart(((1, 1),), gpus(8), None, POOL),), seconds(1))
    image = a_harvest(
        offered(gpus(8)), short, granted(a_claim("w-1")), granted(a_claim("w-2", placed={1: 1}))
    )
    first, second = image.harvest.recalling.values()
    watch = RecallWatch()
    assert [] == watch.look(second + seconds(6), image) + watch.look(second + seconds(6) + 1, image)
    (text,) = watch.look(second + seconds(6) + 1 + LATE, image)
    assert text.startswith("node 1: ")
    assert second + seconds(6) + 1 + LATE < first + GRACE


def test_store_that_was_down_has_the_whole_time_again() -> None:
    """From when it opened its log."""
    image = a_harvest(offered(gpus(8)), granted(a_claim("w-1")))
    image.fold(a_fact(opened(2), 9))
    due = image.harvest.opened_at + GRACE + seconds(5)
    watch = RecallWatch()
    assert [] == watch.look(due, image) + watch.look(due + LATE, image)
    assert [] == watch.look(due + 1, image) + watch.look(due + LATE, image)
    assert 1 == len(watch.look(due + 1 + LATE, image) + watch.look(due + 2 * LATE, image))
