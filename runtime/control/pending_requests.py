"""What a controller was asked about one attempt and what it answered: the rules of the protocol on the application's side.

Nothing here waits or speaks: `serving.py` does that over a bus, `harness.py` in memory.
"""

from collections.abc import Iterable
from itertools import islice

import msgspec
from msgspec.structs import replace

from core.messages.control import TaskControlRequest, TaskControlResponse
from core.nouns.limits import CONTROL_ASKED_MAX
from core.nouns.operation import Ack


class Unusable(Exception):
    """What `process` returned is no answer; the text says why."""


class Docket:
    """One attempt."""

    def __init__(self, request: TaskControlRequest) -> None:
        self.newest = request
        self.answer: TaskControlResponse | None = None
        """To the newest request, or to an older one."""
        self._told: set[int] = set()
        """Of what the newest request tells as completed, what the controller has been shown."""

    @property
    def standing(self) -> TaskControlResponse | None:
        """The answer, if nothing new was asked since."""
        is_active = self.answer is not None and self.answer.sequence == self.newest.sequence
        return self.answer if is_active else None

    def take(self, request: TaskControlRequest) -> bool:
        """Note a request; False when it is older than one that is known. A repeat is newer by the time that has passed."""
        if request.sequence < self.newest.sequence:
            return False
        self.newest = request
        # Whatever else was told, the region does not tell again.
        self._told &= {done.operation for done in request.completed}
        return True

    def shown(self) -> TaskControlRequest:
        """The newest request as the controller is to see it."""
        fresh = tuple(done for done in self.newest.completed if done.operation not in self._told)
        return replace(self.newest, completed=fresh)

    def answered(self, request: TaskControlRequest, acks: Iterable[Ack]) -> TaskControlResponse:
        """Note that the controller has seen this and said that."""
        self._told |= {done.operation for done in request.completed}
        self.answer = TaskControlResponse(
            request.job.region,
            request.tenant,
            request.controller,
            request.job.workload,
            request.job.epoch,
            request.sequence,
            tuple(acks),
        )
        return self.answer


def acks_in(request: TaskControlRequest, given: object) -> tuple[tuple[Ack, ...], tuple[int, ...]]:
    """The acknowledgements among what `process` returned, and the numbers in it for which nobody asked. Raises Unusable."""
    if not isinstance(given, Iterable):
        hint = "; return [] to let all wait" if given is None else ""
        raise Unusable(f"process returned {type(given).__name__}, which is no list of Ack{hint}")
    found = list(islice(given, CONTROL_ASKED_MAX + 1))
    if len(found) > CONTROL_ASKED_MAX:
        raise Unusable(f"process returned more than {CONTROL_ASKED_MAX} acknowledgements")
    strange = next((one for one in found if not isinstance(one, Ack)), None)
    if strange is not None:
        raise Unusable(f"process returned {strange!r} among its acknowledgements, which is no Ack")
    try:
        acks = msgspec.convert([msgspec.to_builtins(ack) for ack in found], tuple[Ack, ...])
    except (msgspec.MsgspecError, TypeError) as error:
        raise Unusable(f"process returned an Ack that cannot be said: {error}") from error
    asked = {operation.operation for operation in request.requests}
    said = {ack.operation: ack for ack in acks if ack.operation in asked}
    return tuple(said.values()), tuple(ack.operation for ack in acks if ack.operation not in asked)
