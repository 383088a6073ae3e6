"""Doing what components ask for: each sort of effect has one doer, and whatever comes of a deed comes back as a message."""

from collections.abc import Callable
from typing import Protocol

import structlog

from core.component import Effect
from core.messages.base import Message

logger = structlog.get_logger()

Done = Callable[[Message], None]
"""Puts a message into the inbox of the component that asked. Never waits."""


class Doer(Protocol):
    """Does the effects of one component."""

    def attach(self, done: Done) -> None:
        """From now on this is where outcomes go: the component has just started."""

    def begin(self, effect: Effect) -> None:
        """Begin a deed. Doing it twice changes nothing more. Never waits."""


def tell_refused(worker: str, problems: tuple[str, ...]) -> None:
    """What a worker's region has against its nodes, for whoever started it."""
    logger.warning("join_refused", worker=worker, problems=list(problems))
