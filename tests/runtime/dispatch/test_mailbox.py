"""The mailbox: lanes keep their order, the urgent comes first, nothing starves, and what does not fit is the least urgent."""

import asyncio
import random
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.simulated import SimulatedNetwork
from bus.simulated_endpoint import SimulatedBus
from core.codec import Parcel
from core.dispatch.context import Urgency
from core.dispatch.policies import POLICIES
from core.messages.base import LogHeard
from core.messages.dispatch import ClassWaits, DispatchTold
from core.messages.workers import WorkerBeat
from core.nouns.dispatch import DEFAULT_COSTS, TARGETS, DispatchSettings, Target, UrgencyClass
from core.nouns.ids import GLOBAL_LOG, WorkerName
from core.nouns.instant import MILLISECOND, SECOND, Nanoseconds, seconds
from core.nouns.limits import SYSTEM_RATE_MAX
from runtime.dispatch.lanes import Lane
from runtime.dispatch.mailbox import Mailbox, hear_of_dispatch
from runtime.virtual_loop import VirtualLoop, run_virtual
from scenarios.accounting.mail_watch import MailWatch
from tests.core.properties import PROPERTY
from tests.runtime.dispatch.aids import EU, START, Post

SYSTEM, INTERACTIVE, QUERY = UrgencyClass.SYSTEM, UrgencyClass.INTERACTIVE, UrgencyClass.QUERY
PLACEMENT, REPORT, BULK = UrgencyClass.PLACEMENT, UrgencyClass.REPORT, UrgencyClass.BULK


def told(post: Post, sort: str) -> ClassWaits:
    """What is told of one class."""
    return next(one for one in post.mailbox.told() if one.sort == sort)


def test_message_that_waits_alone_costs_no_lane() -> None:
    """However often that happens."""
    post = Post()
    for number in range(3):
        post.put(f"{number}", QUERY)
        assert (1, {}, 0) == (len(post.mailbox), post.mailbox._lanes, len(post.mailbox._heaps))
        assert f"{number}" == post.take()
    assert not post.mailbox


def test_more_urgent_message_overtakes_those_of_others() -> None:
    """C-3, C-5: by the start deadline, so a query that has waited for long comes before an interactive message."""
    post = Post()
    post.put("old query", QUERY)
    post.sleep(900)
    post.put("query", QUERY)
    post.put("urgent", INTERACTIVE)
    post.put("stop", SYSTEM)
    assert ["stop", "old query", "urgent", "query"] == post.take_all()


def test_later_urgent_message_lends_its_urgency_to_those_before_it() -> None:
    """C-3: messages of one sender about one workload never overtake each other."""
    post = Post()
    post.put("bid", PLACEMENT, "agent", "w-7")
    post.put("other bid", PLACEMENT, "agent", "w-8")
    post.put("query", QUERY)
    post.put("stop", SYSTEM, "agent", "w-7")
    post.put("last", PLACEMENT, "agent", "w-7")
    assert ["bid", "stop", "other bid", "last", "query"] == post.take_all()


def test_equal_urgency_goes_by_arrival() -> None:
    """C-3: in every policy with one cost, one sender each and one class."""
    for policy in POLICIES:
        post = Post(policy)
        names = [f"{number}" for number in range(20)]
        for name in names:
            post.put(name, QUERY)
        assert names == post.take_all(), policy


