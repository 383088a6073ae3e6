"""What happens to tasks and to the nodes under them, fact by fact, as a sentence each."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from core.events.control import (
    AcksExpired,
    AttemptChanged,
    ClaimRevised,
    ControlAnswered,
    ControlForgotten,
    DestructionHalted,
    DomainLost,
    MaintenanceMoved,
    MaintenancePlanned,
    NodesClosed,
    NodesOpened,
    OperationsBegun,
    OperationsDone,
    OperationsRequested,
    OperationsStuck,
    ScopeJoined,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.log import ClockAccepted
from core.events.moves import MoveBegun, MoveEnded, MovePlanned
from core.events.pools import NodesPooled, PoolChanged, PoolingPolicySet, PoolsApplied, PoolsPlanned
from core.events.queue import PrioritySet, RefusalsNoted, StandingChanged, WorkloadChanged
from core.events.region import AttemptRanked, PreemptionSet, PromiseRevised
from core.events.starts import StartPromised, StartPromiseEnded, StartReserved, StartUnreserved
from core.fact import Event
from core.nouns.operation import WHOLE, BegunBy, Outcome, TaskMove, job_and_rank
from core.nouns.placement import runs_of
from core.nouns.starts import SENTENCES as START_OVER
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import EndCause
from mizzen.views.fleet.preemption_table import preemption_text
from mizzen.views.phrases.durations import short_text
from mizzen.views.phrases.pool_text import WHY, nodes_count, policy_text, settings_text
from mizzen.views.phrases.reservation_text import over_sentence, promised_sentence, reserved_sentence
from mizzen.views.phrases.text import gpus_text, instant_text, numbers_text, time_text

Names = Sequence[str]
"""Of a workload's jobs, by their places; empty where they are not known."""

SHOWN_MAX = 5
"""Moves that a sentence names."""

BEGUN = {
    BegunBy.ACK: "as its controller allowed",
    BegunBy.LIMITS: "as its own limits allow, for it names no controller",
    BegunBy.DEADLINE: "unasked, for its time was up",
}
OVER = {
    Outcome.HEALTHY: "done, and its tasks are healthy",
    Outcome.GONE: "done, and its tasks are no more",
    Outcome.IGNORED: "over: its controller wanted nothing done",
    Outcome.WITHDRAWN: "withdrawn: no longer wanted",
}


def sentence_of(event: Event, jobs: Names = ()) -> str:
    """What happened; empty for what is told elsewhere (because.py)."""
    speak = SENTENCES.get(type(event))
    return speak(event, jobs) if speak is not None else ""


def tasks_text(tasks: Iterable[int], jobs: Names = ()) -> str:
    """`its gang`, `main/3`, or `4 tasks (main/0-2, eval/0)`."""
    numbers = sorted(tasks)
    if numbers == [WHOLE]:
        return "its gang"
    ranks: dict[int, list[int]] = {}
    for number in numbers:
        job, rank = job_and_rank(number)
        ranks.setdefault(job, []).append(rank)
    parts = [f"{_job(job, jobs)}/{numbers_text(runs_of(mine))}" for job, mine in ranks.items()]
    return parts[0] if len(numbers) == 1 else f"{len(numbers)} tasks ({', '.join(parts)})"


def _job(job: int, jobs: Names) -> str:
    return jobs[job] if job < len(jobs) else str(job)


def _operations(numbers: Iterable[int]) -> str:
    listed = sorted(numbers)
    called = "operation" if len(listed) == 1 else "operations"
    return f"{called} {numbers_text(runs_of(listed))}"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


# The log itself.


def _clock(event: ClockAccepted, _: Names) -> str:
    where = "ahead of" if event.ahead > 0 else "behind"
    span = short_text(abs(event.ahead))
    return f"an operator lets the log go on, {span} {where} its machine's clock ({instant_text(event.machine_at)})"


# Tasks.


