"""Every machine that a test starts is held to a component's promises when the test has ended."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from core.component import Component
from tests.components.machine import Machine


@pytest.fixture
def start() -> Iterator[Callable[..., Machine[Any]]]:
    """Starts a component in a machine of its own."""
    crew: list[Machine[Any]] = []

    def start_one(component: Component[Any], **options: Any) -> Machine[Any]:  # Any: a machine's own options
        return Machine(component, crew=crew, **options)

    yield start_one
    for machine in crew:
        machine.check()