def test_system_comes_first_up_to_its_rate() -> None:
    """What is beyond is interactive, so that a flood of them does not starve all others."""
    post = Post(room=2 * SYSTEM_RATE_MAX)
    for number in range(SYSTEM_RATE_MAX + 5):
        post.put(f"stop {number}", SYSTEM)
    post.put("urgent", INTERACTIVE, urgency=Urgency("interactive", MILLISECOND))
    order = post.take_all()
    assert 5 == len(order) - 1 - order.index("urgent")
    assert SYSTEM_RATE_MAX == told(post, SYSTEM).taken
    post.sleep(10)
    post.put("query", QUERY)
    for number in range(SYSTEM_RATE_MAX // 100 + 1):
        post.put(f"again {number}", SYSTEM)
    assert SYSTEM_RATE_MAX // 100 == told(post, SYSTEM).waiting, "allowed in ten milliseconds"


@pytest.mark.parametrize(("quantum", "expected"), [(0, "a0 u0 u1 u2 a1 a2"), (5, "a0 a1 a2 u0 u1 u2")])
def test_lane_is_kept_until_the_quantum_is_over(quantum: float, expected: str) -> None:
    """C-4: no hand-over before the quantum is over; the first message of a claim always runs."""
    post = Post(quantum=Nanoseconds(round(quantum * MILLISECOND)))
    for number in range(3):
        post.put(f"a{number}", QUERY, "a", "one lane")
    taken = [post.take()]
    for number in range(3):
        post.put(f"u{number}", INTERACTIVE)
    post.sleep(1)
    taken += post.take_all()
    assert expected.split() == taken
    assert (quantum == 0) == told(post, QUERY).handed_over


def test_quantum_that_is_over_hands_over() -> None:
    """After it, and at once to `system`."""
    post = Post(quantum=seconds(0.005))
    for number in range(4):
        post.put(f"a{number}", QUERY, "a", "one lane")
    assert "a0" == post.take()
    post.put("urgent", INTERACTIVE)
    post.sleep(4)
    assert "a1" == post.take()
    post.put("stop", SYSTEM)
    assert "stop" == post.take(), "it never waits for a quantum"
    post.sleep(2)
    assert ["urgent", "a2", "a3"] == post.take_all()


def test_what_has_waited_its_longest_is_next() -> None:
    """C-8: under a load of short messages that never ends, at every fourth decision, and after what is before it in its lane."""
    post = Post("sjf", targets={BULK: Target(seconds(1), seconds(2))})
    for name, sender in (("before", "solver"), ("starved", "solver"), ("other", "other")):
        post.put(name, BULK, sender, "w-1", urgency=Urgency(BULK, seconds(1)))
    taken: list[str] = []
    while "other" not in taken:
        post.put(f"short {len(taken)}", INTERACTIVE)
        taken.append(post.take())
        post.sleep(100)
    assert [23, 27, 31] == [taken.index(name) for name in ("before", "starved", "other")]
    assert 3 == told(post, BULK).moved


def test_once_something_is_late_all_of_a_shorter_target_comes_before_it() -> None:
    """C-8: here or before it came here; of one target by start deadline, but who was late by two targets by arrival (no domino)."""
    post = Post()
    post.put("lost", QUERY, urgency=Urgency(QUERY, -seconds(9)))
    post.put("late", QUERY, urgency=Urgency(QUERY, -seconds(1)))
    post.put("bulk", BULK)
    post.put("late and urgent", INTERACTIVE, urgency=Urgency(INTERACTIVE, -seconds(60)))
    post.put("fresh", QUERY)
    assert ["late and urgent", "late", "lost", "fresh", "bulk"] == post.take_all()
    post.put("waits", QUERY)
    post.sleep(1_001)
    post.put("urgent", INTERACTIVE, urgency=Urgency(INTERACTIVE, seconds(0.2)))
    post.put("fresh", QUERY)
    post.put("stop", SYSTEM)
    assert ["stop", "urgent", "waits", "fresh"] == post.take_all()


def test_urgent_message_lends_its_target_to_what_is_late_before_it() -> None:
    """C-3: a request for bids behind one of an earlier cycle, at an agent with a backlog of prospects."""
    post = Post()
    for number in range(3):
        post.put(f"backlog {number}", PLACEMENT, f"asker {number}")
    post.put("earlier", PLACEMENT, "broker", "one lane")
    post.sleep(3_000)
    post.put("urgent", INTERACTIVE, "broker", "one lane")
    assert ["earlier", "urgent"] == [post.take(), post.take()]


@pytest.mark.parametrize("policy", ["llf", "edf", "token"])
@pytest.mark.parametrize("left", [0.2, 0.0, -10.0])
def test_overload_of_the_less_urgent_delays_nothing_urgent(policy: str, left: float) -> None:
    """C-8: queries at 1.2 of what the host can decide: once the first of them is late, urgent messages wait for one decision of what is overdue."""
    post = Post(policy, room=10_000)
    waits, queries = [], 0
    for number in range(4_000):
        for _ in range(2 if number % 5 == 0 else 1):
            post.put(f"list {queries}", QUERY, f"dashboard {queries % 50}", f"{queries}")
            queries += 1
        if number % 20 == 0:
            post.put(f"urgent {number}", INTERACTIVE, urgency=Urgency(INTERACTIVE, seconds(left)))
        taken = post.take()
        if taken.startswith("urgent"):
            waits.append(number - int(taken.split()[1]))
        post.sleep(5)
    assert 200 == len(waits)
    assert max(waits[100:]) <= 1
    assert max(waits) <= max(0, left) / 0.005 + 1


def test_backlog_that_has_waited_its_longest_lets_the_urgent_pass() -> None:
    """C-8: of a load beyond what the host can decide, one decision in four is of the backlog."""
    post = Post(room=20_000)
    for number in range(10_000):
        post.put(f"list {number}", QUERY, f"dashboard {number}")
    post.sleep(6_000)
    waits = []
    for number in range(100):
        post.put(f"urgent {number}", INTERACTIVE)
        waits.append(1)
        while not post.take().startswith("urgent"):
            waits[-1] += 1
    assert max(waits) <= 2
    assert 25 <= sum(waits) - 100 <= 35


@pytest.mark.parametrize("policy", POLICIES)
def test_decision_that_takes_longer_than_a_turn_has_left_is_not_taken(policy: str) -> None:
    """Whether it waits alone or beside others; of what was not measured, the cost of its class counts."""
    post = Post(policy)
    post.put("long", BULK)
    for others in (0, 1):
        assert post.mailbox.take(post.now, DEFAULT_COSTS[BULK] - 1) is None
        assert len(post.mailbox) == 1 + others
        post.put("longer", BULK)
    assert post.mailbox.take(post.now, DEFAULT_COSTS[BULK]) is not None


def test_turns_that_end_before_a_long_decision_starve_nothing() -> None:
    """C-8: a host that gets one urgent message for each turn, and never takes a second one in it."""
    post = Post("sjf")
    post.put("starved", BULK)
    post.sleep(130_000)
    taken = []
    for number in range(8):
        post.put(f"urgent {number}", INTERACTIVE)
        mail = post.mailbox.take(post.now)
        while mail is not None:
            taken.append(mail.parcel.id)
            mail = post.mailbox.take(post.now, 0)
    assert "starved" in taken[:4]


def test_longest_wait_that_is_lowered_counts_for_what_waits() -> None:
    """An operator lowers it because something starves."""
    post = Post("sjf", targets={BULK: Target(seconds(1), seconds(3_600))})
    post.put("starved", BULK, urgency=Urgency(BULK, seconds(1)))
    post.put("short", INTERACTIVE)
    post.sleep(10_000)
    post.mailbox.use(DispatchSettings("sjf", {BULK: Target(seconds(1), seconds(2))}), 1)
    taken = []
    for number in range(4):
        post.put(f"short {number}", INTERACTIVE)
        taken.append(post.take())
    assert "starved" in taken


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_can_be_switched_while_messages_wait(policy: str) -> None:
    """C-5: nothing is lost, and what waits is ranked anew."""
    post = Post("fifo")
    watch = MailWatch("post", post.mailbox)
    dice = random.Random(3)
    names = [f"{number}" for number in range(200)]
    for name in names:
        post.put(name, dice.choice(list(UrgencyClass)), f"s{dice.randrange(9)}", f"w-{dice.randrange(3)}")
        post.sleep(1)
    post.mailbox.use(DispatchSettings(policy), 7)
    taken = post.take_all()
    assert sorted(names) == sorted(taken)
    assert ([], 7) == (watch.problems, post.mailbox.revision)
    assert (taken == names) == (policy == "fifo")


def test_unknown_policy_of_a_newer_build_changes_nothing() -> None:
    """The mailbox goes on as before."""
    post = Post()
    post.mailbox.use(DispatchSettings("of a newer build"), 9)
    assert ("llf", 0) == (post.mailbox.settings.policy, post.mailbox.revision)


def test_older_settings_that_come_late_change_nothing() -> None:
    """By the term of the queue that told them, and their revision."""
    bus = run_virtual(_endpoint(), START)
    mailbox = Post().mailbox
    for policy, revision, term, expected in (
        ("edf", 2, 3, "edf"),
        ("rr", 1, 3, "edf"),
        ("sjf", 2, 3, "edf"),
        ("rr", 9, 2, "edf"),
        ("sjf", 3, 3, "sjf"),
        ("fifo", 1, 4, "fifo"),
    ):
        told_so = DispatchTold(DispatchSettings(policy), revision, term)
        hear_of_dispatch(mailbox, bus, Parcel("1", "queue", told_so), "")
        assert expected == mailbox.settings.policy


async def _endpoint() -> SimulatedBus:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return SimulatedNetwork(random.Random(1), loop, "fleet").endpoint("host")


def test_full_mailbox_loses_the_newest_of_the_least_urgent_class_of_who_has_most() -> None:
    """Whoever it is from, and also if that is the one that arrives."""
    post = Post(room=6)
    post.put("q0", QUERY, "dashboard", "1")
    post.put("q1", QUERY, "dashboard", "2")
    post.put("q2", QUERY, "person", "3")
    post.put("bid", PLACEMENT, "agent")
    post.put("stop", SYSTEM)
    assert post.put("report", REPORT)
    assert not post.put("urgent", INTERACTIVE)
    assert 1 == told(post, REPORT).lost, "the least urgent class, although it is one alone"
    assert not post.put("submit", INTERACTIVE)
    assert 1 == told(post, PLACEMENT).lost
    assert not post.put("q3", QUERY, "dashboard", "4")
    assert not post.put("q4", QUERY, "person", "5")
    assert ["stop", "urgent", "submit", "q0", "q1", "q2"] == post.take_all()
    assert 2 == told(post, QUERY).lost


def test_reading_the_bus_helps_while_what_is_next_has_a_longer_target_than_others() -> None:
    """`may_be_preceded`: of one message as of several, of late ones, and of a lane with something urgent."""
    for sort, may_be in ((PLACEMENT, True), (QUERY, True), (INTERACTIVE, False), (SYSTEM, False)):
        post = Post()
        assert not post.mailbox.may_be_preceded(post.now)
        for number in range(3):
            post.put(f"{number}", sort, f"a{number}")
            assert may_be is post.mailbox.may_be_preceded(post.now), (sort, number)
        post.sleep(3_000)
        assert may_be is post.mailbox.may_be_preceded(post.now), "what is late may be preceded, too"
    post = Post()
    post.put("placement", PLACEMENT, "a", "x")
    post.put("urgent", INTERACTIVE, "a", "x")
    assert not post.mailbox.may_be_preceded(post.now), "the lane has the shorter target"
    for policy, may_be in (("fifo", False), ("rr", False), ("sjf", True)):
        post = Post(policy=policy)
        post.put("placement", PLACEMENT, "a")
        post.put("query", QUERY, "b")
        assert may_be is post.mailbox.may_be_preceded(post.now), policy
    short = Post(targets={"query": Target(Nanoseconds(20 * MILLISECOND), seconds(1))})
    short.put("urgent", INTERACTIVE, "a")
    assert short.mailbox.may_be_preceded(short.now), "operators gave queries a shorter target"


def test_lost_message_lends_nothing() -> None:
    """Those before it in its lane are decided when they would have been without it."""
    post = Post(room=3)
    post.put("a", QUERY, "s", "x")
    post.put("b", QUERY, "s", "x", urgency=Urgency(QUERY, -SECOND))
    post.put("t", QUERY, "t", "y", urgency=Urgency(QUERY, 300 * MILLISECOND))
    assert not post.put("urgent", INTERACTIVE, "person")
    assert 1 == told(post, QUERY).lost
    assert ["urgent", "t", "a"] == post.take_all()


def test_own_notices_are_never_lost() -> None:
    """They are what effects came to, and what the host itself has seen."""
    post = Post(room=2)
    for number in range(5):
        post.put(f"{number}", "", "host", message=LogHeard(GLOBAL_LOG))
    assert not post.put("query", QUERY)
    assert ["0", "1", "2", "3", "4"] == post.take_all()


def test_flood_of_one_sender_takes_no_more_memory_than_the_room() -> None:
    """In one lane, and in many; the newest are lost."""
    for lanes in (1, 50):
        post = Post(room=100)
        for number in range(20_000):
            post.put(f"{number}", PLACEMENT, "agent", f"w-{number % lanes}")
        mailbox = post.mailbox
        assert 100 == len(mailbox)
        assert sum(1 + len(lane.rest) for lane in mailbox._lanes.values()) <= 500
        assert len(mailbox._heaps) <= 500
        assert sum(len(one.by_arrival) for one in mailbox._classes.values()) <= 500
        assert [f"{number}" for number in range(100)] == sorted(post.take_all(), key=int)


def test_urgency_that_travels_counts_from_the_hearers_clock() -> None:
    """C-1: what was left when it was said; absent: the class of its type."""
    post = Post()
    post.put("fresh", QUERY)
    post.put("inherited", QUERY, urgency=Urgency(QUERY, seconds(0.3)))
    post.put("late", QUERY, urgency=Urgency(QUERY, -seconds(1)))
    post.put("no time of its own", PLACEMENT, urgency=Urgency(PLACEMENT, seconds(0.4)))
    assert ["late", "inherited", "no time of its own", "fresh"] == post.take_all()
    assert 1 == told(post, QUERY).late


def test_urgency_that_claims_too_much_is_that_of_the_type_and_counted() -> None:
    """Bad input: a class that is not the message's to have, an absurd span, or any with a tenant's credentials."""
    post = Post()
    post.put("query", QUERY)
    post.put("claims", QUERY, urgency=Urgency(SYSTEM, 0))
    post.put("more", QUERY, urgency=Urgency(QUERY, seconds(61)))
    post.put("unheard of", QUERY, urgency=Urgency("most urgent", 0))
    post.put("tenants", SYSTEM, urgency=Urgency(SYSTEM, 0), tenant="ads")
    post.put("late", QUERY, urgency=Urgency(BULK, -seconds(100)), tenant="ads")
    assert ["tenants", "query", "claims", "more", "unheard of", "late"] == post.take_all()
    assert (4, 1) == (told(post, QUERY).disbelieved, told(post, SYSTEM).disbelieved)
    assert 1 == told(post, INTERACTIVE).taken, "a tenant's stop is interactive"


def test_requests_beyond_a_tenants_rate_are_bulk() -> None:
    """By the policy `token` alone: the tenant's eleventh request waits for everybody's."""
    for policy, expected in (("token", ["a0", "a1", "maps", "a2"]), ("llf", ["a0", "a1", "a2", "maps"])):
        post = Post(policy, rate=2)
        for number in range(3):
            post.put(f"a{number}", QUERY, f"ads {number}", tenant="ads")
        post.put("maps", QUERY, tenant="maps")
        assert expected == post.take_all()
        assert (policy == "token") == told(post, BULK).taken


def test_beats_wait_until_somebody_looks_at_them() -> None:
    """C-7: a thousand that come at once delay no award that comes while they wait, and none is late."""
    post = Post(room=2_000)
    for number in range(1_000):
        beat = WorkerBeat(EU, WorkerName(f"w{number}"), (), (1, 1), 1)
        post.put(f"beat {number}", REPORT, f"worker {number}", message=beat)
    taken = []
    for number in range(1_000):
        if number % 10 == 0:
            post.put(f"award {number}", PLACEMENT, urgency=Urgency(PLACEMENT, seconds(2)))
            assert f"award {number}" == post.take()
        taken.append(post.take())
        post.sleep(1)
    assert [f"beat {number}" for number in range(1_000)] == taken
    assert 0 == told(post, REPORT).late


def test_waits_and_lateness_are_told_by_class() -> None:
    """C-9: what waits, was taken and was late, and the percentiles of waits."""
    post = Post()
    for number in range(100):
        post.put(f"{number}", QUERY)
    for _ in range(100):
        post.sleep(20)
        post.take()
    waits = told(post, QUERY)
    assert (0, 100, 0) == (waits.waiting, waits.taken, waits.lost)
    assert (1_000 * MILLISECOND, 1_980 * MILLISECOND) == (waits.p50, waits.p99)
    assert 50 == waits.late, "those that waited for more than a second"


def test_messages_that_are_refused_leave_the_hosts_own() -> None:
    """By arrival, whether one waits or many."""
    post = Post()
    post.put("only", QUERY)
    assert ["only"] == [mail.parcel.id for mail in post.mailbox.refuse()]
    assert 0 == len(post.mailbox)
    post.put("bulk", BULK)
    post.put("heard", "", "host", message=LogHeard(GLOBAL_LOG))
    post.put("urgent", INTERACTIVE, "a", "x")
    post.put("query", QUERY, "a", "x")
    assert ["bulk", "urgent", "query"] == [mail.parcel.id for mail in post.mailbox.refuse()]
    assert ["heard"] == post.take_all()
    post.put("again", QUERY)
    assert ["again"] == post.take_all()


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"),
            st.sampled_from([sort for sort in UrgencyClass if sort != UrgencyClass.GANG]),
            st.integers(0, 4),
            st.integers(0, 2),
            st.integers(-3_000, 300),
        ),
        st.tuples(st.just("take"), st.integers(1, 4)),
        st.tuples(st.just("sleep"), st.integers(1, 4_000)),
        st.tuples(st.just("use"), st.sampled_from(sorted(POLICIES)), st.sampled_from((10, 2_000, 60_000))),
    ),
    max_size=120,
)


