"""Data on a small plane: what operators say of it, and what data services report."""

from collections.abc import Callable
from typing import Any

from components.data_service import DataService
from components.job_queue.component import JobQueue
from core.component import Decision
from core.events.copies import CopyFailed, CopyMade, CopyOrdered, DropCleared, DropOrdered
from core.messages.copies import (
    CopyChanged,
    DataDropped,
    DataHashed,
    ListCopies,
    ReportCopy,
    ReportDrop,
    ReportHash,
    SetDataPlan,
    ShowDataPlan,
)
from core.messages.data import SetDataPolicy, SetDataset, SetLink, SetStorage, ShowDataSettings
from core.messages.queue import SubmitWorkload
from core.nouns.data import ActionKind, DataFigures, DataPolicy, PlannedAction
from core.nouns.ids import GLOBAL_LOG, DatasetName, RegionName
from core.nouns.instant import seconds
from core.nouns.limits import COMMAND_SAY_AGAIN, COPY_LOOK_SOON, WAITING_READS_INTERVAL
from tests.builders import EU, EU_LOG, US, US_LOG, a_spec, joined
from tests.components.support.machine import Machine
from tests.matching import facts

Start = Callable[..., Machine[Any]]
CLICKS, USERS, VIEWS = DatasetName("clicks"), DatasetName("users"), DatasetName("views")
GB = 10**9
HASH = "c0ffee"


def a_queue_with_data(
    start: Start, *, storage: int = 100 * GB, day_permille: int = 1000, us: str = "H100", eu: str = "H100"
) -> Machine[Any]:
    """A queue over two regions of four nodes each with storage, whose copies may have all bytes in a day."""
    machine = start(JobQueue((US, EU), (US, EU)))
    machine.fact(EU_LOG, joined(gpu_type=eu))
    machine.fact(US_LOG, joined(gpu_type=us))
    machine.wake()
    for region in (EU, US):
        machine.hear(SetStorage(region, storage, 0, "root"))
    machine.hear(SetDataPolicy(DataPolicy(day_permille=day_permille, day_bytes_min=0), 0, "root"))
    return machine


def place(
    machine: Machine[Any],
    name: DatasetName,
    *regions: RegionName,
    size: int = GB,
    hash_: str = HASH,
    is_pinned: bool = False,
) -> None:
    """A dataset is in these regions, at home in the first."""
    revision = machine.state.image.datasets.revision_of(name)
    home = regions[0] if regions else None
    machine.hear(SetDataset(name, regions, home, revision, "root", size, is_pinned, hash_))


def look(machine: Machine[Any]) -> Decision:
    """The queue looks at copies."""
    return machine.wait(COPY_LOOK_SOON)


def events(decision: Decision, *kinds: type) -> list[Any]:
    """The facts of these kinds."""
    return [event for event in facts(decision) if isinstance(event, kinds)]


def ordered(decision: Decision) -> list[CopyOrdered]:
    """The orders of copies."""
    return [event for event in facts(decision) if isinstance(event, CopyOrdered)]


def cleared(decision: Decision) -> list[DropCleared]:
    """The copies that may be deleted."""
    return [event for event in facts(decision) if isinstance(event, DropCleared)]


def made(machine: Machine[Any], order: CopyOrdered) -> Decision:
    """The target's data service reports that a copy is made."""
    return machine.hear(ReportCopy(order.target, order.copy, order.bytes, is_over=True))


def failed(machine: Machine[Any], order: CopyOrdered, reason: str, moved: int = 0) -> Decision:
    """It reports that it is not."""
    return machine.hear(ReportCopy(order.target, order.copy, moved, is_over=True, reason=reason))


def plan(machine: Machine[Any], *actions: PlannedAction, number: int = 0) -> Decision:
    """The planner says a plan, the next one unless another number is given."""
    following = machine.state.image.copies.plan.number + 1
    figures = DataFigures(), DataFigures()
    said = SetDataPlan(number or following, machine.sequence(GLOBAL_LOG), actions, 10, 20, *figures)
    return machine.hear(said)


def move(name: DatasetName, source: RegionName, target: RegionName, level: int = 0) -> PlannedAction:
    """A step of a plan by which a home moves."""
    return PlannedAction(ActionKind.MOVE, name, source, target, GB, 5, level)


def copy(name: DatasetName, source: RegionName, target: RegionName, level: int = 0) -> PlannedAction:
    """A step of a plan by which a copy is added."""
    return PlannedAction(ActionKind.COPY, name, source, target, GB, 5, level)


def drop(name: DatasetName, region: RegionName) -> PlannedAction:
    """A step of a plan by which a copy is dropped."""
    return PlannedAction(ActionKind.DROP, name, region, RegionName(""), 0)


def say_all_of_data(machine: Machine[Any]) -> None:
    """Part of the scene of a queue whose regions have data services: settings, a plan, a move of a home, and questions."""
    machine.hear(SetStorage(EU, 100 * GB, 0))
    machine.hear(SetStorage(US, 100 * GB, 0))
    machine.hear(SetLink(EU, US, GB, 0))
    machine.hear(SetDataPolicy(DataPolicy(day_permille=1000), 0))
    machine.hear(SetDataset(VIEWS, (EU,), EU, 0, "root", GB))
    plan(machine, move(VIEWS, EU, US))
    (order,) = ordered(look(machine))
    machine.hear(ReportHash(EU, order.copy, VIEWS, HASH, GB))
    machine.hear(ReportCopy(US, order.copy, GB // 2))
    made(machine, order)
    look(machine)
    machine.hear(ReportDrop(EU, VIEWS))
    machine.hear(ListCopies())
    machine.hear(ShowDataPlan())
    machine.hear(ShowDataSettings())
    machine.hear(SubmitWorkload(a_spec(data=[USERS]), "ada", "reads"))
    machine.wait(WAITING_READS_INTERVAL)


def of_the_data_service(start: Start) -> Machine[Any]:
    """A hash is asked for and told, a copy begun, told of and ended, an order taken back, a copy deleted."""
    machine = start(DataService(US))
    machine.fact(
        GLOBAL_LOG, CopyOrdered(1, CLICKS, US, EU, GB, GB), CopyOrdered(2, USERS, EU, US, GB, GB, HASH)
    )
    machine.fact(GLOBAL_LOG, CopyOrdered(3, VIEWS, EU, US, GB, GB, HASH))
    machine.wake()
    machine.hear(DataHashed(1, CLICKS, HASH, GB))
    machine.hear(CopyChanged(2, GB // 2))
    machine.hear(CopyChanged(2, GB, is_over=True))
    machine.wait(COMMAND_SAY_AGAIN)
    machine.fact(
        GLOBAL_LOG,
        CopyMade(2, USERS, US, 2),
        CopyFailed(3, VIEWS, US, "dataset_changed"),
        DropOrdered(CLICKS, 3, US),
        DropCleared(CLICKS, US),
    )
    machine.wake()
    machine.hear(DataDropped(CLICKS))
    machine.wait(seconds(5))
    return machine
