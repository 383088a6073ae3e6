"""Nodes that fail whatever starts on them, nodes that are ill, and how they leave the quarantine."""

import pytest
from msgspec.structs import replace

from core.component import NOTHING
from core.events.control import NodesClosed, NodesOpened
from core.events.region import AttemptEnded, GangStarted
from core.messages.control import RecordTasksDown
from core.messages.nodes import CloseNodes, OpenNodes
from core.messages.workers import CheckNodes, NodesChecked
from core.nouns.ids import WorkloadId
from core.nouns.instant import SECOND, seconds
from core.nouns.limits import (
    BLACK_HOLE_FAILURES,
    BLACK_HOLE_KEPT_MAX,
    BLACK_HOLE_SOON,
    BLACK_HOLE_SPAN,
    COMMAND_SAY_AGAIN,
    QUARANTINE_CHECK,
)
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import task_number
from core.nouns.workload import EndCause, Kind
from tests.builders import EU, a_claim, granted
from tests.components.support.node_health import BEAT, Region, Start, a_region, named

ALL = (0, 1, 2)
SOON = BLACK_HOLE_SOON // SECOND
AGAIN = COMMAND_SAY_AGAIN // SECOND
CHECK = QUARANTINE_CHECK // SECOND
ROUNDS = BLACK_HOLE_FAILURES


