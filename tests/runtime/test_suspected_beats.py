"""A beat on which a broker fails is handed on in parts, so that one workload is put aside and never the worker."""

from core.component import NOTHING, Decision
from core.fact import Note
from core.messages.base import Message
from core.messages.workers import PartOfBeat, TasksPhase, TasksState, WorkerBeat, WorkerReport
from core.nouns.ids import WorkerName, WorkloadId
from core.nouns.instant import Instant, after
from core.nouns.limits import ASIDE_SPAN
from runtime.status.put_aside import Suspects
from tests.builders import EU

START = Instant(10**18)
NOTED = Decision(events=(Note(),))
A, B, C = (WorkloadId(name) for name in ("w-1", "w-2", "w-3"))


def share(workload: WorkloadId) -> TasksState:
    """A share that runs."""
    return TasksState(workload, 1, TasksPhase.RUNNING)


BEAT = WorkerBeat(EU, WorkerName("w0"), tuple(map(share, (A, B, C))), (1, 1), 1)


def report(workload: WorkloadId) -> WorkerReport:
    """The report of one share."""
    return WorkerReport(EU, WorkerName("w0"), share(workload), (1, 1), 1)


class Poisoned:
    """A broker that fails on all that tells of some workloads, and its suspects."""

    def __init__(self, *poison: WorkloadId) -> None:
        self.poison = poison
        self.now = START
        self.suspects = Suspects(None, "1", lambda: self.now)

    def hear(self, message: Message, decision: Decision = NOTED) -> str:
        """Return of which workloads the broker hears, `died` after them if it fails."""
        handed = self.suspects.hand(message)
        said = workloads_in(handed.message)
        if set(said) & set(self.poison):
            self.suspects.blame(message, ValueError("no"), handed)
            return " ".join((*said, "died"))
        self.suspects.handled(message, handed, decision)
        return " ".join(said)

    def aside(self) -> list[str]:
        """Of what nothing is handed on."""
        return [one.subject for one in self.suspects.told()]


def workloads_in(message: Message | None) -> tuple[WorkloadId, ...]:
    """Those that a beat, a part of one or a report tells of."""
    match message:
        case WorkerReport(tasks=one):
            return (one.workload,)
        case WorkerBeat(tasks=tasks) | PartOfBeat(beat=WorkerBeat(tasks=tasks)):
            return tuple(one.workload for one in tasks)
    return ()


def test_beat_that_failed_is_handed_on_workload_by_workload() -> None:
    """One more with each, until one fails; that one is left out from then on, and its reports are put aside too."""
    broker = Poisoned(B)
    heard = [broker.hear(BEAT) for _ in range(7)]
    assert ["w-1 w-2 w-3 died", "", "w-1", "w-1 w-2 died", "", "w-1", "w-1 w-3"] == heard
    assert ["w-1 w-3"] * 2 == [broker.hear(BEAT) for _ in range(2)]
    assert ["workload w-2"] == broker.aside()
    assert "" == broker.hear(report(B))


def test_share_that_is_left_out_is_named() -> None:
    """Otherwise it would count as ended."""
    broker = Poisoned(B)
    for _ in range(7):
        broker.hear(BEAT)
    handed = broker.suspects.hand(BEAT)
    assert isinstance(handed.message, PartOfBeat)
    assert (share(B).key,) == handed.message.unsaid
    assert [report(B)] == [message for message, _ in handed.aside]


def test_workload_whose_report_failed_twice_is_left_out_of_beats() -> None:
    """No beat fails on it."""
    broker = Poisoned(B)
    assert ["w-2 died"] * 2 == [broker.hear(report(B)) for _ in range(2)]
    assert "w-1 w-3" == broker.hear(BEAT)


def test_workload_whose_report_failed_once_is_tried_apart() -> None:
    """A beat that fails with it is its fault, and not the worker's."""
    broker = Poisoned(B)
    broker.hear(report(B))
    assert ["", "w-1", "w-1 w-2 died"] == [broker.hear(BEAT) for _ in range(3)]
    assert ["workload w-2"] == broker.aside()


def test_several_workloads_are_found_one_by_one() -> None:
    """The worker is handed on all the while."""
    broker = Poisoned(A, C)
    for _ in range(20):
        broker.hear(BEAT)
    assert ["workload w-1", "workload w-3"] == sorted(broker.aside())
    assert "w-2" == broker.hear(BEAT)


def test_beat_that_went_well_in_parts_is_suspected_no_more() -> None:
    """A restart mended the state."""
    broker = Poisoned(B)
    broker.hear(BEAT)
    broker.poison = ()
    assert ["", "w-1", "w-1 w-2", "w-1 w-2 w-3"] == [broker.hear(BEAT) for _ in range(4)]
    assert broker.suspects.is_empty


def test_beat_that_is_ignored_proves_nothing() -> None:
    """A beat to an earlier life of the broker is acknowledged and no more: its shares were not looked at."""
    broker = Poisoned(B)
    broker.hear(BEAT)
    ignored = Decision(messages=(report(A),))
    assert [""] * 3 == [broker.hear(BEAT, ignored) for _ in range(3)]
    assert ["", "w-1"] == [broker.hear(BEAT) for _ in range(2)]


def test_report_that_is_ignored_clears_nothing() -> None:
    """A report to an earlier life of the broker was not looked at either."""
    broker = Poisoned(B)
    broker.hear(report(B))
    broker.poison = ()
    broker.hear(report(B), NOTHING)
    assert not broker.suspects.is_empty
    broker.hear(report(B))
    assert broker.suspects.is_empty


def test_worker_that_makes_the_broker_fail_by_itself_is_put_aside() -> None:
    """Without any share the beat fails too: no workload is at fault."""
    suspects = Suspects(None, "1", lambda: START)
    for _ in range(2):
        suspects.blame(BEAT, ValueError("no"), None if suspects.is_empty else suspects.hand(BEAT))
    assert ["worker w0"] == [one.subject for one in suspects.told()]
    assert None is suspects.hand(BEAT).message


def test_left_out_workload_is_tried_again_after_its_span() -> None:
    """Apart from the others, so that a failure is its own."""
    broker = Poisoned(B)
    for _ in range(8):
        broker.hear(BEAT)
    broker.now = after(START, ASIDE_SPAN)
    assert ["", "w-1", "w-1 w-2 died", "w-1 w-3"] == [broker.hear(BEAT) for _ in range(4)]
