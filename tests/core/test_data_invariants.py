"""The rule of data, by the queue's own log: at every award, and that it tells what breaks it."""

from msgspec.structs import replace

from core.events.data import DatasetSet
from core.events.queue import WorkloadAwarded, WorkloadHeld
from core.fact import Event
from core.images import GlobalImage
from core.invariants.data import check_data
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