class Node:
    """Node 3 of a region of six, and what is tried on it."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.count = 0

    def begin(self, workload: str = "", *, starts: bool = True, node: int = 3) -> tuple[WorkloadId, int]:
        """It is granted room there, and starts unless told otherwise."""
        self.count += 1
        key = WorkloadId(workload or f"w-{self.count}"), self.count
        self.region.fact(granted(a_claim(*key, placed={node: 1})))
        if starts:
            self.region.fact(GangStarted(*key))
        return key

    def end(
        self,
        key: tuple[WorkloadId, int],
        cause: EndCause = EndCause.TASK_FAILED,
        *,
        failed: tuple[int, ...] = (3,),
    ) -> None:
        """It ends so."""
        self.region.fact(AttemptEnded(*key, cause, 1, 1000, failed))

    def fail(self, workload: str = "", *, lives: int = 2, cause: EndCause = EndCause.TASK_FAILED) -> None:
        """It fails there so many seconds after its start."""
        key = self.begin(workload)
        self.region.run(lives, ALL)
        self.end(key, cause)


def a_node(start: Start, workers: int = 3) -> Node:
    """All beat."""
    return Node(a_region(start, workers))


def quarantined(node: Node) -> list[int]:
    """By the log."""
    return node.region.closed("quarantine")


# Black holes.


@pytest.mark.parametrize("cause", [EndCause.TASK_FAILED, EndCause.START_FAILED, EndCause.NODE_FAILED])
def test_node_that_fails_whatever_starts_on_it(start: Start, cause: EndCause) -> None:
    """It comes into quarantine, with a reason that says what to do; nothing new is placed there."""
    node = a_node(start)
    for _ in range(ROUNDS - 1):
        node.fail(cause=cause)
    assert [] == quarantined(node)
    node.begin(node=4)
    node.region.run(10, ALL)
    node.fail(cause=cause)
    assert [3] == quarantined(node)
    [closed] = node.region.recorded(NodesClosed)
    assert "failed 3 of 3 attempts soon after their start; an operator must release it" == closed.reason
    assert not closed.until_checked
    assert not node.region.capacity.is_open(3)


def test_black_hole_is_said_until_the_log_shows_it(start: Start) -> None:
    """And then no more."""
    node = a_node(start)
    node.region.is_store_deaf = True
    for _ in range(ROUNDS):
        node.fail()
    node.region.run(2 * AGAIN, ALL)
    assert 3 == len(node.region.told(CloseNodes))
    node.end(node.begin(node=4), failed=(4,))
    count = len(node.region.told(CloseNodes))
    node.region.is_store_deaf = False
    node.region.run(5 * AGAIN, ALL)
    assert count + 1 == len(node.region.told(CloseNodes))
    assert [3] == quarantined(node)
    assert 1 == len(node.region.recorded(NodesClosed))


def test_failures_of_one_workload_accuse_no_node(start: Start) -> None:
    """It fails wherever it goes, for all that anybody knows, however often; between others it counts."""
    node = a_node(start)
    for _ in range(2 * ROUNDS):
        node.fail("w-again")
    node.fail("w-other")
    assert [] == quarantined(node)
    node.fail("w-again")
    assert [3] == quarantined(node)
    assert "failed 8 of 8 attempts" in node.region.recorded(NodesClosed)[0].reason


def test_late_failure_accuses_no_node(start: Start) -> None:
    """The attempt ran well there."""
    node = a_node(start)
    for _ in range(2 * ROUNDS):
        node.fail(lives=SOON + 1)
    assert [] == quarantined(node)
    assert {} == node.region.capacity.failures.by_node


def test_failed_start_accuses_its_node(start: Start) -> None:
    """However long the start was tried."""
    node = a_node(start)
    for _ in range(ROUNDS):
        key = node.begin(starts=False)
        node.region.run(SOON + 10, ALL)
        node.end(key, EndCause.START_FAILED)
    assert [3] == quarantined(node)


@pytest.mark.parametrize("cause", sorted({*EndCause} - {"task_failed", "start_failed", "node_failed"}))
def test_other_ends_accuse_no_node(start: Start, cause: EndCause) -> None:
    """Whoever ended it, the node did not; not even if somebody names it."""
    node = a_node(start)
    for _ in range(2 * ROUNDS):
        node.fail(cause=cause)
    assert [] == quarantined(node)


def test_only_nodes_that_are_named_are_accused(start: Start) -> None:
    """A gang fails whole; its other nodes did nothing."""
    node = a_node(start)
    for _ in range(ROUNDS):
        key = WorkloadId(f"w-{node.count}"), 1
        node.count += 1
        node.region.fact(granted(a_claim(*key, placed={2: 1, 3: 1, 4: 1})), GangStarted(*key))
        node.region.run(1, ALL)
        node.end(key)
    assert [3] == quarantined(node)


def test_failures_of_long_ago_are_forgotten(start: Start) -> None:
    """Three in a month say nothing, and what is remembered of them is dropped."""
    node = a_node(start)
    for _ in range(2 * ROUNDS):
        node.fail()
        node.region.run(BLACK_HOLE_SPAN // SECOND // (ROUNDS - 1), ALL)
    assert [] == quarantined(node)
    node.region.run(BLACK_HOLE_SPAN // SECOND, ALL)
    key = node.begin(node=4)
    node.end(key, failed=(4,))
    assert [4] == list(node.region.capacity.failures.by_node)


def test_simultaneous_failures_count_once(start: Start) -> None:
    """A node that is switched off takes with it all that has just started there: that is one fault, not four."""
    node = a_node(start)
    for _ in range(ROUNDS - 1):
        keys = [node.begin() for _ in range(4)]
        node.region.run(2, ALL)
        for key in keys:
            node.end(key, EndCause.NODE_FAILED)
    assert [] == quarantined(node)
    node.fail()
    assert [3] == quarantined(node)
    assert "failed 9 of 9 attempts" in node.region.recorded(NodesClosed)[0].reason


def test_node_that_eats_many_at_once(start: Start) -> None:
    """However many it eats at a time, it is found: what is remembered of one round does not crowd out the others."""
    node = a_node(start)
    for _ in range(ROUNDS):
        keys = [node.begin() for _ in range(3 * BLACK_HOLE_KEPT_MAX)]
        node.region.run(1, ALL)
        for key in keys:
            node.end(key)
    assert [3] == quarantined(node)


def test_one_that_ran_well_speaks_for_the_node(start: Start) -> None:
    """Users' programs fail by themselves: as long as others that came after them do well there, the node is well."""
    for cause, lives in (
        (EndCause.COMPLETED, 2),
        (EndCause.PREEMPTED, SOON + 1),
        (EndCause.TASK_FAILED, SOON + 1),
    ):
        node = a_node(start)
        for _ in range(3):
            for _ in range(ROUNDS - 1):
                node.fail()
            key = node.begin()
            node.region.run(lives, ALL)
            node.end(key, cause, failed=())
        assert [] == quarantined(node), cause


