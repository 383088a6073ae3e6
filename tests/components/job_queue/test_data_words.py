"""What operators say of datasets, storage and links: it ends what was ordered, and mistakes are refused with their field."""

from typing import Any

import pytest

from components.job_queue.component import JobQueue
from core.events.copies import (
    DropCleared,
    DropMade,
    DropOrdered,
)
from core.events.data import DatasetSet
from core.messages.base import Refused
from core.messages.copies import (
    CopiesListed,
    ListCopies,
    ReportDrop,
    ReportHash,
)
from core.messages.data import (
    DataSettingsShown,
    SetDataPolicy,
    SetDataset,
    SetLink,
    SetStorage,
    ShowDataSettings,
)
from core.nouns.data import DataPolicy
from core.nouns.ids import RegionName
from core.nouns.instant import seconds
from core.nouns.limits import (
    COPY_LOOK,
)
from tests.builders import EU, US, a_spec
from tests.components.support.data import (
    CLICKS,
    GB,
    HASH,
    Start,
    a_queue_with_data,
    cleared,
    copy,
    drop,
    events,
    failed,
    look,
    made,
    move,
    ordered,
    place,
    plan,
)
from tests.components.support.job_queue import awarded, submit
from tests.components.support.machine import Machine
from tests.matching import facts, said_once


def test_word_of_an_operator_has_failed_copies_tried_again(start: Start) -> None:
    """At once, also if nothing else is different; the same message twice is one word, and without failures it changes nothing."""
    queue = a_queue_with_data(start, us="A100")
    place(queue, CLICKS, US)
    submit(queue, a_spec(data=[CLICKS]))
    for _ in range(3):
        failed(queue, ordered(queue.wait(seconds(30)))[0], "command_missing")
    assert [] == ordered(queue.wait(COPY_LOOK))
    again = SetDataset(
        CLICKS, (US,), US, queue.state.image.datasets.revision_of(CLICKS), "root", GB, hash=HASH
    )
    assert [DatasetSet(CLICKS, 2, (US,), US, "root", GB, hash=HASH)] == facts(queue.hear(again))
    assert () == said_once(queue.hear(ListCopies()), CopiesListed).failed
    assert [] == facts(queue.hear(again))
    made(queue, ordered(look(queue))[0])
    place(queue, CLICKS, US, EU)
    revision = queue.state.image.datasets.revision_of(CLICKS)
    place(queue, CLICKS, US, EU)
    assert revision == queue.state.image.datasets.revision_of(CLICKS)


def test_word_of_an_operator_ends_what_was_ordered(start: Start) -> None:
    """The data service finds its order gone; what it reports of that later changes nothing."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU)
    plan(queue, copy(CLICKS, EU, US))
    (order,) = ordered(look(queue))
    place(queue, CLICKS)
    assert {} == queue.state.image.copies.orders
    assert [] == facts(made(queue, order))
    assert () == queue.state.image.datasets.rows[CLICKS].regions


def test_copy_that_is_being_deleted_cannot_be_named_meanwhile(start: Start) -> None:
    """Files may be half gone."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, US)
    plan(queue, move(CLICKS, EU, US))
    look(queue)
    refusal = said_once(queue.hear(SetDataset(CLICKS, (EU, US), US, 3)), Refused)
    assert ["regions: the copy in eu is being deleted; name eu when that is done"] == list(refusal.problems)


def test_deletion_under_way_outlives_an_operators_word(start: Start) -> None:
    """The region cannot be named until the deletion is told: what an operator puts there before would be deleted."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, US)
    plan(queue, drop(CLICKS, US))
    assert [DropCleared(CLICKS, US)] == cleared(queue.wait(COPY_LOOK))
    place(queue, CLICKS, EU, size=2 * GB)
    revision = queue.state.image.datasets.revision_of(CLICKS)
    assert isinstance(said_once(queue.hear(SetDataset(CLICKS, (EU, US), EU, revision)), Refused), Refused)
    assert [DropMade(CLICKS, US)] == facts(queue.hear(ReportDrop(US, CLICKS)))
    assert events(queue.hear(SetDataset(CLICKS, (EU, US), EU, revision)), DatasetSet)


def test_deletion_that_is_not_cleared_ends_with_an_operators_word(start: Start) -> None:
    """Nothing is deleted yet, so the copy is whole and counts again once it is named."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, US, EU)
    submit(queue, a_spec(data=[CLICKS], regions=[EU]))
    awarded(queue)
    plan(queue, drop(CLICKS, EU))
    assert [DropOrdered(CLICKS, 2, EU)] == events(queue.wait(COPY_LOOK), DropOrdered, DropCleared)
    place(queue, CLICKS, US, size=2 * GB)
    place(queue, CLICKS, US, EU, size=2 * GB)
    assert (EU, US) == queue.state.image.datasets.rows[CLICKS].regions
    assert {} == queue.state.image.copies.drops


