"""Plans of where data lives, as the queue carries them out: homes that move, copies that are dropped, and never the last one."""

import pytest
from msgspec.structs import replace

from core.events.copies import (
    CopyMade,
    DataPlanned,
    DropCleared,
    DropMade,
    DropOrdered,
    HomeMoved,
)
from core.messages.base import Refused
from core.messages.copies import (
    CopiesListed,
    DataPlanShown,
    ListCopies,
    ReportDrop,
    ShowDataPlan,
)
from core.nouns.ids import DatasetName, RegionName
from core.nouns.limits import (
    COPY_LOOK,
)
from core.nouns.workload import EndCause
from tests.builders import EU, US, a_spec
from tests.components.support.data import (
    CLICKS,
    GB,
    USERS,
    VIEWS,
    Start,
    a_queue_with_data,
    cleared,
    copy,
    drop,
    events,
    look,
    made,
    move,
    ordered,
    place,
    plan,
)
from tests.components.support.job_queue import awarded, ended, happens, running, submit
from tests.matching import facts, said_once

MANY = [DatasetName(f"table-{number}") for number in range(12)]


def test_home_moves_by_copy_then_home_then_drop(start: Start) -> None:
    """M33: the old home's copy goes only when the new one is made, counts for no award from then on, and stays while work reads it."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU)
    submit(queue, a_spec(data=[CLICKS]))
    awarded(queue)
    running(queue)
    plan(queue, move(CLICKS, EU, US))
    (order,) = ordered(look(queue))
    assert order.is_move
    assert [CopyMade(1, CLICKS, US, 2, is_move=True, left=EU)] == facts(made(queue, order))
    assert [DropOrdered(CLICKS, 3, EU)] == events(look(queue), DropOrdered, DropCleared)
    row = queue.state.image.datasets.rows[CLICKS]
    assert ((US,), US) == (row.regions, row.home)
    assert [] == cleared(queue.wait(COPY_LOOK)), "an attempt reads it"
    assert [] == facts(queue.hear(ReportDrop(EU, CLICKS))), "it was not to be deleted yet"
    happens(queue, ended(EndCause.COMPLETED))
    assert [DropCleared(CLICKS, EU)] == cleared(queue.wait(COPY_LOOK))
    assert [DropMade(CLICKS, EU)] == facts(queue.hear(ReportDrop(EU, CLICKS)))


def test_home_moves_without_a_copy_where_the_target_has_one(start: Start) -> None:
    """At once; the old home's copy is dropped."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, US)
    plan(queue, move(CLICKS, EU, US))
    found = events(look(queue), HomeMoved, DropOrdered, DropCleared)
    assert [HomeMoved(CLICKS, 2, US, EU), DropOrdered(CLICKS, 3, EU), DropCleared(CLICKS, EU)] == found
    assert [DropMade(CLICKS, EU)] == facts(queue.hear(ReportDrop(EU, CLICKS)))
    assert 0 == queue.state.data.stored[EU]


@pytest.mark.parametrize("has_copy", [False, True])
def test_move_that_keeps_leaves_the_old_copy(start: Start, *, has_copy: bool) -> None:
    """It is the copy outside the home then, whether the target had one before or gets it now."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, US, *([EU] if has_copy else []))
    plan(queue, replace(move(CLICKS, US, EU), keeps=True))
    for order in ordered(look(queue)):
        assert order.is_move
        made(queue, order)
    look(queue)
    row = queue.state.image.datasets.rows[CLICKS]
    assert (EU, (EU, US)) == (row.home, row.regions)
    assert not queue.state.image.copies.to_drop


def test_action_from_before_an_operators_word_is_left_out(start: Start) -> None:
    """The plane follows what operators say of a dataset: a plan that was made from something else does not undo that."""
    queue = a_queue_with_data(start)
    for name in (CLICKS, VIEWS):
        place(queue, name, US)
    place(queue, CLICKS, US, size=2 * GB)
    of_first_word, of_both = (replace(move(name, US, EU), revision=1) for name in (CLICKS, VIEWS))
    plan(queue, of_first_word, of_both)
    assert [VIEWS] == [action.dataset for action in queue.state.image.copies.actions.values()]


@pytest.mark.parametrize("region", [EU, US])
def test_last_whole_copy_and_the_home_are_never_dropped(start: Start, region: RegionName) -> None:
    """Whatever a plan says."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, US)
    place(queue, USERS, region)
    plan(queue, drop(CLICKS, US), drop(USERS, region))
    assert [] == events(queue.wait(COPY_LOOK), DropOrdered)


def test_copy_from_which_is_copied_is_dropped_later(start: Start) -> None:
    """When that copy is made."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU)
    plan(queue, copy(CLICKS, EU, US))
    (order,) = ordered(look(queue))
    plan(queue, drop(CLICKS, EU), move(CLICKS, EU, US))
    assert [] == events(queue.wait(COPY_LOOK), DropOrdered)
    made(queue, order)
    assert [HomeMoved(CLICKS, 3, US, EU), DropOrdered(CLICKS, 4, EU)] == events(
        look(queue), HomeMoved, DropOrdered
    )


def test_pinned_dataset_keeps_its_home_and_its_copies(start: Start) -> None:
    """A plan may only add copies."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, is_pinned=True)
    place(queue, USERS, EU, US, is_pinned=True)
    plan(queue, move(CLICKS, EU, US), move(USERS, EU, US), drop(USERS, US))
    assert [] == events(queue.wait(COPY_LOOK), HomeMoved, DropOrdered, CopyMade)
    plan(queue, copy(CLICKS, EU, US))
    assert 1 == len(ordered(look(queue)))


def test_higher_levels_come_first_and_the_plans_order_within_one(start: Start) -> None:
    """M34: excess is carried over to when a link is free."""
    queue = a_queue_with_data(start)
    for name in MANY[:5]:
        place(queue, name, EU)
    levels = (1, 5, 1, 5, 1)
    plan(queue, *(copy(name, EU, US, level) for name, level in zip(MANY, levels, strict=False)))
    assert [MANY[1], MANY[3], MANY[0]] == [order.dataset for order in ordered(look(queue))]


def test_newer_plan_replaces_what_is_left_and_an_older_is_refused(start: Start) -> None:
    """Orders go on."""
    queue = a_queue_with_data(start)
    for name in MANY:
        place(queue, name, EU)
    plan(queue, *(copy(name, EU, US) for name in MANY))
    look(queue)
    plan(queue, copy(MANY[11], EU, US))
    shown = said_once(queue.hear(ShowDataPlan()), DataPlanShown)
    assert (2, 1, 1) == (shown.number, shown.actions, shown.left)
    assert [] == facts(plan(queue, number=2)), "a repeat"
    refusal = said_once(plan(queue, number=1), Refused)
    assert ("superseded", ("number: the newest plan is 2",)) == (refusal.reason, refusal.problems)
    assert 3 == len(said_once(queue.hear(ListCopies()), CopiesListed).orders)


def test_long_plan_is_several_facts(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of bounded size, in one batch, and one plan."""
    monkeypatch.setattr("core.rules.data.copies.PLAN_PART_BYTES_MAX", 200)
    queue = a_queue_with_data(start)
    for name in MANY:
        place(queue, name, EU)
    found = events(plan(queue, *(copy(name, EU, US) for name in MANY)), DataPlanned)
    assert 1 < len(found)
    assert [False] + [True] * (len(found) - 1) == [event.is_more for event in found]
    assert MANY == [action.dataset for action in queue.state.image.copies.actions.values()]
    assert len(MANY) == queue.state.image.copies.plan.actions