def test_one_that_was_there_before_does_not_speak_for_it(start: Start) -> None:
    """The node may have fallen ill since, or only the devices that are free."""
    node = a_node(start)
    early, other = node.begin(), node.begin()
    node.region.run(2 * SOON, ALL)
    for _ in range(ROUNDS - 1):
        node.fail()
    node.end(early, EndCause.COMPLETED, failed=())
    node.fail()
    assert [3] == quarantined(node)
    assert other in [key[:2] for key in node.region.capacity.live()]


def test_one_that_runs_there_since_speaks_for_it(start: Start) -> None:
    """Though it has not ended: it has lived for longer than any of those that failed."""
    node = a_node(start)
    node.fail()
    well = node.begin()
    node.region.run(5, ALL)
    for _ in range(ROUNDS - 1):
        node.fail()
    assert [] == quarantined(node)
    node.fail()
    assert [3] == quarantined(node), "three rounds began after it"
    assert node.region.capacity.holding(*well) is not None


def test_one_that_has_only_just_started_says_nothing(start: Start) -> None:
    """On a node that eats whatever comes there always is one that is about to be eaten."""
    node = a_node(start)
    keys = [node.begin()]
    for _ in range(2 * ROUNDS):
        node.region.run(3, ALL)
        keys.append(node.begin())
        node.region.run(1, ALL)
        node.end(keys.pop(0))
    assert [3] == quarantined(node)
    assert node.region.capacity.holding(*keys[0]) is not None


def test_one_of_the_same_moment_speaks_for_it(start: Start) -> None:
    """Whatever was granted room with those that failed, and did well, shows that the node was well then."""
    node = a_node(start)
    for _ in range(2 * ROUNDS):
        bad, good = node.begin(), node.begin()
        node.region.run(2, ALL)
        node.end(bad)
        node.end(good, EndCause.COMPLETED, failed=())
        assert {} == node.region.capacity.failures.by_node
    assert [] == quarantined(node)


def test_one_that_fails_late_says_nothing_either_way(start: Start) -> None:
    """It ran for long, and then failed there: that is no sign of health."""
    node = a_node(start)
    for _ in range(ROUNDS - 1):
        node.fail()
    node.fail(lives=SOON + 1)
    assert [] == quarantined(node)
    node.fail()
    assert [3] == quarantined(node)


def test_remembered_failures_of_a_node_are_bounded(start: Start) -> None:
    """However often attempts fail there while the store does not act on it."""
    node = a_node(start)
    node.region.is_store_deaf = True
    for _ in range(3 * BLACK_HOLE_KEPT_MAX):
        node.fail(lives=1)
    assert BLACK_HOLE_KEPT_MAX == len(node.region.capacity.failures.of(3))


def test_failures_survive_the_broker(start: Start) -> None:
    """They are in the log: one that starts anew forgets none, and finds what its forerunner did not get recorded."""
    node = a_node(start)
    node.fail()
    node.region.restart_broker()
    node.fail()
    node.region.is_store_deaf = True
    node.fail()
    node.region.restart_broker()
    node.region.is_store_deaf = False
    node.region.run(AGAIN, ALL)
    assert [3] == quarantined(node)


def test_released_node_starts_from_nothing(start: Start) -> None:
    """An operator has looked at it; it takes as many failures as before to bring it back."""
    node = a_node(start)
    for _ in range(ROUNDS):
        node.fail()
    node.region.ask(node.region.release(3))
    node.region.run(3 * AGAIN, ALL)
    assert [] == quarantined(node)
    for _ in range(ROUNDS - 1):
        node.fail()
    assert [] == quarantined(node)
    node.fail()
    assert [3] == quarantined(node)


def test_black_hole_that_is_told_late(start: Start) -> None:
    """The word was said before an operator let the node out, and is heard again after that: it stays out."""
    node = a_node(start)
    for _ in range(ROUNDS):
        node.fail()
    assert [3] == quarantined(node)
    late = [word for _, word in node.region.told(CloseNodes)]
    assert [(3,)] == list({word.nodes for word in late})
    node.region.ask(node.region.release(3))
    for word in late:
        assert NOTHING == node.region.ask(word)
    node.region.run(3 * AGAIN, ALL)
    assert [] == quarantined(node)
    assert 1 == len(node.region.recorded(NodesClosed))


