"""Rules 2 and 3 for moves between regions: a workload stops once the new region keeps capacity, and continues only there."""

from core.events.moves import MoveBegun, MovePlanned
from core.events.queue import WorkloadAwarded
from core.fact import Fact
from core.images import GlobalImage, RegionImage
from core.nouns.ids import RegionName


def check_move(fact: Fact, before: GlobalImage, regions: dict[RegionName, RegionImage]) -> list[str]:
    """Return the violations of a move by a fact of the queue, before the fact is folded."""
    event = fact.event
    if not isinstance(event, MovePlanned | MoveBegun | WorkloadAwarded):
        return []
    row, name = before.workloads.rows.get(event.workload), event.workload
    if row is None:
        return []
    move = row.move
    match event:
        case MovePlanned():
            if move is not None or not row.is_active or row.epoch != event.epoch:
                return [
                    f"{name}: a move of attempt {event.epoch} is planned, and it is {row.phase}, attempt {row.epoch}"
                ]
        case MoveBegun():
            if move is None or (move.revision, move.region) != (event.revision, event.region):
                return [f"{name}: move {event.revision} begins, and is not planned"]
            image = regions.get(event.region)
            kept = image is None or event.workload in image.starts.rows or event.workload in image.starts.over
            return (
                []
                if kept
                else [f"{name}: move {event.revision} begins, and {event.region} keeps no room for it"]
            )
        case WorkloadAwarded() if move is not None:
            if event.region != move.region:
                return [f"{name}: awarded to {event.region} while it moves to {move.region}"]
            if fact.at < move.arrives_at:
                return [f"{name}: awarded while its checkpoint is on its way"]
    return []
