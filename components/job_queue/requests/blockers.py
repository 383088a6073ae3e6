"""Workloads in the way of a waiting workload: those that hold a region's capacity, and those for which capacity is kept."""

from components.job_queue.state.queue_state import QueueState
from core.images import RegionImage
from core.messages.queue import Holder
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.limits import HOLDERS_SHOWN_MAX
from core.nouns.placement import gpu_milli_of
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec


def holders_of(state: QueueState, image: RegionImage, jobs: tuple[JobSpec, ...]) -> tuple[Holder, ...]:
    """Return the workloads that hold most GPUs on nodes that the jobs could use, largest first, as the region's log shows.

    For jobs without GPUs, CPUs are compared instead. At most `HOLDERS_SHOWN_MAX` are returned.
    """
    wants_gpus = gpu_milli_of(jobs) > 0
    mine = [job for job in jobs if job.need.gpu_milli or not wants_gpus]
    found = []
    for workload, epochs in image.attempts.rows.items():
        row = state.image.workloads.rows.get(workload)
        live = [attempt.spreads for attempt in epochs.values() if attempt.phase.is_live]
        if row is None or not live:
            continue
        held = Amount()
        for spreads in live:
            for theirs, spread in zip(row.spec.jobs, spreads, strict=False):
                tasks = sum(
                    count
                    for node, count in zip(spread.nodes, spread.tasks, strict=True)
                    if any(job.takes(image.hardware.type_of(node)) for job in mine)
                )
                held = held.plus(theirs.need.times(tasks))
        if held.gpu_milli if wants_gpus else held.cpu_milli:
            found.append(Holder(workload, row.level, held.gpu_milli, 0 if wants_gpus else held.cpu_milli))
    found.sort(key=lambda one: (-(one.gpu_milli if wants_gpus else one.cpu_milli), one.workload))
    return tuple(found[:HOLDERS_SHOWN_MAX])


def kept_for(
    state: QueueState, region: RegionName, against: Reason | None, workload: WorkloadId
) -> tuple[WorkloadId, ...]:
    """Return the workloads for which a region keeps free capacity: reservations, open bids, or a region drain.

    At most `HOLDERS_SHOWN_MAX` are returned.
    """
    match against:
        case Reason.START_RESERVED:
            rows = state.image.start_promises.rows
            found = [one for one, promised in rows.items() if promised.region == region]
        case Reason.OPEN_BIDS:
            found = [one for one, auction in state.auctions.open.items() if region in auction.bids]
        case Reason.ROOM_GATHERED | Reason.AHEAD_OF_DUE:
            found = [state.drain.workload] if state.drain is not None else []
        case _:
            found = []
    return tuple(one for one in found if one != workload)[:HOLDERS_SHOWN_MAX]
