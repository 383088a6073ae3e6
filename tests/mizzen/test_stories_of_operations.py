"""What logs tell of operations: why a gang was stopped for a drain, a window or a change, and what became of single tasks."""

from msgspec.structs import replace

from core.events.control import (
    AttemptChanged,
    ClaimRevised,
    ControlAnswered,
    DomainLost,
    MaintenancePlanned,
    NodesClosed,
    OperationsBegun,
    OperationsDone,
    OperationsRequested,
    TasksDown,
    TasksUp,
)
from core.events.queue import WorkloadBound, WorkloadChanged
from core.events.region import (
    AttemptEnded,
    ClaimGranted,
    ClaimPromised,
    GangStarted,
    NodesJoined,
    StopOrdered,
)
from core.fact import Event
from core.nouns.ids import WorkerName, WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.maintenance import ClosureKind, MaintenanceKind, Scope, ScopeKind
from core.nouns.operation import (
    WHOLE,
    Ack,
    Answer,
    BegunBy,
    ControlSpec,
    OperationKind,
    Outcome,
    TaskMove,
    task_number,
)
from core.nouns.workload import EndCause, Kind, Phase
from mizzen.views.workloads import explain as explaining
from mizzen.views.workloads import show_text
from tests.builders import EU, START, a_claim, a_job, an_inventory, attempt, granted, joined
from tests.mizzen.test_stories import W1, Told, awarded, closed, ended, told
from tests.runtime.aids import Place, virtual

MINUTE = 60 * SECOND


def requested(
    kind: OperationKind, source: str, *tasks: int, deadline: int = 0, reason: str = "why"
) -> OperationsRequested:
    """Operation 1 and the next are asked for; of the whole gang unless tasks are named."""
    who = "user:ada" if not source else "operator"
    return OperationsRequested(*attempt(), 1, kind, tasks or (WHOLE,), reason, source, deadline, who)


def stopped(cause: EndCause, *events: Event) -> list[Event]:
    """A gang runs, these happen, and it is stopped for this cause."""
    return [
        granted(a_claim(placed={1: 1})),
        GangStarted(*attempt()),
        *events,
        StopOrdered(*attempt(), cause),
        ended(cause, exit_code=143),
    ]


async def of(place: Place, cause: EndCause, *events: Event) -> Told:
    """The story of a gang that ended so, and waits for its next attempt."""
    queue = [awarded(), WorkloadBound(W1, 1, EU, 4), closed(cause, Phase.PENDING)]
    return await told(place, queue, stopped(cause, *events))


@virtual
async def test_drained_as_its_controller_allowed(place: Place) -> None:
    """Down to who closed the node and why; and it is told that this was planned."""
    found = await of(
        place,
        EndCause.DRAINED,
        NodesClosed("d-1", ClosureKind.DRAIN, ((0, 1),), "new fans", by="ops"),
        requested(OperationKind.MOVE, "d-1"),
        ControlAnswered(*attempt(), 6, (Ack(1, after_checkpoint=True),)),
        OperationsBegun(*attempt(), (1,), BegunBy.ACK, "operator"),
    )
    assert [
        "PENDING: attempt 1 ended, drained (planned); it waits for the next attempt",
        "nothing of it runs any more in eu: drained with exit code 143 (signal 15)",
        "it was ordered to stop: drained",
        "operation 1 begins as its controller allowed",
        "its controller answers proceed after a checkpoint for operation 1",
        "move of its gang is asked for by operator for d-1, whenever that is allowed (operation 1): why",
        "nodes 0-1 are closed (drain d-1) by ops: new fans",
    ] == [text for _, _, text in found.chain]
    assert [7, 10, 9, 8, 7, 6, 5] == [sequence for _, sequence, _ in found.chain]


