"""Names of things, each its own type, so that a region's name is never taken for a worker's."""

from typing import NamedTuple, NewType

WorkloadId = NewType("WorkloadId", str)
"""A workload: `w-<number>`, numbered by the queue in the order of submission and never reused."""

PipelineId = NewType("PipelineId", str)
"""A pipeline: `p-<number>`, numbered by the queue in the order of submission and never reused."""

FunctionId = NewType("FunctionId", str)
"""A function: `tenant/name/digest`. Names of functions have no slash."""

ClaimId = NewType("ClaimId", str)
"""A claim: drawn by the agent that makes it from its own name, the workload, the epoch and the try."""

RegionName = NewType("RegionName", str)
AgentName = NewType("AgentName", str)
WorkerName = NewType("WorkerName", str)
TenantName = NewType("TenantName", str)
DatasetName = NewType("DatasetName", str)

LogName = NewType("LogName", str)
"""`global`, or `region.<name>`."""

GLOBAL_LOG = LogName("global")


def submission_key(submitter: str, key: str) -> str:
    """Return an idempotency key as images hold it: two submitters may use the same one, and neither can write the other's."""
    return f"{len(submitter)} {submitter} {key}"


def region_log(region: RegionName) -> LogName:
    """The log that the region's placement store keeps."""
    return LogName(f"region.{region}")


def region_of(log: LogName) -> RegionName:
    """Return the region of a log; the global log belongs to no region."""
    assert log.startswith("region."), log
    return RegionName(log.removeprefix("region."))


AttemptKey = tuple[WorkloadId, int]
"""One attempt: its workload and its epoch."""


class ShareKey(NamedTuple):
    """What one worker runs of an attempt: all its tasks there, or one run of one task that stands alone."""

    workload: WorkloadId
    epoch: int
    task: int = -1
    """The task's number; -1: all that the worker has of a gang."""
    run: int = 0
    """How often the task was started again under this epoch."""

    @property
    def attempt(self) -> AttemptKey:
        """The attempt that it belongs to."""
        return (self.workload, self.epoch)
