"""The device book beside an emulated worker: what tasks of its spool hold for functions."""

from collections.abc import Callable

from core.nouns.function import Holding
from runtime.spool import EmulatedSpool
from runtime.tasks.emulated import holdings_of


class TasksBook:
    """The book of one spool of this process (runtime/functions/emulated.py `BookSource`)."""

    def __init__(self, spool: EmulatedSpool) -> None:
        self._spool = spool

    def holdings(self) -> tuple[Holding, ...]:
        """Return what tasks hold now, those that stop included."""
        return holdings_of(self._spool.shares.values())

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back whenever a task that serves functions starts, stops or ends, from now on."""
        self._spool.on_serving = changed
