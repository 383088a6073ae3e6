"""The roles, one file or folder each. They decide and fold; hosts in runtime/ do the rest."""

from components.allocation_agent import AllocationAgent
from components.auditor import Auditor
from components.job_queue import JobQueue
from components.placement_store import PlacementStore
from components.planner import Planner
from components.region_broker import RegionBroker
from components.task_control import TaskControl
from components.worker import Worker

COMPONENTS = (JobQueue, PlacementStore, RegionBroker, TaskControl, AllocationAgent, Worker, Planner, Auditor)
"""Every role. Keepers stand first, because everybody else follows their logs."""

__all__ = [
    "COMPONENTS",
    "AllocationAgent",
    "Auditor",
    "JobQueue",
    "PlacementStore",
    "Planner",
    "RegionBroker",
    "TaskControl",
    "Worker",
]
