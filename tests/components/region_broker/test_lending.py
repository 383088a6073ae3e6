"""H-1: what tasks lend becomes a word to the region's store, until the log shows it."""

from msgspec.structs import replace

from core.component import Decision
from core.events.harvest import HarvestOffered, HarvestRecalled, HarvestReleased
from core.events.pools import PoolChanged
from core.events.region import StopOrdered
from core.messages.harvest import TaskLends
from core.messages.workers import TasksPhase, TasksState
from core.nouns.harvest import HarvestPart, LentPart, ReleasedPart, Why
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.quantities import NOTHING, Amount
from core.nouns.workload import EndCause
from tests.builders import EU, EU_LOG, attempt
from tests.components.support.harvest import GRACE, OFF, ON, POOL
from tests.components.support.region_broker import ENDED, RUNNING, W0, W1, Broker, Start, running, words

ONE, TWO = Amount(1_000), Amount(2_000)


def lending(size: Amount, node: int = 1) -> TasksState:
    """A share that runs and lends so much of a node."""
    return replace(RUNNING, lends=(LentPart(node, size),) if size != NOTHING else ())


def lends(size: Amount, number: int, node: int = 1) -> TaskLends:
    """The word about it."""
    return TaskLends(EU, *attempt("w-1"), node, size, number)


def offered(size: Amount, number: int, revision: int, node: int = 1) -> HarvestOffered:
    """The log shows it."""
    part = HarvestPart(((node, node),), size, attempt("w-1"), POOL, number)
    return HarvestOffered(revision, (part,), GRACE)


def recalled(size: Amount, number: int, revision: int) -> HarvestRecalled:
    """The log shows that less is lent."""
    part = HarvestPart(((1, 1),), size, attempt("w-1"), POOL, number)
    return HarvestRecalled(revision, (part,), Why.WANTED)


def released(revision: int) -> HarvestReleased:
    """Executors have left the node."""
    return HarvestReleased((ReleasedPart(1, revision, Nanoseconds(1)),))


def harvested(start: Start) -> Broker:
    """The gang runs, in a pool that is harvested."""
    broker = running(start)
    broker.machine.fact(EU_LOG, PoolChanged(POOL, ON))
    return broker


def said(broker: Broker, one: TasksState) -> list[TaskLends]:
    """What the store hears when the first worker reports this share."""
    broker.report(W0, one)
    return told(broker.machine.wake())


def told(decision: Decision) -> list[TaskLends]:
    """What the store hears of lent capacity."""
    return words(decision, TaskLends)


def test_word_is_said_until_the_log_shows_it(start: Start) -> None:
    """And then no more; a report that changes nothing says nothing."""
    broker = harvested(start)
    assert [lends(TWO, 1)] == said(broker, lending(TWO))
    assert [lends(TWO, 1)] == told(broker.wait(seconds(2), W0, W1))[:1]
    broker.machine.fact(EU_LOG, offered(TWO, 1, 1))
    assert [] == told(broker.machine.wake())
    assert [] == said(broker, replace(lending(TWO), saved_step=0))
    assert [] == told(broker.wait(seconds(30), W0, W1))


def test_more_is_said_once_a_recall_is_over(start: Start) -> None:
    """The store would not record it before; less is said at once."""
    broker = harvested(start)
    said(broker, lending(TWO))
    broker.machine.fact(EU_LOG, offered(TWO, 1, 1))
    assert [lends(NOTHING, 2)] == said(broker, lending(NOTHING))
    broker.machine.fact(EU_LOG, recalled(NOTHING, 2, 2))
    assert [] == said(broker, lending(ONE))
    broker.machine.fact(EU_LOG, released(2))
    assert [lends(ONE, 3)] == told(broker.machine.wake())


def test_of_two_words_with_one_number_the_right_one_is_said_again(start: Start) -> None:
    """The store has recorded the first; the second has the next number."""
    broker = harvested(start)
    assert [lends(ONE, 1)] == said(broker, lending(ONE))
    assert [lends(TWO, 1)] == said(broker, lending(TWO))
    broker.machine.fact(EU_LOG, offered(ONE, 1, 1))
    assert [lends(TWO, 2)] == told(broker.machine.wake())


def test_what_lends_more_of_one_thing_and_less_of_another_gives_back_first(start: Start) -> None:
    """The store takes more, or less."""
    broker = harvested(start)
    said(broker, lending(Amount(1_000, 4_000)))
    broker.machine.fact(EU_LOG, offered(Amount(1_000, 4_000), 1, 1))
    assert [lends(Amount(1_000, 2_000), 2)] == said(broker, lending(Amount(2_000, 2_000)))


def test_pool_that_is_not_harvested_hears_nothing(start: Start) -> None:
    """A look from time to time finds when it is."""
    broker = running(start)
    broker.machine.fact(EU_LOG, PoolChanged(POOL, OFF))
    assert [] == said(broker, lending(TWO))
    assert [] == told(broker.wait(seconds(5), W0, W1))
    broker.machine.fact(EU_LOG, PoolChanged(POOL, ON))
    assert lends(TWO, 1) in told(broker.wait(seconds(15), W0, W1))


def test_stop_says_nothing(start: Start) -> None:
    """The order has recalled all."""
    broker = harvested(start)
    said(broker, lending(TWO))
    broker.machine.fact(EU_LOG, offered(TWO, 1, 1), StopOrdered(*attempt(), EndCause.CANCELLED))
    assert [] == told(broker.machine.wake())
    stopping = replace(lending(TWO), phase=TasksPhase.STOPPING)
    assert [] == said(broker, stopping)


def test_share_that_has_ended_lends_nothing(start: Start) -> None:
    """Whatever its report says."""
    broker = harvested(start)
    said(broker, lending(TWO))
    broker.machine.fact(EU_LOG, offered(TWO, 1, 1))
    assert [lends(NOTHING, 2)] == said(broker, ENDED)


def test_next_broker_says_nothing_before_the_worker_is_heard(start: Start) -> None:
    """It would take the silence for a wish; and then only what has changed, with the log's next number."""
    broker = harvested(start)
    said(broker, lending(TWO))
    broker.machine.fact(EU_LOG, offered(TWO, 1, 1))
    broker = broker.restart()
    assert [] == told(broker.woken)
    broker.beat(W0, lending(TWO))
    assert [] == told(broker.machine.wake())
    assert [lends(ONE, 2)] == said(broker, lending(ONE))
