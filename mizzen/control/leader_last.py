"""A controller for services with one leader: followers first, the leader when all of them are done and healthy.

source    Twine §2.4: an application whose leader is restarted last elects a new one once in a release, not again and again
"""

from collections.abc import Awaitable, Callable, Iterable

from core.messages.control import OperationAsked, TaskControlRequest
from core.nouns.operation import WHOLE, Ack
from mizzen.control.acknowledged import ALONE, Acknowledged, Attempts
from runtime.control.controller import TaskController

WhoLeads = Callable[[], Awaitable[int | None]]
"""The task that leads now; None while nobody does, or nobody knows."""


class LeaderLast(TaskController):
    """Acknowledges operations on followers, a few at a time, and the leader's own when nothing else is left to be done.

    While any task is unhealthy for another reason than an operation that was acknowledged, no healthy one is touched: a
    quorum that has lost one by itself must not lose one more by plan. What is asked for an unhealthy task is acknowledged
    if it starts it again or happens at a deadline anyhow, and otherwise while no other task is missing. Who leads is asked at
    each request, so a leader that changes meanwhile is respected: the old one is a follower then, and the new one's turn
    comes last, or has passed. The leadership may still move between the word and the deed, which nobody here can prevent.

    All tasks of the workload are taken for one group. An operation on a whole gang is never acknowledged.
    """

    def __init__(self, leader: WhoLeads, *, parallel: int = 1) -> None:
        """`parallel`: followers that may be down at once."""
        self._leader = leader
        self._parallel = parallel
        self._attempts = Attempts()

    async def process(self, request: TaskControlRequest) -> Iterable[Ack]:
        """Who leads is only asked when it matters."""
        leader = await self._leader() if request.requests else None
        return self.decide(request, leader)

    def decide(self, request: TaskControlRequest, leader: int | None) -> list[Ack]:
        """The same, for who knows the leader."""
        known = self._attempts.hear(request)
        if known is None:
            return []
        waiting = [asked for asked in known.waiting(request) if asked.task != WHOLE]
        for asked in _coming_back(request, known, waiting):
            known.give(asked.operation, asked.task, ALONE)
            waiting.remove(asked)
        for asked in self._next(request, known, waiting, leader):
            known.give(asked.operation, asked.task)
        return list(known.answer)

    def _next(
        self,
        request: TaskControlRequest,
        known: Acknowledged,
        waiting: list[OperationAsked],
        leader: int | None,
    ) -> list[OperationAsked]:
        """Whose turn it is among those that are up."""
        under_way = {*request.acked, *known.tasks(0)}
        # What was acknowledged and has not begun took nobody down: such a task that is down has failed.
        is_calm = under_way.difference(request.acked).issuperset(request.unhealthy)
        if leader is None or not is_calm:
            return []
        followers = [asked for asked in waiting if asked.task != leader]
        if followers:
            # What happens unasked at a deadline comes first, the nearest of it before the rest.
            followers.sort(key=lambda asked: (not asked.deadline, asked.deadline, asked.operation))
            return followers[: max(0, self._parallel - len(under_way))]
        return [] if under_way else waiting


def _coming_back(
    request: TaskControlRequest, known: Acknowledged, waiting: list[OperationAsked]
) -> list[OperationAsked]:
    """What takes nobody down who is up, and leaves no quorum waiting for longer than it must."""
    missing = {*request.unhealthy, *request.acked, *known.tasks(0), *known.tasks(ALONE)}
    unhealthy = set(request.unhealthy)
    return [
        asked
        for asked in waiting
        if asked.task in unhealthy and (asked.deadline or not asked.kind.stops or missing == {asked.task})
    ]
