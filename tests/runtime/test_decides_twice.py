"""A host that decides everything twice finds decisions that change the state, and memos that differ from what they stand for."""

from typing import Any

import pytest

from core.component import Decision
from core.messages.base import Envelope
from core.messages.queue import Acknowledged, ShowWorkload
from core.nouns.ids import GLOBAL_LOG
from runtime.errors import BrokenInvariant
from runtime.host import Host
from runtime.images import load_image
from runtime.keeping.kept import Kept
from tests.runtime.aids import (
    FLEET,
    Counter,
    CounterState,
    Place,
    Running,
    count,
    how_many,
    number_of,
    virtual,
)


class Forgetting(Counter):
    """A counter with a memo of how many names there are, and the number of times that the memo was emptied."""

    def __init__(self, *, is_stale: bool = False) -> None:
        super().__init__()
        self.is_stale = is_stale
        """Whether the memo stays as it was first filled, whatever is counted afterwards."""
        self.memo: int | None = None
        self.forgotten = 0

    def decide(self, state: CounterState, envelope: Envelope) -> Decision:
        if not isinstance(envelope.message, ShowWorkload):
            if not self.is_stale:
                self.memo = None
            return super().decide(state, envelope)
        if self.memo is None:
            self.memo = len(state.names)
        return Decision(messages=(Acknowledged(envelope.message.workload, self.memo),))

    def forget_memos(self, state: Any) -> None:  # Any: as in core/component.py
        self.memo = None
        self.forgotten += 1


class Impure(Counter):
    """A counter that counts, while it decides, how often it was asked."""

    asked = 0

    def decide(self, state: CounterState, envelope: Envelope) -> Decision:
        self.asked += 1
        if isinstance(envelope.message, ShowWorkload):
            return Decision(messages=(Acknowledged(envelope.message.workload, self.asked),))
        return super().decide(state, envelope)


async def kept(place: Place, component: Counter, *, decides_twice: bool) -> Running:
    """A keeper with this component."""
    bus = place.network.endpoint(component.name)
    log = await place.store.open(GLOBAL_LOG, "log-1")
    image, _, _ = await load_image(await place.store.reader(GLOBAL_LOG), GLOBAL_LOG)
    kept_log = Kept(log, image, FLEET, "test")
    running = Running(
        place.loop, Host(component, bus, place.clock(), kept_log, decides_twice=decides_twice), bus
    )
    await place.moment()
    return running


async def counted_after_a_question(place: Place, keeper: Running) -> BaseException | None:
    """What the keeper died of: one question, a name to count, and the question once more."""
    for message in (how_many(), count("a"), how_many()):
        place.client.say(message)
        await place.sleep(1)
    return keeper.failure


@virtual
async def test_pure_decisions_pass(place: Place) -> None:
    """The answers are those of a host that decides once, and the memo was emptied before each second decision."""
    counter = Forgetting()
    keeper = await kept(place, counter, decides_twice=True)
    assert [0, 1, 1] == [number_of(await place.ask(one)) for one in (how_many(), count("a"), how_many())]
    assert keeper.failure is None
    assert keeper.host.counts.decided == counter.forgotten


@virtual
async def test_decision_that_changes_the_state_stops_the_host(place: Place) -> None:
    """The message that was decided in two ways is named."""
    keeper = await kept(place, Impure(), decides_twice=True)
    failure = await counted_after_a_question(place, keeper)
    assert isinstance(failure, BrokenInvariant)
    assert "decided ShowWorkload twice, and not alike" in str(failure)


@virtual
async def test_memo_that_differs_from_what_it_stands_for_stops_the_host(place: Place) -> None:
    """A memo that nothing empties when its subject changes gives one answer, and an empty memo another."""
    counter = Forgetting(is_stale=True)
    counter.memo = 7
    keeper = await kept(place, counter, decides_twice=True)
    failure = await counted_after_a_question(place, keeper)
    assert isinstance(failure, BrokenInvariant)


@pytest.mark.parametrize("component", [Impure, lambda: Forgetting(is_stale=True)])
def test_host_that_decides_once_compares_nothing(component: Any) -> None:  # Any: a class or a function
    """Comparing is for simulations and tests: a plane pays for one decision."""

    async def body(place: Place) -> None:
        keeper = await kept(place, component(), decides_twice=False)
        assert await counted_after_a_question(place, keeper) is None

    virtual(body)()