def _down(event: TasksDown, jobs: Names) -> str:
    who = tasks_text(event.tasks, jobs)
    if event.cause == EndCause.COMPLETED:
        return f"{who} {'has' if len(event.tasks) == 1 else 'have'} completed"
    code = f" with exit code {event.exit_code}" if event.exit_code else ""
    where = f" on {_nodes(runs_of(event.failed_nodes))}" if event.failed_nodes else ""
    return f"{who} {_is(len(event.tasks))} down: {event.cause}{code}{where}"


def _gone(event: TasksGone, jobs: Names) -> str:
    return f"nothing runs any more of {tasks_text(event.tasks, jobs)}"


def _revised(event: ClaimRevised, jobs: Names) -> str:
    parts = [_move(move, jobs) for move in event.moves[:SHOWN_MAX]]
    more = len(event.moves) - SHOWN_MAX
    return "; ".join([*parts, *([f"and {more} more"] if more > 0 else [])])


def _move(move: TaskMove, jobs: Names) -> str:
    who = tasks_text((move.task,), jobs)
    if move.task == WHOLE:
        return f"{who} starts again where it was"
    if move.node_to < 0:
        return f"{who} leaves node {move.node_from} for good"
    if move.node_from == move.node_to:
        return f"{who} starts again on node {move.node_to}"
    if move.node_from < 0:
        return f"{who} starts on node {move.node_to}"
    return f"{who} goes from node {move.node_from} to node {move.node_to}"


def _up(event: TasksUp, jobs: Names) -> str:
    return f"{tasks_text(event.tasks, jobs)} {_is(len(event.tasks))} up"


def _changed(event: WorkloadChanged, _: Names) -> str:
    sizes = ", ".join(
        f"{job.name} has {job.tasks} {'task' if job.tasks == 1 else 'tasks'}" for job in event.jobs
    )
    return f"its user changed its jobs (revision {event.revision}): {sizes}"


def _attempt_changed(event: AttemptChanged, _: Names) -> str:
    return f"its region knows revision {event.revision}; its tasks are to follow"


def _standing(event: StandingChanged, _: Names) -> str:
    held = ", ".join(f"{gpus_text(count)} {kind}" for kind, count in sorted(event.charge.items())) or "no GPU"
    if event.level == OVER_LEVEL:
        return f"it is over its tenant's quota from now on, and may be preempted; it holds {held}"
    return f"it is within its tenant's quota, at level {event.level}; it holds {held}"


def _ranked(event: AttemptRanked, _: Names) -> str:
    what = "over quota" if event.level == OVER_LEVEL else f"of level {event.level}"
    return f"its region knows that it is {what}"


def _refusals_noted(event: RefusalsNoted, _: Names) -> str:
    parts = []
    for shape in event.shapes[:SHOWN_MAX]:
        reasons = ", ".join(
            f"{one.region} says {one.reason} for {short_text(one.held)}" for one in shape.refusals
        )
        parts.append(f"no region takes work like {shape.workload}: {reasons}")
    more = len(event.shapes) - SHOWN_MAX
    if more > 0:
        parts.append(f"and {more} more shapes")
    if event.gone:
        parts.append(
            f"{len(event.gone)} refused {'shape waits' if len(event.gone) == 1 else 'shapes wait'} no more"
        )
    return "; ".join(parts)


def _priority(event: PrioritySet, _: Names) -> str:
    level = "that of its tenant" if event.priority is None else event.priority
    return f"its priority is {level} from now on"


# Operations.


def _requested(event: OperationsRequested, jobs: Names) -> str:
    whose = f" for {event.source}" if event.source else ""
    by = f" by {event.requester}" if event.requester else ""
    patience = (
        f"in {short_text(event.deadline)} at the latest" if event.deadline else "whenever that is allowed"
    )
    last = event.first + len(event.tasks) - 1
    numbers = _operations(range(event.first, last + 1))
    what = f"{event.kind} of {tasks_text(event.tasks, jobs)}"
    return f"{what} is asked for{by}{whose}, {patience} ({numbers}): {event.reason or 'no reason was given'}"