@virtual
async def test_preempted_as_its_controller_allowed(place: Place) -> None:
    """Down to the promise that needed its room, with what its controller answered, and what of its work was lost."""
    promised = a_claim("w-9", placed={1: 1}, priority=5, victims=(attempt(),))
    found = await told(
        place,
        [awarded(), WorkloadBound(W1, 1, EU, 4), closed(EndCause.PREEMPTED, Phase.PENDING, 1, 10)],
        [
            granted(a_claim(placed={1: 1})),
            GangStarted(*attempt()),
            ClaimPromised(WorkloadId("w-9"), 1, promised, (90,), 60 * SECOND),
            OperationsRequested(
                *attempt(),
                1,
                OperationKind.PREEMPT,
                (WHOLE,),
                "to make room for w-9",
                "p-w-9.1",
                60 * SECOND,
                "preemption",
            ),
            ControlAnswered(*attempt(), 6, (Ack(1, after_checkpoint=True, within=20 * SECOND),)),
            OperationsBegun(*attempt(), (1,), BegunBy.ACK, "preemption"),
            StopOrdered(*attempt(), EndCause.PREEMPTED, WorkloadId("w-9")),
            AttemptEnded(*attempt(), EndCause.PREEMPTED, 143, 1_000, destroyed=87),
        ],
    )
    texts = [text for _, _, text in found.chain]
    assert [
        "nothing of it runs any more in eu: preempted with exit code 143 (signal 15), and 87 GPU-seconds of its work are lost",
        "it was ordered to stop: preempted for w-9",
        "operation 1 begins as its controller allowed",
        "its controller answers proceed after a checkpoint, or in 20s for operation 1",
    ] == texts[1:5]
    assert texts[5].startswith(
        "preempt of its gang is asked for by preemption for p-w-9.1, in 1m at the latest"
    )
    assert "its capacity was promised to w-9 (attempt 1, priority 5)" == texts[6]
    shown = show_text.lines_of(found.known.telling.story, None, Instant(START + 100 * SECOND))
    assert any("87 GPU-seconds of its work were lost" in line for line in shown)


@virtual
async def test_stopped_unasked_for_a_window(place: Place) -> None:
    """Its controller said nothing in time; the work was planned by somebody with a name."""
    nodes = ((0, 1),)
    found = await of(
        place,
        EndCause.MAINTENANCE,
        MaintenancePlanned(
            "m-1", MaintenanceKind.POWER, Scope(ScopeKind.RACK, ("0",)), nodes, 10 * MINUTE, 90 * MINUTE,
            5 * MINUTE, "new breaker", "ops",
        ),
        NodesClosed("m-1", ClosureKind.MAINTENANCE, nodes, "new breaker", by="ops"),
        requested(OperationKind.MOVE, "m-1", deadline=5 * MINUTE),
        OperationsBegun(*attempt(), (1,), BegunBy.DEADLINE, "operator"),
    )  # fmt: skip
    assert [
        "operation 1 begins unasked, for its time was up",
        "move of its gang is asked for by operator for m-1, in 5m at the latest (operation 1): why",
        "nodes 0-1 are closed (maintenance m-1) by ops: new breaker",
        "power work on nodes 0-1 (rack 0) is planned by ops as m-1, from 10m later on, for 1h30m: new breaker",
    ] == [text for _, _, text in found.chain][3:]
    assert "ended, maintenance (planned)" in found.chain[0][2]


@virtual
async def test_moved_at_the_word_of_its_user(place: Place) -> None:
    """There is nothing behind the word, and the user is told that it was their own."""
    found = await of(
        place,
        EndCause.MOVED,
        requested(OperationKind.MOVE, ""),
        OperationsBegun(*attempt(), (1,), BegunBy.LIMITS, "user:ada"),
    )
    why = "moved (yours: ada asked for it)"
    assert f"PENDING: attempt 1 ended, {why}; it waits for the next attempt" == found.chain[0][2]
    story = found.known.telling.story
    (line,) = (
        one for one in show_text.lines_of(story, None, Instant(START + 100 * SECOND)) if "moved" in one
    )
    assert "  moved by ada  yours  " in line
    assert ["user:ada", "yours"] == [
        show_text.builtins_of(story, None)["attempts"][0][key] for key in ("asked_by", "blame")
    ]
    assert [
        "operation 1 begins as its own limits allow, for it names no controller",
        "move of its gang is asked for by user:ada, whenever that is allowed (operation 1): why",
    ] == [text for _, _, text in found.chain][3:]