@PROPERTY
@given(steps=STEPS, room=st.integers(3, 60), policy=st.sampled_from(sorted(POLICIES)))
def test_lanes_keep_their_order_and_nothing_starves(
    steps: list[tuple[object, ...]], room: int, policy: str
) -> None:
    """C-3, C-8: over any interleaving; what is put is taken once, or counted as lost."""
    post = Post(policy, room=room)
    watch = MailWatch("post", post.mailbox)
    put = taken = 0
    for step in steps:
        match step:
            case ("put", str(sort), int(sender), int(about), int(left)):
                within = TARGETS[sort].within
                urgency = Urgency(sort, min(left * MILLISECOND, within)) if left < 200 else None
                post.put(f"{put}", sort, f"s{sender}", f"w-{about}", urgency=urgency)
                put += 1
            case ("take", int(count)):
                taken += sum(bool(post.take()) for _ in range(count))
            case ("sleep", int(milliseconds)):
                post.sleep(milliseconds)
            case ("use", str(name), int(wait)):
                short = Target(Nanoseconds(10 * MILLISECOND), Nanoseconds(wait * MILLISECOND))
                post.mailbox.use(DispatchSettings(name, {QUERY: short, BULK: short}), 1)
        assert len(post.mailbox) <= room
        for lane in post.mailbox._lanes.values():
            waiting = lane.mails()
            place = min(mail.order for mail in waiting), min(mail.group for mail in waiting)
            assert place == lane.place(), "what is taken or lost lends nothing"
            assert lane.entry is not None
            assert place == (lane.entry[0], lane.group)
    taken += len(post.take_all())
    lost = sum(one.lost for one in post.mailbox.told())
    assert (put, []) == (taken + lost, watch.problems)
    mailbox = post.mailbox
    assert ({}, 0, 0) == (mailbox._lanes, len(mailbox), sum(one.count for one in mailbox._classes.values()))


