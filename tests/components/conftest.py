"""Every machine that a test starts is held to a component's promises when the test has ended."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from components.placement_store.component import PlacementStore
from core.component import Component
from core.events.log import LogOpened
from core.images import RegionImage
from core.invariants.consistency import check_ledger, check_region_fact
from core.invariants.control import check_control
from tests.components.support.machine import Machine

DECIDED = "m-"
"""What the cause of a fact begins with that a machine's component decided."""


@pytest.fixture
def start() -> Iterator[Callable[..., Machine[Any]]]:
    """Starts a component in a machine of its own."""
    crew: list[Machine[Any]] = []

    def start_one(component: Component[Any], **options: Any) -> Machine[Any]:  # Any: a machine's own options
        return Machine(component, crew=crew, **options)

    yield start_one
    for machine in crew:
        machine.check()
        if isinstance(machine.component, PlacementStore):
            _audit(machine)


def _audit(store: Machine[Any]) -> None:
    """Whatever a test had a store record, the auditor finds nothing wrong with it. What a test put into its log itself may be."""
    assert isinstance(store.component, PlacementStore)
    facts = store.logs[store.component.keeps]
    if not all(fact.cause.startswith(DECIDED) or isinstance(fact.event, LogOpened) for fact in facts):
        return
    image = RegionImage.empty()
    for fact in facts:
        assert [] == check_region_fact(store.component.region, fact, image, None), fact
        image.fold(fact)
    assert [] == check_ledger(image.capacity)
    assert [] == check_control(image)