@virtual
async def test_moved_at_the_word_of_a_component(place: Place) -> None:
    """That is planned, and by whom."""
    begun = OperationsBegun(*attempt(), (1,), BegunBy.ACK, "rebalancer", 1)
    found = await of(place, EndCause.MOVED, requested(OperationKind.MOVE, ""), begun)
    assert "moved (planned: rebalancer asked for it)" in found.chain[0][2]


@virtual
async def test_stopped_because_its_user_changed_it(place: Place) -> None:
    """The chain ends in the queue's log, with the change that it followed and not with another; it is the user's own."""
    found = await told(
        place,
        [
            awarded(),
            WorkloadBound(W1, 1, EU, 4),
            WorkloadChanged(W1, 1, (a_job(2),)),
            WorkloadChanged(W1, 2, (a_job(4),)),
            closed(EndCause.CHANGED, Phase.PENDING),
        ],
        stopped(
            EndCause.CHANGED,
            AttemptChanged(*attempt(), 2, (a_job(4),)),
            requested(OperationKind.RESIZE, "r-2"),
            OperationsBegun(*attempt(), (1,), BegunBy.LIMITS),
        ),
    )
    assert "ended, changed (yours)" in found.chain[0][2]
    assert ("global", 8, "its user changed its jobs (revision 2): main has 4 tasks") == found.chain[-1]
    story = found.known.telling.story
    assert (2, 4) == (story.spec_revision, story.spec.jobs[0].tasks)
    lines = show_text.lines_of(story, None, Instant(START + 100 * SECOND))
    assert [f"by actor, revision {2}"] == [
        line[line.index("by") :] for line in lines if line.startswith("  changed")
    ]


@virtual
async def test_only_the_operation_that_stopped_it_is_told(place: Place) -> None:
    """An older one, which is over, has nothing to do with it."""
    found = await of(
        place,
        EndCause.MOVED,
        requested(OperationKind.RESTART, "", reason="older"),
        OperationsBegun(*attempt(), (1,), BegunBy.LIMITS, "user:ada"),
        ClaimRevised(*attempt(), 1, (TaskMove(WHOLE, -1, -1),)),
        TasksUp(*attempt(), (WHOLE,)),
        OperationsDone(*attempt(), (1,), Outcome.HEALTHY),
        OperationsRequested(*attempt(), 2, OperationKind.MOVE, (WHOLE,), "newer", requester="user:ada"),
        OperationsBegun(*attempt(), (2,), BegunBy.LIMITS, "user:ada"),
    )
    texts = [text for _, _, text in found.chain]
    assert any("newer" in text for text in texts)
    assert not any("older" in text for text in texts)


@virtual
async def test_node_that_failed(place: Place) -> None:
    """It is named, and nobody's work is blamed."""
    failed = AttemptEnded(*attempt(), EndCause.NODE_FAILED, -1, 1_000, (1,))
    found = await told(
        place,
        [awarded(), closed(EndCause.NODE_FAILED, Phase.PENDING)],
        [granted(a_claim(placed={1: 1})), GangStarted(*attempt()), failed],
    )
    assert "ended, node_failed (unplanned)" in found.chain[0][2]
    assert found.chain[1][2].endswith("node_failed with exit code -1 (its node no longer had it) on eu-1")


async def lost(place: Place, *workers: str) -> str:
    """Where the chain ends for a gang on a worker `w1` of the domain `power-1`, once that domain lost these."""
    inventory = an_inventory("w1", 4, 4)
    inventory = replace(
        inventory, groups=tuple(replace(group, power_domain="power-1") for group in inventory.groups)
    )
    found = await told(
        place,
        [awarded(), closed(EndCause.NODE_LOST, Phase.PENDING)],
        [
            NodesJoined(WorkerName("w1"), inventory),
            joined("w2", 8, 4),
            joined("w3", 12, 4),
            granted(a_claim(placed={5: 1})),
            GangStarted(*attempt()),
            DomainLost(
                "power-1", tuple(map(WorkerName, workers)), ((4, 11),) if "w1" in workers else ((8, 15),)
            ),
            StopOrdered(*attempt(), EndCause.NODE_LOST),
            ended(EndCause.NODE_LOST, exit_code=-1),
        ],
    )
    return found.chain[-1][2]


