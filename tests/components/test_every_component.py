"""What every component promises, whichever it is: this suite runs over all that are listed."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from bus.catalogue import CREWS, ROUTES
from components import COMPONENTS
from core.component import NOTHING, ImageAdopted, RowsTold
from core.fact import Event, Note
from core.messages.base import Answer, Message, Notice, Woken
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import seconds
from tests.components.support.machine import Machine, images_of
from tests.components.support.scenes import SCENES, Start
from tests.core.histories import QueueHistory, RegionHistory
from tests.core.properties import SEEDS
from tests.matching import facts

EVERY = pytest.mark.parametrize("kind", COMPONENTS, ids=lambda kind: kind.__name__)


def digests(machine: Machine[Any]) -> list[str]:
    """Of all images in its state."""
    return [image.digest() for image in images_of(machine.state)]


@EVERY
def test_component_has_a_scene(kind: type) -> None:
    """Whoever adds a component adds one little life of it, in tests/components/support/scenes.py."""
    assert kind in SCENES


@EVERY
def test_all_that_it_hears_is_answered_by_something(start: Start, kind: type) -> None:
    """Each type that it listens for makes it decide something, at least once in its life."""
    machine = SCENES[kind](start)
    answered = {type(message) for message, decision in machine.heard if decision != NOTHING}
    assert set(machine.component.hears) <= answered
    assert answered <= {*machine.component.hears, Woken} | {
        message for message in answered if issubclass(message, Notice)
    }


@EVERY
def test_all_that_it_hears_reaches_it(start: Start, kind: type) -> None:
    """Each type is routed to its noun and scope, or to the whole crew of its region; notices need no route."""
    component = SCENES[kind](start).component
    lost = []
    for message in component.hears:
        assert not issubclass(message, Answer), message
        if issubclass(message, Notice):
            continue
        route = ROUTES[message]
        is_own = route.noun == component.noun and len(route.scope) == len(component.scope)
        is_for_the_crew = route == CREWS.get(component.noun)
        is_of_units = route.noun == "status" and component.noun == "auditor"
        if not is_own and not is_for_the_crew and not is_of_units:
            lost.append(message.__name__)
    assert [] == lost


def test_all_that_is_routed_to_a_component_is_heard() -> None:
    """No message is said to somebody who does not listen for it."""
    nouns = {
        "queue": "JobQueue",
        "store": "PlacementStore",
        "broker": "RegionBroker",
        "control": "TaskControl",
        "agent": "AllocationAgent",
    }
    nouns |= {"worker": "Worker", "planner": "Planner", "auditor": "Auditor"}
    by_name = {kind.__name__: kind for kind in COMPONENTS}
    unheard = [
        message.__name__
        for message, route in ROUTES.items()
        if route.noun in nouns and message not in by_name[nouns[route.noun]].hears
    ]
    assert [] == unheard


@EVERY
def test_memory_equals_replay(start: Start, kind: type) -> None:
    """P4: its images are the folds of the logs, whatever it noted in between; killed, it goes on from them."""
    machine = SCENES[kind](start)
    machine.check()
    again = machine.restart()
    if machine.component.keeps is None:
        assert digests(machine) == digests(again)
    again.wait(seconds(120))


@EVERY
def test_everything_heard_twice_at_once(start: Start, kind: type) -> None:
    """The bus may repeat: nothing is recorded a second time, and its own log ends the same."""
    once = SCENES[kind](start)
    twice = SCENES[kind](lambda component, **options: start(component, hears_twice=True, **options))
    if once.component.keeps is not None:
        log = once.component.keeps
        assert [fact.event for fact in once.logs[log]] == [fact.event for fact in twice.logs[log]]
    assert digests(once) == digests(twice)


@EVERY
def test_everything_heard_again_at_the_end(start: Start, kind: type) -> None:
    """However late, and in whatever order: a word about what has passed records nothing and changes no image."""
    machine = SCENES[kind](start)
    before = digests(machine)
    said_before: list[Message] = [message for message, _ in machine.heard if not isinstance(message, Notice)]
    for messages in (said_before, said_before[::-1]):
        for message in messages:
            assert [] == facts(machine.hear(message)), message
    assert before == digests(machine)


def notes() -> Iterator[type[Note]]:
    """All that components note."""
    waiting = list(Note.__subclasses__())
    while waiting:
        kind = waiting.pop()
        waiting.extend(kind.__subclasses__())
        if kind.__module__.startswith("components.") and kind not in (ImageAdopted, RowsTold):
            yield kind


def test_every_note_occurs_in_a_scene(start: Start) -> None:
    """And so was evolved, and replayed when the scene had ended."""
    noted = {type(fact.event) for scene in SCENES.values() for fact in scene(start).journal}
    assert [] == [kind.__qualname__ for kind in notes() if kind not in noted]


@EVERY
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_any_valid_history_can_be_followed(start: Start, kind: type, seed: int) -> None:
    """`evolve` never refuses: whatever its logs tell, it folds, is woken, and goes on; its images are the plain folds."""
    dice = random.Random(seed)
    machine = SCENES[kind](start)
    fresh = start(machine.component)
    told = {
        follow.log: QueueHistory(seed).draw(150)
        if follow.log == GLOBAL_LOG
        else RegionHistory(seed).draw(150)
        for follow in fresh.component.follows
    }
    while any(told.values()):
        log = dice.choice([log for log, left in told.items() if left])
        count = dice.randint(1, 5)
        fresh.fact(log, *(fact.event for fact in told[log][:count] if isinstance(fact.event, Event)))
        del told[log][:count]
        if dice.random() < 0.5:
            fresh.wait(seconds(dice.choice((0, 1, 30))))
    fresh.wait(seconds(60))
