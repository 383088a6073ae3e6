"""Plans of where data should live: which homes move, and which regions get copies. There is one key, `ALL_DATA`.

Data is planned once a day, and at most every five minutes, or as the policy says, when demand, supply or waits have moved (core/rules/data/planning.py). The plan
is sent to the queue, which has copies made. While a region's log is not known, nothing is planned: its hardware would count as none.
"""

from msgspec import Struct

from components.planner.loop import Found, LookAgain
from components.planner.state import Pace, PlannerState, Problem, Rows
from core.data_places.asked import PlannedData
from core.events.copies import DataPlanned
from core.events.data import DataPolicySet, StorageSet
from core.fact import Fact
from core.messages.copies import SetDataPlan
from core.nouns.data import DataBasis
from core.nouns.ids import LogName
from core.nouns.instant import Instant, after
from core.nouns.limits import (
    DATA_LOOK,
    DATA_RETRY,
    DATA_RETRY_MAX,
    DATA_SAID_MAX,
    DATA_SETTLE,
    DATA_SPAN,
)
from core.rules.data.planning import (
    asked_of,
    basis_of,
    demand_of,
    looked_at_next,
    settings_revision,
    supply_of,
)

ALL_DATA = ""


class PlanBasis(Struct, frozen=True):
    """What a problem was made from, and how far the queue's log had been read."""

    data: DataBasis
    sequence: int


class DataPlanning:
    """The concern for where data lives."""

    name = "data"
    pace = Pace(DATA_SPAN, DATA_RETRY, DATA_RETRY_MAX, DATA_SAID_MAX, settle=DATA_SETTLE, between=DATA_LOOK)
    of_queue: tuple[str, ...] = ("copies", "data_settings", "datasets", "readings", "regions")
    of_regions: tuple[str, ...] = ("capacity",)
    unrecorded = "the queue does not record the plan"

    def adopted(self, rows: Rows, log: LogName, at: Instant) -> None:
        """Begin again, whichever log it is, once nodes have joined and waiting work was told."""
        rows.begin(ALL_DATA, after(at, DATA_SETTLE))

    def follow(self, state: PlannerState, rows: Rows, fact: Fact, at: Instant) -> None:
        """Note that a plan was recorded, and that any fact may have changed what plans are made from."""
        event = fact.event
        if isinstance(event, StorageSet | DataPolicySet):
            rows.forgive(ALL_DATA)
        if isinstance(event, DataPlanned) and not event.is_more:
            rows.recorded(ALL_DATA)
        if state.queue.data_settings.storage:
            rows.moved(ALL_DATA, at)

    def look(self, state: PlannerState, key: str, now: Instant) -> Found:
        """Return the problem of where data should live, if a plan is due."""
        queue = state.queue
        if not queue.data_settings.policy.is_automatic or not queue.data_settings.storage:
            return LookAgain()
        regions = sorted(set(queue.regions.sequences) - set(queue.regions.abandoned))
        unknown = [region for region in regions if region not in state.regions]
        if unknown:
            return f"the log of {', '.join(unknown)} is not known yet"
        supply = {region: supply_of(state.regions[region].capacity) for region in regions}
        demand = demand_of(queue.readings, now)
        basis = basis_of(queue, demand, supply)
        next_look = looked_at_next(queue, basis, now)
        if next_look > now:
            return LookAgain(next_look)
        asked = asked_of(queue, demand, supply)
        return Problem(queue.copies.plan.number, asked, PlanBasis(basis, state.queue_sequence))

    def is_outdated(self, state: PlannerState, key: str, problem: Problem) -> bool:
        """Return whether an operator changed a setting meanwhile, or another plan was recorded."""
        assert isinstance(problem.basis, PlanBasis), problem
        is_newest = problem.revision == state.queue.copies.plan.number
        return not is_newest or problem.basis.data.settings != settings_revision(state.queue)

    def command(self, state: PlannerState, key: str, problem: Problem, answer: Struct) -> Found:
        """Return the command to the queue."""
        assert isinstance(answer, PlannedData), problem
        assert isinstance(problem.basis, PlanBasis), problem
        return (
            SetDataPlan(
                problem.revision + 1,
                problem.basis.sequence,
                answer.actions,
                answer.gain,
                answer.bytes,
                answer.before,
                answer.after,
                problem.basis.data,
                by="planner",
            ),
        )
