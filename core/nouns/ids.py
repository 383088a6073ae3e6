"""Names of things, each its own type, so that a region's name is never taken for a worker's."""

from typing import NewType

WorkloadId = NewType("WorkloadId", str)
"""A workload: `w-<number>`, numbered by the queue in the order of submission and never reused."""

ClaimId = NewType("ClaimId", str)
"""A claim: drawn by the agent that makes it from its own name, the workload, the epoch and the try."""

RegionName = NewType("RegionName", str)
AgentName = NewType("AgentName", str)
WorkerName = NewType("WorkerName", str)
TenantName = NewType("TenantName", str)

LogName = NewType("LogName", str)
"""`global`, or `region.<name>`."""

GLOBAL_LOG = LogName("global")


def region_log(region: RegionName) -> LogName:
    """The log that the region's placement store keeps."""
    return LogName(f"region.{region}")


def region_of(log: LogName) -> RegionName:
    """The region whose log this is; the global log belongs to none."""
    assert log.startswith("region."), log
    return RegionName(log.removeprefix("region."))


AttemptKey = tuple[WorkloadId, int]
"""One attempt: its workload and its epoch."""
