"""The roles, one file or folder each. They decide and fold; hosts in runtime/ do the rest."""

from components.allocation_agent.component import AllocationAgent
from components.auditor.component import Auditor
from components.data_service import DataService
from components.function_router.component import FunctionRouter
from components.function_server.component import FunctionServer
from components.harvester import Harvester
from components.job_queue.component import JobQueue
from components.placement_store.component import PlacementStore
from components.planner.component import Planner
from components.region_broker.component import RegionBroker
from components.task_control.component import TaskControl
from components.worker import Worker

COMPONENTS = (
    JobQueue,
    PlacementStore,
    RegionBroker,
    TaskControl,
    AllocationAgent,
    Worker,
    DataService,
    FunctionServer,
    FunctionRouter,
    Harvester,
    Planner,
    Auditor,
)
"""Every role. Keepers stand first, because everybody else follows their logs."""

__all__ = [
    "COMPONENTS",
    "AllocationAgent",
    "Auditor",
    "DataService",
    "FunctionRouter",
    "FunctionServer",
    "Harvester",
    "JobQueue",
    "PlacementStore",
    "Planner",
    "RegionBroker",
    "TaskControl",
    "Worker",
]
