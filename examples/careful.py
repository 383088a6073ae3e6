"""Decides when the tasks of a replicated service may be touched: of each shard's three replicas one at a time."""

from collections.abc import Iterable

from mizzen import Ack, Answer, TaskController, TaskControlRequest, job_and_rank

REPLICAS = 3


def shard_of(task: int) -> int:
    """Ranks 0, 1 and 2 hold shard 0, the next three hold shard 1."""
    return job_and_rank(task)[1] // REPLICAS


class Careful(TaskController):
    """A shard that lacks a replica, for whatever reason, loses no other by plan."""

    async def process(self, request: TaskControlRequest) -> Iterable[Ack]:
        """What may proceed now; the rest comes again."""
        short = {notice.notice for notice in request.notices if notice.kind == "network"}
        lacking = {shard_of(task) for task in (*request.unhealthy, *request.acked)}
        acks = []
        for asked in request.requests:
            if asked.notice in short:  # Some minutes unreachable are cheaper than a replica built anew.
                acks.append(Ack(asked.operation, Answer.IGNORE))
            elif asked.task in request.unhealthy:  # It is down already: this brings it back.
                acks.append(Ack(asked.operation))
            elif shard_of(asked.task) not in lacking:
                lacking.add(shard_of(asked.task))
                acks.append(Ack(asked.operation))
        return acks
