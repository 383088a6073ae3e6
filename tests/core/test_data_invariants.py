"""The rule of data, by the queue's own log: at every award, and that it tells what breaks it."""

from msgspec.structs import replace

from core.events.copies import CopyOrdered, DropCleared, DropOrdered
from core.events.data import DataPolicySet, DatasetSet, StorageSet
from core.events.queue import WorkloadAwarded, WorkloadHeld
from core.events.regions import RegionAbandoned
from core.fact import Event
from core.images import GlobalImage
from core.invariants.data import check_data
from core.nouns.data import UNSTATED, DataPolicy
from core.nouns.ids import GLOBAL_LOG, DatasetName, RegionName, WorkloadId
from core.nouns.tenant import OVER_LEVEL
from tests.builders import EU, US, a_fact, a_queue, a_spec, submitted

CLICKS, USERS = DatasetName("clicks"), DatasetName("users")


def queue(*events: Event) -> GlobalImage:
    """Of which the first workload reads both datasets, and the second none."""
    return a_queue(submitted(1, a_spec(data=[CLICKS, USERS])), submitted(2), *events)


def told(image: GlobalImage, region: RegionName, workload: str = "w-1") -> list[str]:
    """Of an award that is to be folded next."""
    award = WorkloadAwarded(WorkloadId(workload), 1, region, 0, ())
    return check_data(a_fact(award, 99, log=GLOBAL_LOG), image)


def test_award_where_some_of_it_is_not() -> None:
    """All of it must be there; of who reads nothing, and of who is not known, nothing is asked."""
    image = queue(DatasetSet(CLICKS, 1, (EU, US)), DatasetSet(USERS, 1, (US,)))
    assert [] == told(image, US) == told(image, EU, "w-2") == told(image, EU, "w-3")
    assert ["w-1 reads users, and is awarded to eu, where that is not"] == told(image, EU)
    assert ["w-1 reads clicks, users, and is awarded to eu, where that is not"] == told(queue(), EU)


def test_dropped_dataset_is_in_no_region() -> None:
    """From then on; and no other fact is checked for its data."""
    image = queue(DatasetSet(CLICKS, 1, (EU,)), DatasetSet(USERS, 1, (EU,)), DatasetSet(USERS, 2, ()))
    assert ["w-1 reads users, and is awarded to eu, where that is not"] == told(image, EU)
    assert [] == check_data(a_fact(WorkloadHeld(WorkloadId("w-1"), 1), 99, log=GLOBAL_LOG), image)


def test_award_away_from_home_of_a_workload_that_needs_fresh_data() -> None:
    """M35: at a high level, by that of its award; lower down, and over quota, a copy will do."""
    spec = replace(a_spec(data=[CLICKS], priority=6), needs_fresh_data=True)
    image = a_queue(submitted(1, spec), DatasetSet(CLICKS, 1, (EU, US), EU))
    award = WorkloadAwarded(WorkloadId("w-1"), 1, US, 0, ())
    assert [] == told(image, EU)
    wrong = ["w-1 reads what is fresh, and is awarded to us, where that is not"]
    for level, found in ((None, wrong), (6, wrong), (4, []), (OVER_LEVEL, [])):
        assert found == check_data(a_fact(replace(award, level=level), 99, log=GLOBAL_LOG), image)


def held(*events: Event) -> GlobalImage:
    """Of two regions with storage for 100 bytes each, over a dataset of 40 in eu."""
    storage = [StorageSet(region, 1, 100) for region in (EU, US)]
    policy = DataPolicySet(1, DataPolicy(day_permille=0, day_bytes_min=100))
    return a_queue(policy, *storage, DatasetSet(CLICKS, 1, (EU,), EU, size=40), *events)


def order(
    copy: int = 1, dataset: DatasetName = CLICKS, size: int = 40, target: RegionName = US
) -> CopyOrdered:
    """Of a copy from eu."""
    return CopyOrdered(copy, dataset, EU, target, size, 1)


def wrong(event: Event, image: GlobalImage) -> list[str]:
    """What is told of a fact that is to be folded next."""
    return check_data(a_fact(event, 99, log=GLOBAL_LOG), image)


def test_last_whole_copy_is_not_deleted() -> None:
    """At the order and when it is cleared; a copy in an abandoned region is none."""
    last = ["the last whole copy of clicks, in eu, is to be deleted"]
    for drop in (DropOrdered(CLICKS, 2, EU), DropCleared(CLICKS, EU)):
        assert last == wrong(drop, held()) == wrong(drop, a_queue())
        both = held(DatasetSet(CLICKS, 2, (EU, US), US, size=40))
        assert [] == wrong(drop, both)
        both.fold(a_fact(RegionAbandoned(US, 1), 98, log=GLOBAL_LOG))
        assert last == wrong(drop, both)


def test_copy_is_not_deleted_or_replaced_while_it_is_read() -> None:
    """By an award that has not ended, there, of that dataset."""
    award = WorkloadAwarded(WorkloadId("w-1"), 1, EU, 0, ())
    image = held(submitted(1, a_spec(data=[CLICKS])), submitted(2), award)
    image.fold(a_fact(DatasetSet(CLICKS, 2, (US,), US, size=40), 97, log=GLOBAL_LOG))
    assert ["the copy of clicks in eu is deleted, and w-1 reads it there"] == wrong(
        DropCleared(CLICKS, EU), image
    )
    assert [] == wrong(DropCleared(USERS, EU), held(DatasetSet(USERS, 1, (US,), US), award_of_none()))
    again = replace(order(target=EU), source=US)
    assert ["copy 1 of clicks is ordered to eu, where w-1 reads what it replaces"] == wrong(again, image)


def award_of_none() -> Event:
    """Work that reads nothing."""
    return submitted(5)


def test_copy_comes_from_where_the_dataset_is() -> None:
    """And of one that is known."""
    assert [] == wrong(order(), held())
    assert ["copy 1 of clicks is ordered from eu, where that is not"] == wrong(
        order(), held(DatasetSet(CLICKS, 2, (US,), US, size=40), DatasetSet(CLICKS, 3, (), None, size=40))
    )
    assert "copy 1 of users is ordered from eu, where that is not" in wrong(order(dataset=USERS), held())


def test_copy_fits_in_the_storage_that_is_stated() -> None:
    """Beside what is there, is on its way, and is being deleted."""
    over = ["copy 2 of clicks is ordered to us, which cannot store it"]
    full = DatasetSet(USERS, 1, (US,), US, size=61)
    assert over == wrong(order(2), held(full))
    assert [] == wrong(order(2), held(replace(full, size=60)))
    assert over == wrong(order(2), held(StorageSet(US, 2, UNSTATED)))
    coming = held(DatasetSet(USERS, 1, (EU,), EU, size=61), order(1, USERS, 61))
    assert over[0] in wrong(order(2), coming)
    leaving = held(DatasetSet(USERS, 1, (EU, US), EU, size=61), DropOrdered(USERS, 2, US))
    assert over == wrong(order(2), leaving)


def test_orders_of_a_day_keep_its_bytes() -> None:
    """The first of a day may be larger."""
    image = held(StorageSet(US, 2, 10_000), DatasetSet(USERS, 1, (EU,), EU, size=61), order(1, USERS, 61))
    assert ["copy 2 of clicks makes 101 bytes in a day of 100 at most"] == wrong(order(2), image)
    assert [] == wrong(order(2, size=39), image)
    assert [] == wrong(order(2, size=500), held(StorageSet(US, 2, 10_000)))