@pytest.mark.parametrize(
    ("message", "reason", "fields"),
    [
        pytest.param(SetStorage(RegionName("mars"), GB, 0), "unknown_region", ["regions"], id="region"),
        pytest.param(SetStorage(EU, -7, 1), "invalid", ["bytes"], id="bytes"),
        pytest.param(SetStorage(EU, 10, 1), "below_stored", ["bytes"], id="below what is there"),
        pytest.param(SetStorage(EU, GB, 0), "superseded", ["revision"], id="an older word"),
        pytest.param(SetLink(EU, RegionName("mars"), 1, 0), "unknown_region", ["regions"], id="link"),
        pytest.param(SetLink(EU, EU, 1, 0), "invalid", ["target"], id="link to itself"),
        pytest.param(SetLink(EU, US, -1, 0, "x" * 200), "invalid", ["rate", "by"], id="rate"),
        pytest.param(
            SetDataPolicy(DataPolicy(day_permille=2000, extra_permille=-1), 1),
            "invalid",
            ["day_permille", "extra_permille"],
            id="policy",
        ),
        pytest.param(SetDataPolicy(DataPolicy(), 0), "superseded", ["revision"], id="an older policy"),
        pytest.param(SetDataset(CLICKS, (EU,), EU, 1, size=-1), "invalid", ["size"], id="size"),
        pytest.param(SetDataset(CLICKS, (EU,), EU, 1, size=GB, hash="a b"), "invalid", ["hash"], id="hash"),
        pytest.param(SetDataset(CLICKS, (EU,), EU, 1, size=5), "below_stored", ["size"], id="size below"),
    ],
)
def test_bad_words_are_refused(start: Start, message: Any, reason: str, fields: list[str]) -> None:
    """Each with its reason, and every problem with its field."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, hash_="")
    plan(queue, copy(CLICKS, EU, US))
    (order,) = ordered(look(queue))
    queue.hear(ReportHash(EU, order.copy, CLICKS, HASH, GB))
    decision = queue.hear(message)
    assert [] == facts(decision)
    refusal = said_once(decision, Refused)
    assert (reason, fields) == (refusal.reason, [text.partition(":")[0] for text in refusal.problems])


def test_copies_of_a_dataset_that_no_operator_placed(start: Start) -> None:
    """Are not none: the name is unknown."""
    queue = a_queue_with_data(start)
    submit(queue, a_spec(data=[CLICKS]))
    refusal = said_once(queue.hear(ListCopies(CLICKS)), Refused)
    assert ("unknown_dataset", (f"dataset: {CLICKS}",)) == (refusal.reason, refusal.problems)
    place(queue, CLICKS, EU)
    assert () == said_once(queue.hear(ListCopies(CLICKS)), CopiesListed).orders


def test_region_without_a_data_service_has_no_storage(start: Start) -> None:
    """The refusal says what to do."""
    queue: Machine[Any] = start(JobQueue((US, EU), (EU,)))
    queue.wake()
    assert "no_data_service" == said_once(queue.hear(SetStorage(US, GB, 0)), Refused).reason


def test_settings_are_told(start: Start) -> None:
    """Storage with what is there and on its way, every link with its rate, and the bytes of the day."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU)
    plan(queue, copy(CLICKS, EU, US))
    look(queue)
    shown = said_once(queue.hear(ShowDataSettings()), DataSettingsShown)
    assert [(EU, GB, 0), (US, 0, GB)] == [(one.region, one.used, one.expected) for one in shown.storage]
    assert [(EU, US, 1), (US, EU, 0)] == [(one.source, one.target, one.copies) for one in shown.links]
    assert (GB, GB, GB) == (shown.bytes, shown.day_limit, shown.day_bytes)