def test_passed_check_that_is_told_late(start: Start) -> None:
    """The node fell ill again since: it stays in quarantine until it passes another."""
    region = ill_node(start)
    region.hear(checked())
    [late] = [word for _, word in region.told(OpenNodes)]
    region.ill[1] = ((2, "ECC errors"),)
    region.beat(1)
    assert [2] == region.closed("quarantine")
    assert NOTHING == region.ask(late)
    assert [2] == region.closed("quarantine")


def test_many_nodes_that_seem_to_be_at_fault(start: Start) -> None:
    """Rather what was submitted is: one in twenty comes into quarantine, and the next when one is released."""
    node = a_node(start, workers=21)
    everybody = range(21)
    for _ in range(ROUNDS):
        keys = {one: node.begin(node=one) for one in (3, 10, 20, 30)}
        node.region.run(1, everybody)
        for one, key in keys.items():
            node.end(key, failed=(one,))
    assert [3, 10] == quarantined(node), "two of 42"
    node.region.run(BEAT, everybody)
    node.region.ask(node.region.release(10))
    node.region.run(BEAT, everybody)
    assert [3, 20] == quarantined(node)


def test_tasks_that_stand_alone_accuse_their_nodes(start: Start) -> None:
    """Also where they are started again under the same attempt: the store knows where and how soon they failed."""
    node = a_node(start)
    region = node.region
    keys = [(WorkloadId(name), 1) for name in ("w-a", "w-b")]
    for key in keys:
        region.fact(granted(a_claim(*key, placed={2: 1, 3: 1}, kind=Kind.SERVICE)), GangStarted(*key))
    region.run(SOON + 1, ALL)
    late = RecordTasksDown(EU, *keys[0], ((task_number(0, 0), 0),), EndCause.TASK_FAILED, 1)
    region.ask(late)
    assert {} == region.capacity.failures.by_node, "it had run for long"
    for turn in range(ROUNDS):
        key = (WorkloadId(f"w-{turn}"), 1)
        region.fact(granted(a_claim(*key, placed={2: 1, 3: 2}, kind=Kind.SERVICE)))
        if turn:
            region.fact(GangStarted(*key))
        region.run(2 if turn else 2 * SOON, ALL)
        tasks = ((task_number(0, 1), 0), (task_number(0, 2), 0))
        region.ask(RecordTasksDown(EU, *key, tasks, EndCause.TASK_FAILED, 1, is_gone=True))
        region.ask(RecordTasksDown(EU, *key, ((task_number(0, 0), 0),), EndCause.COMPLETED, 0, is_gone=True))
        assert [3] == list(region.capacity.failures.by_node)
    assert [3] == quarantined(node)


# Ill nodes.


def test_ill_node_comes_into_quarantine(start: Start) -> None:
    """With the worker's own words; said at each beat until the log shows it."""
    region = a_region(start, 3)
    region.ill[1] = ((2, "GPU 4 is gone"), (3, "GPU 4 is gone"))
    region.is_store_deaf = True
    region.run(2 * BEAT, ALL)
    assert 2 == len(region.told(CloseNodes))
    region.is_store_deaf = False
    region.run(3 * BEAT, ALL)
    [closed] = region.recorded(NodesClosed)
    assert ("GPU 4 is gone", ((2, 3),), True) == (closed.reason, closed.nodes, closed.until_checked)
    assert 3 == len(region.told(CloseNodes))


def test_each_ill_node_has_its_own_reason(start: Start) -> None:
    """And a worker speaks for its own nodes only."""
    region = a_region(start, 3)
    region.ill[1] = ((2, "GPU 4 is gone"), (3, "ECC errors"), (4, "not mine"), (99, "nobody's"))
    region.run(BEAT, ALL)
    assert {2: "GPU 4 is gone", 3: "ECC errors"} == {
        node: row.reason for node, row in region.capacity.closures["quarantine"].each.items()
    }


def checked(well: tuple[int, ...] = (2,), ill: tuple[tuple[int, str], ...] = ()) -> NodesChecked:
    """What came of a check of the second worker's nodes."""
    return NodesChecked(EU, named(1), well, ill)


def ill_node(start: Start) -> Region:
    """Node 2 is in quarantine because it was ill; its worker calls it so no longer."""
    region = a_region(start, 3)
    region.ill[1] = ((2, "GPU 4 is gone"),)
    region.run(BEAT, ALL)
    assert [2] == region.closed("quarantine")
    region.ill.clear()
    region.run(BEAT, ALL)
    return region


