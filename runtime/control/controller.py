"""The class that an application subclasses in order to decide when its tasks may be touched (Twine §2.4)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from core.messages.control import JobHandle, TaskControlRequest
from core.nouns.operation import Ack

Reconsider = Callable[[JobHandle | None], None]
"""Has a controller asked again: about one attempt, or about all."""


class TaskController(ABC):
    """Decides which operations on an application's tasks may proceed, and when.

    A region asks with the whole state of one attempt, and asks again while anything waits: what is not acknowledged now
    comes again, so there is nothing to remember but what the application itself knows. Silence means `not yet`. An answer
    that raises counts as silence.
    """

    _reconsider: Reconsider | None = None

    @abstractmethod
    async def process(self, request: TaskControlRequest) -> Iterable[Ack]:
        """Which of `request.requests` may proceed now: any of them, in any order; the rest is asked for again.

        Called once for each request that says something new, again for one on which it failed, and again whenever
        `reconsider` is called; never twice at a time for one attempt. `request.completed` is told once.
        """

    def reconsider(self, job: JobHandle | None = None) -> None:
        """Have `process` called again on what still waits, of one attempt or of all, because the application has come to
        another mind: a leader changed, a backup is done. Call it in the event loop that serves the controller; while nobody
        does, it does nothing.
        """
        if self._reconsider is not None:
            self._reconsider(job)

    def attach(self, reconsider: Reconsider | None) -> None:
        """Called by whatever serves the controller, and with None when it no longer does."""
        self._reconsider = reconsider