def _answered(event: ControlAnswered, _: Names) -> str:
    answers: dict[str, list[int]] = {}
    for ack in event.acks:
        word = f"take {ack.instead} instead" if ack.instead else str(ack.answer)
        word += " after a checkpoint" if ack.after_checkpoint else ""
        if ack.within:
            word += f"{', or' if ack.after_checkpoint else ''} in {short_text(ack.within)}"
        answers.setdefault(word, []).append(ack.operation)
    said = ", ".join(f"{word} for {_operations(numbers)}" for word, numbers in answers.items())
    return f"its controller answers {said}" if said else "its controller knows which operations are over"


def _promise_revised(event: PromiseRevised, _: Names) -> str:
    now = ", ".join(workload for workload, _ in event.victims) or "no workload"
    return (
        f"the controller of {event.spared[0]} offered a substitute: the promise waits for {now} from now on"
    )


def _preemption_set(event: PreemptionSet, _: Names) -> str:
    by = f" by {event.by}" if event.by else ""
    return f"the order of victims, and the caps on lost work, are set{by}: {preemption_text(event.settings)}"


def _expired(event: AcksExpired, _: Names) -> str:
    return f"its controller's word on {_operations(event.operations)} has grown old, and is asked for again"


def _begun(event: OperationsBegun, _: Names) -> str:
    verb = "begins" if len(event.operations) == 1 else "begin"
    return f"{_operations(event.operations)} {verb} {BEGUN[event.by]}"


def _stuck(event: OperationsStuck, _: Names) -> str:
    return f"{_operations(event.operations)} {_is(len(event.operations))} not over long after the begin: an operator should look"


def _done(event: OperationsDone, _: Names) -> str:
    return f"{_operations(event.operations)} {_is(len(event.operations))} {OVER[event.outcome]}"


def _forgotten(_: ControlForgotten, __: Names) -> str:
    return "its controller was never told the outcome of the last operations: it did not answer"


def _halted(event: DestructionHalted, _: Names) -> str:
    return f"{event.requester} asked for {event.asked} stops where {event.budget} a minute are the most: the rest must wait"


# Nodes.


def _nodes(runs: Sequence[tuple[int, int]]) -> str:
    count = sum(last - first + 1 for first, last in runs)
    return f"{'node' if count == 1 else 'nodes'} {numbers_text(runs)}"


def _planned(event: MaintenancePlanned, _: Names) -> str:
    by = f" by {event.by}" if event.by else ""
    when = f"from {short_text(event.starts_in)} later on, for {short_text(event.lasts)}"
    why = f": {event.reason}" if event.reason else ""
    return f"{event.kind} work on {_nodes(event.nodes)} ({event.scope.text}) is planned{by} as {event.maintenance}, {when}{why}"


def _moved(event: MaintenanceMoved, _: Names) -> str:
    why = f": {event.reason}" if event.reason else ""
    return f"{event.maintenance} is {event.phase}{why}"


def _closed(event: NodesClosed, _: Names) -> str:
    by = f" by {event.by}" if event.by else ""
    why = f": {event.reason}" if event.reason else ""
    until = f" until vacant, and then come into pool {event.pool}" if event.pool else ""
    closed = f"closed ({event.kind} {event.source}){by}{until}"
    return f"{_nodes(event.nodes)} {_is(_count(event.nodes))} {closed}{why}"


def _opened(event: NodesOpened, _: Names) -> str:
    by = f" by {event.by}" if event.by else ""
    why = f": {event.reason}" if event.reason else ""
    return f"{_nodes(event.nodes)} {_is(_count(event.nodes))} open again ({event.kind} {event.source} is over){by}{why}"


def _scope_joined(event: ScopeJoined, _: Names) -> str:
    return f"{_nodes(event.nodes)} joined, and {_is(_count(event.nodes))} in {event.kind} {event.source} too"


# Pools.


def _pool_changed(event: PoolChanged, _: Names) -> str:
    return f"pool {event.pool} is set{_by(event.by)}: it {settings_text(event.settings)}"