def test_ill_node_is_checked_and_passes(start: Start) -> None:
    """Every five minutes its worker is asked to look; when it finds the node well, it is open again, and not before."""
    region = ill_node(start)
    assert [2] == region.closed("quarantine")
    region.run(2 * CHECK, ALL)
    asked = region.told(CheckNodes)
    assert [CheckNodes(EU, named(1), (2,))] * 2 == [one for _, one in asked]
    assert CHECK == asked[1][0] - asked[0][0]
    region.hear(checked((), ((2, "GPU 4 is gone"),)))
    assert [2] == region.closed("quarantine")
    region.hear(checked())
    assert [] == region.closed("quarantine")
    assert [("passed a check", ((2, 2),))] == [
        (one.reason, one.nodes) for one in region.recorded(NodesOpened)
    ]
    region.run(2 * CHECK, ALL)
    assert asked == region.told(CheckNodes), "nothing is left to be checked"


def test_check_that_its_workers_beats_contradict(start: Start) -> None:
    """A word that was long on its way: the newest beat calls the node ill."""
    region = ill_node(start)
    region.ill[1] = ((2, "ECC errors"),)
    region.beat(1)
    region.hear(checked())
    assert [2] == region.closed("quarantine")
    assert [] == region.told(OpenNodes)


def test_check_by_another_worker_or_for_another_life(start: Start) -> None:
    """Nobody passes for another's nodes; and who has just started waits for a beat before it believes in health."""
    region = ill_node(start)
    region.hear(replace(checked(), worker=named(0)))
    region.restart_broker()
    region.hear(checked())
    assert [2] == region.closed("quarantine")
    region.beat(1)
    region.hear(checked())
    assert [] == region.closed("quarantine")


def test_check_finds_another_node_ill(start: Start) -> None:
    """It comes into quarantine too."""
    region = ill_node(start)
    region.hear(checked((2,), ((3, "ECC errors"),)))
    assert [3] == region.closed("quarantine")


def test_checks_after_the_broker_restarted(start: Start) -> None:
    """The nodes that wait for a check are in the log."""
    region = ill_node(start)
    region.restart_broker()
    region.run(CHECK, ALL)
    assert [CheckNodes(EU, named(1), (2,))] == [one for _, one in region.told(CheckNodes)]


def test_lost_worker_is_not_asked_to_check(start: Start) -> None:
    """It is asked once it is back."""
    region = ill_node(start)
    region.run(CHECK + 30, (0, 2))
    assert region.capacity.workers[named(1)].is_lost
    assert [] == region.told(CheckNodes)
    region.run(CHECK, ALL)
    assert [named(1)] == [one.worker for _, one in region.told(CheckNodes)]


def test_black_hole_passes_no_check(start: Start) -> None:
    """It looks well, which is its trouble: it is not even checked, and no word that it is well lets it out."""
    node = a_node(start)
    for _ in range(ROUNDS):
        node.fail()
    node.region.run(2 * CHECK, ALL)
    assert [] == node.region.told(CheckNodes)
    node.region.hear(checked((3,)))
    assert [3] == quarantined(node)


def test_ill_nodes_do_not_count_against_black_holes(start: Start) -> None:
    """How many nodes may be in quarantine for failures does not depend on the ill ones: those are known, and heal by themselves."""
    region = ill_node(start)
    node = Node(region)
    for _ in range(ROUNDS):
        key = node.begin(node=5)
        node.end(key, failed=(5,))
        region.run(1, ALL)
    assert [2, 5] == quarantined(node)


def test_suspicion_and_quarantine_are_apart(start: Start) -> None:
    """A beat clears a worker of silence, and does not heal its nodes."""
    region = ill_node(start)
    region.run(20, (0, 2))
    assert [2, 3] == region.closed("suspicion")
    region.run(BEAT, ALL)
    assert ([], [2]) == (region.closed("suspicion"), region.closed("quarantine"))
    assert {ClosureKind.SUSPECT, ClosureKind.QUARANTINE} == {one.kind for one in region.recorded(NodesClosed)}
    assert seconds(CHECK) == QUARANTINE_CHECK