@PROPERTY
@given(steps=STEPS)
def test_fifo_is_a_queue(steps: list[tuple[object, ...]]) -> None:
    """As hosts had it before there were mailboxes."""
    post, queue = Post("fifo"), deque[str]()
    for number, step in enumerate(steps):
        match step:
            case ("put", str(sort), int(sender), int(about), int(_)):
                post.put(f"{number}", sort, f"s{sender}", f"w-{about}")
                queue.append(f"{number}")
            case ("take", int(count)):
                for _ in range(count):
                    assert post.take() == (queue.popleft() if queue else "")
            case ("sleep", int(milliseconds)):
                post.sleep(milliseconds)
    assert list(queue) == post.take_all()


def test_watch_finds_a_mailbox_that_breaks_its_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the properties above can fail: lanes that are taken from behind, and a longest wait that is forgotten."""
    post = Post("sjf")
    watch = MailWatch("post", post.mailbox)
    post.put("bulk", BULK)
    post.sleep(130_000)
    post.put("urgent", INTERACTIVE)
    with monkeypatch.context() as patched:
        patched.setattr(Mailbox, "_overdue", lambda mailbox, now: None)
        for number in range(3):
            assert "urgent" == post.take()
            post.put("urgent", INTERACTIVE, f"person {number}")
        assert [] == watch.problems
        assert "urgent" == post.take()
    said = "CancelWorkload (interactive, number 5) was taken before ListWorkloads (bulk, number 1)"
    assert [f"mailbox of post: {said}, which had waited 130.0 s"] == watch.problems
    post.take()
    for number in range(3):
        post.put(f"{number}", QUERY, "a", "x")
    with monkeypatch.context() as patched:
        patched.setattr(Lane, "pop", lambda lane: lane.rest.pop())
        assert "2" == post.take()
    assert 2 == len(watch.problems)
