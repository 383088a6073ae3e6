"""What users ask the job queue about moves between regions, and its answer."""

from core.messages.base import Answer, Message
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.moving import MoveCost


class MoveWorkload(Message, frozen=True, tag="move-workload", forbid_unknown_fields=True):
    """Have this attempt stop after a checkpoint, and the workload go on in another region. Asked again until it is planned or refused;
    to stay where it is calls a move off that has not begun.
    """

    workload: WorkloadId
    epoch: int
    """The attempt meant; another one is left alone."""
    region: RegionName
    revision: int
    """Of the workload's moves, as whoever asks saw it; another one is refused as superseded."""
    is_forced: bool = False
    """Also if it does not pay."""
    by: str = ""


class MoveAnswered(Answer, frozen=True, tag="move-answered"):
    """How far that is."""

    workload: WorkloadId
    region: RegionName
    revision: int
    """Of the move that is planned; 0: the region is being asked for room."""
    cost: MoveCost


MESSAGES: tuple[type[Message], ...] = (MoveWorkload, MoveAnswered)