def _policy_set(event: PoolingPolicySet, _: Names) -> str:
    return f"the policy of pools is set{_by(event.by)}: {policy_text(event.policy)}"


def _pools_planned(event: PoolsPlanned, _: Names) -> str:
    plan = event.plan
    moves = [
        f"{nodes_count(_count(move.nodes))} from {move.pool_from} to {move.pool_to}"
        for move in plan.moves[:SHOWN_MAX]
    ]
    more = len(plan.moves) - SHOWN_MAX
    told = ", ".join([*moves, *([f"and {more} more moves"] if more > 0 else [])]) or "no node"
    if event.is_more:
        return f"plan {plan.number} also moves {told}"
    short = [f"{one.pool} is short of {one.short} {one.node_type}" for one in plan.standings if one.short]
    after = f"; then {', '.join(short)}" if short else ""
    return f"plan {plan.number}{_by(event.by)}, {WHY[plan.why]}, moves {told}{after}"


def _pools_applied(event: PoolsApplied, _: Names) -> str:
    return f"plan {event.number} is applied{_by(event.by)}"


def _pooled(event: NodesPooled, _: Names) -> str:
    plan = f" (plan {event.plan})" if event.plan else ""
    return f"{_nodes(event.nodes)} {_is(_count(event.nodes))} in pool {event.pool} from now on{plan}"


def _by(name: str) -> str:
    return f" by {name}" if name else ""


def _count(runs: Sequence[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in runs)


def planned_move_sentence(event: MovePlanned) -> str:
    """Where it goes, and what that costs."""
    pause, hours = time_text(event.cost.pause), event.cost.gpu_seconds / 3600
    by = f", asked for by {event.by}" if event.by else ""
    return (
        f"attempt {event.epoch} is to go on in {event.region}{by}: a pause of {pause} ({hours:.1f} GPU-hours)"
    )


def _domain(event: DomainLost, _: Names) -> str:
    return f"workers {', '.join(event.workers)} of {event.domain} fell silent together, and {_nodes(event.nodes)} with them"


SENTENCES: dict[type[Event], Callable[[Any, Names], str]] = {  # Any: the event that stands beside it
    ClockAccepted: _clock,
    TasksDown: _down,
    TasksGone: _gone,
    ClaimRevised: _revised,
    TasksUp: _up,
    WorkloadChanged: _changed,
    StandingChanged: _standing,
    PrioritySet: _priority,
    RefusalsNoted: _refusals_noted,
    AttemptRanked: _ranked,
    AttemptChanged: _attempt_changed,
    OperationsRequested: _requested,
    ControlAnswered: _answered,
    PromiseRevised: _promise_revised,
    PreemptionSet: _preemption_set,
    AcksExpired: _expired,
    OperationsBegun: _begun,
    OperationsStuck: _stuck,
    OperationsDone: _done,
    ControlForgotten: _forgotten,
    DestructionHalted: _halted,
    MaintenancePlanned: _planned,
    MaintenanceMoved: _moved,
    NodesClosed: _closed,
    NodesOpened: _opened,
    ScopeJoined: _scope_joined,
    DomainLost: _domain,
    PoolChanged: _pool_changed,
    PoolingPolicySet: _policy_set,
    PoolsPlanned: _pools_planned,
    PoolsApplied: _pools_applied,
    NodesPooled: _pooled,
    MovePlanned: lambda event, _: planned_move_sentence(event),
    MoveBegun: lambda event, _: (
        f"the other region keeps capacity for it: attempt {event.epoch} is to stop for move {event.revision}"
    ),
    MoveEnded: lambda event, _: f"move {event.revision} came to nothing: {START_OVER[event.reason]}",
    StartPromised: lambda event, _: promised_sentence(event),
    StartPromiseEnded: lambda event, _: over_sentence(event),
    StartReserved: lambda event, _: reserved_sentence(event),
    StartUnreserved: lambda event, _: over_sentence(event),
}