@virtual
async def test_domain_was_lost(place: Place) -> None:
    """Workers that fell silent together are told as one."""
    wanted = "workers w1, w2 of power-1 fell silent together, and nodes 4-11 with them"
    assert wanted == await lost(place, "w1", "w2")


@virtual
async def test_domain_lost_other_workers(place: Place) -> None:
    """That is nothing to this one."""
    assert "it was ordered to stop: node_lost" == await lost(place, "w2", "w3")


# What runs.


def service() -> ClaimGranted:
    """Three tasks that stand alone, on nodes 0 to 2."""
    claim = a_claim(placed={0: 1, 1: 1, 2: 1}, kind=Kind.SERVICE)
    return granted(replace(claim, tenant="default", control=ControlSpec("replicas")))


@virtual
async def test_events_of_single_tasks_are_told(place: Place) -> None:
    """The newest comes first, as far as the newest attempt goes; and `show` counts it, and knows where tasks are now."""
    failed = task_number(0, 2)
    found = await told(
        place,
        [awarded(), WorkloadBound(W1, 1, EU, 4)],
        [
            service(),
            GangStarted(*attempt()),
            TasksDown(*attempt(), (failed,), EndCause.TASK_FAILED, 7, is_gone=True),
            requested(OperationKind.START, "", failed, deadline=30 * SECOND, reason="task_failed"),
            ControlAnswered(*attempt(), 6, (Ack(1, Answer.PROCEED),)),
            OperationsBegun(*attempt(), (1,), BegunBy.ACK, "health"),
            ClaimRevised(*attempt(), 1, (TaskMove(failed, 2, 3),)),
            TasksUp(*attempt(), (failed,)),
            OperationsDone(*attempt(), (1,), Outcome.HEALTHY),
        ],
    )
    assert [
        "operation 1 is done, and its tasks are healthy",
        "main/2 is up",
        "main/2 goes from node 2 to node 3",
        "operation 1 begins as its controller allowed",
        "its controller answers proceed for operation 1",
        "start of main/2 is asked for by user:ada, in 30s at the latest (operation 1): task_failed",
        "main/2 is down: task_failed with exit code 7",
    ] == [link.text for link in found.explanation.lately]
    assert () == found.explanation.because
    lines = explaining.lines_of(found.explanation, found.known.telling.story)
    assert "what happened to it lately:" in lines
    assert lines[-1].endswith("region.eu 5 tasks-down: main/2 is down: task_failed with exit code 7")
    shown = show_text.lines_of(found.known.telling.story, None, Instant(START + 100 * SECOND))
    assert "  attempt 1: down 1, started again 1; operations asked for 1, over 1" == shown[-1]
    assert any(line.endswith("eu-[0-1,3]") for line in shown)


@virtual
async def test_events_of_an_older_attempt_are_not_recent(place: Place) -> None:
    """Only those of the active attempt count."""
    found = await told(
        place,
        [awarded(), closed(EndCause.MOVED, Phase.PENDING), awarded(2)],
        [
            *stopped(EndCause.MOVED, requested(OperationKind.MOVE, "")),
            granted(a_claim(epoch=2)),
            GangStarted(*attempt("w-1", 2)),
        ],
    )
    assert () == found.explanation.lately


@virtual
async def test_change_before_the_award_is_not_lately(place: Place) -> None:
    """The attempt has begun as it was by then; one that came since is told."""
    found = await told(
        place,
        [WorkloadChanged(W1, 1, (a_job(2),)), awarded(), WorkloadChanged(W1, 2, (a_job(4),))],
        [granted(a_claim()), GangStarted(*attempt())],
    )
    assert ["its user changed its jobs (revision 2): main has 4 tasks"] == [
        link.text for link in found.explanation.lately
    ]
