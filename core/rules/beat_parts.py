"""The parts of a worker's beat: one for each workload that has a share there, so that one workload can be left out of the beat.

A beat names all shares of a worker, and a share that is missing has ended. A part therefore names the shares left out as well.
"""

from collections.abc import Collection

from msgspec.structs import replace

from core.messages.workers import PartOfBeat, WorkerBeat, WorkerReport
from core.nouns.ids import WorkloadId


def reports_in(beat: WorkerBeat) -> dict[WorkloadId, WorkerReport]:
    """Return a report of each workload in a beat: of the workload's first share there."""
    reports: dict[WorkloadId, WorkerReport] = {}
    for share in beat.tasks:
        if share.workload not in reports:
            reports[share.workload] = WorkerReport(beat.region, beat.worker, share, beat.order, beat.life)
    return reports


def part_of(beat: WorkerBeat, workloads: Collection[WorkloadId]) -> WorkerBeat | PartOfBeat:
    """Return the beat with the shares of these workloads alone; the beat itself if there are no others."""
    said = tuple(share for share in beat.tasks if share.workload in workloads)
    if len(said) == len(beat.tasks):
        return beat
    unsaid = tuple(share.key for share in beat.tasks if share.workload not in workloads)
    return PartOfBeat(replace(beat, tasks=said), unsaid)
