"""Which regions hold which datasets: what operators say of it, and who is asked for work that reads some."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.events.data import DatasetSet
from core.events.queue import RankedBid, WorkloadAwarded
from core.messages.base import Refused
from core.messages.data import DatasetAnswered, DatasetsListed, ListDatasets, ListedDataset, SetDataset
from core.messages.queue import ExplainWorkload, WorkloadExplained
from core.nouns.ids import DatasetName, RegionName
from core.nouns.limits import NAME_LENGTH_MAX
from core.nouns.reasons import Reason
from tests.builders import EU, EU_LOG, US, a_job, a_spec
from tests.components.support.job_queue import (
    W1,
    W2,
    Start,
    a_job_queue,
    abstain,
    asked,
    auction_of,
    bid,
    refuse_all,
    submit,
)
from tests.components.support.machine import Machine
from tests.matching import facts, said_once

CLICKS, USERS = DatasetName("clicks"), DatasetName("users")


def place(
    queue: Machine[Any], name: DatasetName = CLICKS, *regions: RegionName, home: RegionName | None = None
) -> DatasetSet:
    """An operator says where a dataset is from now on."""
    revision = queue.state.image.datasets.revision_of(name)
    decision = queue.hear(SetDataset(name, regions, home, revision, "root"))
    (event,) = facts(decision)
    assert isinstance(event, DatasetSet)
    assert DatasetAnswered(name, revision + 1) == said_once(decision, DatasetAnswered)
    return event


def listed(queue: Machine[Any], **asked_for: Any) -> DatasetsListed:  # Any: fields of the message
    """What the queue tells."""
    return said_once(queue.hear(ListDatasets(**asked_for)), DatasetsListed)


def explained(queue: Machine[Any]) -> WorkloadExplained:
    """Of the first workload."""
    return said_once(queue.hear(ExplainWorkload(W1)), WorkloadExplained)


# What operators say.


def test_where_a_dataset_is_is_recorded_and_told(start: Start) -> None:
    """By name, with how many wait for it; and what is nowhere, as long as somebody waits for it."""
    queue = a_job_queue(start)
    assert DatasetSet(CLICKS, 1, (US, EU), EU, "root") == place(queue, CLICKS, US, EU, home=EU)
    submit(queue, a_spec(data=[CLICKS, USERS]))
    rows = (
        ListedDataset(CLICKS, (EU, US), EU, 1, 1, gpu_milli=1_000),
        ListedDataset(USERS, (), None, 0, 1, gpu_milli=1_000),
    )
    assert DatasetsListed(rows, DatasetName("")) == listed(queue)
    assert DatasetsListed(rows[:1], CLICKS) == listed(queue, count_max=1)
    assert DatasetsListed(rows[1:], DatasetName("")) == listed(queue, after=CLICKS)
    assert listed(queue) == listed(queue.restart())
    place(queue, CLICKS)
    assert () == listed(queue).rows[0].regions


def test_repeat_changes_nothing_and_an_old_word_is_refused(start: Start) -> None:
    """Also one by which a dataset would come back that was dropped since."""
    queue = a_job_queue(start)
    first = SetDataset(CLICKS, (EU,), None, 0)
    queue.hear(first)
    repeated = queue.hear(first)
    assert [] == facts(repeated)
    assert DatasetAnswered(CLICKS, 1) == said_once(repeated, DatasetAnswered)
    place(queue, CLICKS)
    late = queue.hear(first)
    assert [] == facts(late)
    refusal = said_once(late, Refused)
    assert (Reason.SUPERSEDED, ("revision: it is 2 now",)) == (refusal.reason, refusal.problems)


@pytest.mark.parametrize(
    ("message", "reason", "fields"),
    [
        pytest.param(
            SetDataset(CLICKS, (RegionName("mars"),), None, 0), "unknown_region", ["regions"], id="region"
        ),
        pytest.param(SetDataset(DatasetName("a/b"), (EU,), None, 0), "invalid", ["dataset"], id="name"),
        pytest.param(SetDataset(DatasetName(""), (EU,), None, 0), "invalid", ["dataset"], id="no name"),
        pytest.param(SetDataset(CLICKS, (EU, EU), None, 0), "invalid", ["regions"], id="twice"),
        pytest.param(SetDataset(CLICKS, (EU,), US, 0), "invalid", ["home"], id="home"),
        pytest.param(
            SetDataset(DatasetName("a b"), (EU, RegionName("mars")), US, 0, "x" * (NAME_LENGTH_MAX + 1)),
            "invalid",
            ["dataset", "home", "by", "regions"],
            id="everything at once",
        ),
    ],
)
def test_invalid_dataset_is_refused(
    start: Start, message: SetDataset, reason: str, fields: list[str]
) -> None:
    """Every problem is named with its field."""
    decision = a_job_queue(start).hear(message)
    assert [] == facts(decision)
    refusal = said_once(decision, Refused)
    assert (reason, fields) == (refusal.reason, [text.partition(":")[0] for text in refusal.problems])


# Who is asked.


def test_only_regions_that_hold_all_of_it_are_asked(start: Start) -> None:
    """M11: the others are told to lack it, and which."""
    queue = a_job_queue(start)
    place(queue, CLICKS, EU, US)
    place(queue, USERS, US)
    submit(queue, a_spec(data=[CLICKS, USERS]))
    assert [(W1, US)] == asked(queue.wake())
    outlooks = {one.region: one for one in explained(queue).regions}
    assert (Reason.NO_DATA, (USERS,)) == (outlooks[EU].reason, outlooks[EU].missing_data)
    assert ("", ()) == (outlooks[US].reason, outlooks[US].missing_data)


@pytest.mark.parametrize(
    ("level", "needs_fresh", "regions"),
    [(6, True, {EU}), (5, True, {EU}), (4, True, {EU, US}), (6, False, {EU, US})],
)
def test_high_priority_reads_fresh_data(
    start: Start, level: int, regions: set[RegionName], *, needs_fresh: bool
) -> None:
    """M35: where its data is at home, and nowhere else; low priority may read a copy, and so may a workload that does not ask for fresh
    data.
    """
    queue = a_job_queue(start)
    place(queue, CLICKS, EU, US, home=EU)
    place(queue, USERS, EU, US)
    spec = replace(a_spec(data=[CLICKS, USERS], priority=level), needs_fresh_data=needs_fresh)
    submit(queue, spec)
    opened = queue.wake()
    assert regions == {region for _, region in asked(opened)}
    against = {one.region: one.reason for one in explained(queue).regions}
    assert {EU: "", US: "" if US in regions else Reason.DATA_NOT_FRESH} == against
    for region in sorted(regions):
        abstain(queue, auction_of(opened), region)
    queue.wake()
    assert Reason.NO_CAPACITY == explained(queue).reason


def test_home_moves_while_an_auction_is_open(start: Start) -> None:
    """M35: what was at home when it was asked for is a copy by now: that bid does not count."""
    queue = a_job_queue(start)
    place(queue, CLICKS, EU, US, home=EU)
    submit(queue, replace(a_spec(data=[CLICKS], priority=6), needs_fresh_data=True))
    auction = auction_of(queue.wake())
    place(queue, CLICKS, EU, US, home=US)
    bid(queue, auction, EU)
    decision = queue.wake()
    assert [] == [event for event in facts(decision) if isinstance(event, WorkloadAwarded)]
    assert [(W1, US)] == asked(decision)


def test_workload_waits_until_its_dataset_is_placed(start: Start) -> None:
    """With that reason, and it is asked for as soon as a region has the dataset; others of its size are asked for meanwhile."""
    queue = a_job_queue(start)
    submit(queue, a_spec(data=[CLICKS]))
    submit(queue)
    assert {W2} == {workload for workload, _ in asked(queue.wake())}
    assert Reason.NO_DATA == explained(queue).reason
    refuse_all(queue)
    place(queue, USERS, EU)
    assert [] == asked(queue.wake())
    place(queue, CLICKS, EU)
    assert [(W1, EU)] == asked(queue.wake())


def test_data_is_elsewhere_than_where_it_may_run(start: Start) -> None:
    """The region that it names lacks the data, and the one that has it is none that it names."""
    queue = a_job_queue(start)
    place(queue, CLICKS, EU)
    submit(queue, a_spec(a_job(1, 8), data=[CLICKS], regions=[US]))
    assert [] == asked(queue.wake())
    assert Reason.NO_DATA == explained(queue).reason
    told = {one.region: one.reason for one in explained(queue).regions}
    assert {EU: Reason.REGION_EXCLUDED, US: Reason.NO_DATA} == told


@pytest.mark.parametrize(
    ("at_home", "away", "winner"),
    [
        pytest.param((0, 0, 0, 4, 4, 900), (0, 0, 0, 1, 1, 0), US, id="however it lies there"),
        pytest.param(
            (2, 1, 10, 1, 1, 0), (0, 0, 0, 4, 4, 900), EU, id="not if somebody were pushed out for it"
        ),
    ],
)
def test_region_at_home_wins_unless_its_bid_preempts(
    start: Start, at_home: tuple[int, ...], away: tuple[int, ...], winner: RegionName
) -> None:
    """DESIGN §5.4: home counts after the victims of a bid, and before the packing; the award has the compared bids."""
    queue = a_job_queue(start)
    place(queue, CLICKS, EU, US, home=US)
    submit(queue, a_spec(data=[CLICKS]))
    auction = auction_of(queue.wake())
    bid(queue, auction, EU, score=away)
    bid(queue, auction, US, score=at_home)
    (award,) = facts(queue.hear_due_once())
    assert isinstance(award, WorkloadAwarded)
    assert winner == award.region == award.bids[0].region
    assert {RankedBid(US, at_home), RankedBid(EU, away, 1)} == set(award.bids)


def test_data_that_goes_while_its_auction_is_open(start: Start) -> None:
    """The region that bid for it is not awarded; another one that holds it is."""
    queue = a_job_queue(start)
    place(queue, CLICKS, EU, US)
    submit(queue, a_spec(data=[CLICKS]))
    auction = auction_of(queue.wake())
    bid(queue, auction, EU)
    place(queue, CLICKS, US)
    bid(queue, auction, US, score=(0, 0, 0, 2, 2, 0))
    (award,) = facts(queue.hear_due_once())
    assert isinstance(award, WorkloadAwarded)
    assert US == award.region


def test_restart_knows_where_data_is(start: Start) -> None:
    """From the log; a region's fact changes nothing of it."""
    queue = a_job_queue(start)
    place(queue, CLICKS, US)
    submit(queue, a_spec(data=[CLICKS]))
    again = queue.restart()
    again.wake()
    assert {EU: Reason.NO_DATA, US: ""} == {one.region: one.reason for one in explained(again).regions}
    assert EU_LOG in again.logs
