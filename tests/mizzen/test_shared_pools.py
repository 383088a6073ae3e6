"""`mizzen policy set`, `status` and `show`: options, a real queue that is told, and shared pools as people see them."""

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from core.estimating.prediction import PredictedBy
from core.events.queue import AttemptClosed
from core.events.sharing import PicksAdded, PolicySet, RoundBegun, SharesSet
from core.fact import Fact
from core.images import GlobalImage
from core.images.sharing import Sharing
from core.messages.planning import ConcernShown
from core.messages.queue import RunTimeTold
from core.messages.sharing import SetPolicy
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.sharing import (
    ISOLATED,
    ROUND_SPAN,
    WHOLE,
    ClassShares,
    PoolShares,
    ShareColumn,
    SharingSettings,
)
from core.nouns.workload import EndCause, Phase
from core.sharing.classes import class_of
from mizzen.actions.sharing import SharingWish, set_sharing, sharing_wish_of
from mizzen.actions.workloads import TRIES_MAX
from mizzen.cli import main
from mizzen.connect.plane import RequestRefused, submitter
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.policies.pool_history import seen, sharing_of
from mizzen.views.policies.pool_status import (
    job_lines,
    job_rows,
    job_told,
    jobs_lines,
    jobs_rows,
    shares_lines,
    shares_problem,
    status_lines,
    status_of,
)
from mizzen.views.policies.received_time import JobTime
from mizzen.views.policies.round_choice import ChosenRound, Turn
from tests.builders import US, submitted
from tests.components.support.job_queue import W1
from tests.components.support.machine import Machine
from tests.components.support.shared_pool import A, B, a_queue_of_pairs, begun, next_round, owe, shared
from tests.mizzen.half_plane import half_plane
from tests.mizzen.test_rankings import Quicker
from tests.runtime.aids import Place, virtual

V100, K80 = ShareColumn(US, "V100"), ShareColumn(US, "K80")
CLASS = class_of(shared())
SPEEDS = {"V100": 9_000_000}


def test_options_change_what_they_name() -> None:
    """All else stays; `none` forgets the entities."""
    was = SharingSettings("makespan", seconds(60), 1_000_000, entity_weights={"ads": 2_000})
    assert SharingSettings("fifo", seconds(60), 1_000_000, entity_weights={"ads": 2_000}) == sharing_wish_of(
        "fifo", "", "", ""
    ).on(was)
    wish = sharing_wish_of("", "2m", "0.5", "maps=1.5, web=1")
    assert SharingWish(None, seconds(120), 500_000, {"maps": 1_500, "web": 1_000}) == wish
    assert {} == sharing_wish_of("", "", "", "none").on(was).entity_weights
    paired = sharing_wish_of("", "", "", "", "on").on(was)
    assert replace(was, has_pairs=True) == paired
    assert sharing_wish_of("fifo", "", "", "").on(paired).has_pairs, "it is not named, so it stays"
    assert was == sharing_wish_of("", "", "", "", "off").on(paired)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("", "", "", ""), "nothing is named"),
        (("max_mni", "", "", ""), "did you mean `max_min`"),
        (("fifo,max_min", "", "", ""), "one policy"),
        (("mine.py", "", "", ""), "one policy"),
        (("", "soon", "", ""), "--round"),
        (("", "", "much", ""), "--stay"),
        (("", "", "", "ads=0"), "--entities"),
        (("", "", "", "ads"), "--entities"),
        (("", "", "", "ads=1,ads=2"), "twice"),
    ],
)
def test_mistakes_are_named(options: tuple[str, str, str, str], named: str) -> None:
    """As misuse, before any plane is looked for."""
    with pytest.raises(CommandError, match=named) as wrong:
        sharing_wish_of(*options)
    assert MISUSED == wrong.value.exit_code


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("policy", "set", "fifo", "--policy", "sjf"), "--policy: fifo is named too"),
        (("policy", "set", "--policy", "max_mni"), "did you mean `max_min`"),
        (("policy", "set", "--space-sharing", "maybe"), "space-sharing"),
        (("policy", "statsu"), "statsu"),
    ],
)
def test_misuse_is_told(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On the command line, before any plane is looked for."""
    assert MISUSED == main(words)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [("policy",), ("policy", "status")])
def test_policy_alone_is_its_status(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """`mizzen policy` asks the same of the plane as `mizzen policy status`."""
    asked: list[object] = []

    def on_plane(read: object) -> None:
        asked.append(read)
        raise CommandError("there is none")

    monkeypatch.setattr("mizzen.views.plane_reads.on_plane", on_plane)
    assert 1 == main([*words, "--json"])
    assert [seen] == asked


@virtual
async def test_policy_is_set(place: Place) -> None:
    """It is a fact with who asked; once more when somebody was quicker; a length that cannot be is refused."""
    plane = await half_plane(place)
    done = await set_sharing(plane.bus, SharingWish(policy="makespan"))
    assert (SharingSettings("makespan"), 1) == (done.settings, done.revision)
    assert [PolicySet(SharingSettings("makespan"), 1, submitter())] == await plane.events(
        GLOBAL_LOG, PolicySet
    )

    def other(message: SetPolicy) -> SetPolicy:
        return SetPolicy(SharingSettings("fifo", seconds(60 + message.revision)), message.revision)

    quicker: Any = Quicker(plane.bus, SetPolicy, other, 1)  # Any: a bus that can only be asked
    done = await set_sharing(quicker, SharingWish(stay=0))
    assert (SharingSettings("fifo", seconds(61), 0), 3) == (done.settings, done.revision)
    assert done.settings == (await sharing_of(plane.bus)).settings
    done = await set_sharing(plane.bus, SharingWish(has_pairs=True))
    assert done.settings.has_pairs
    with pytest.raises(RequestRefused, match="round_span"):
        await set_sharing(plane.bus, SharingWish(round_span=seconds(1)))
    always: Any = Quicker(plane.bus, SetPolicy, other, TRIES_MAX)  # Any: as above
    with pytest.raises(CommandError, match="all the time"):
        await set_sharing(always, SharingWish(stay=1))


def pooled(*events: Any) -> Sharing:  # Any: events
    """Two like jobs were submitted, and this happened after that."""
    image = GlobalImage.empty(("sharing",))
    for sequence, event in enumerate(
        [*(submitted(number, spec=shared(speeds=SPEEDS)) for number in (1, 2)), *events], 1
    ):
        image.fold(Fact(GLOBAL_LOG, sequence, Instant(sequence), "cause", "actor", event, Instant(sequence)))
    return image.sharing


def test_status_tells_how_new_the_shares_are() -> None:
    """From none to a planner's, which grow old; each with what an operator does."""
    at_rest = ConcernShown(True, False, 0, "", seconds(-1))
    assert "equal part; no planner answers: the fleet file starts one" in shares_problem(pooled(), None)
    equal = PoolShares(1, (V100,), (1,), (ClassShares(CLASS, ((0, 500_000),)),), ISOLATED)
    solving = replace(at_rest, is_solving=True)
    assert "owed an equal part; the planner is at work" in shares_problem(pooled(SharesSet(equal)), solving)
    shares = PoolShares(1, (V100,), (1,), (ClassShares(CLASS, ((0, 500_000),)),), "highs", 2)
    new = pooled(SharesSet(shares, policy="max_min"))
    assert ["", ""] == [shares_problem(new, one) for one in (at_rest, None)]
    late = pooled(SharesSet(shares, policy="max_min"), submitted(3, spec=shared(speeds=SPEEDS)))
    assert "they are 1 change old, until a planner tells newer ones" == shares_problem(late, at_rest)
    other = pooled(SharesSet(shares, policy="max_min"), PolicySet(SharingSettings("fifo"), 1))
    assert "until a planner tells those of fifo" in shares_problem(other, at_rest)
    empty = GlobalImage.empty(("sharing",)).sharing
    assert "" == shares_problem(empty, None)
    assert "none has begun" in "\n".join(status_lines(empty, Instant(0), {}))


@pytest.mark.parametrize(
    ("planner", "said"),
    [
        (None, "no planner answers"),
        (ConcernShown(False, False, 1, "", seconds(-1)), "install Mizzen with the extra `planner`"),
        (
            ConcernShown(True, False, 1, "it took longer than 28 s", seconds(15)),
            "the planner failed once, and tries again in 0:15: it took longer than 28 s",
        ),
        (
            ConcernShown(True, True, 3, "it gives what there is not: us/V100", seconds(30)),
            "the planner failed 3 times in a row: it gives what there is not: us/V100",
        ),
    ],
)
def test_status_tells_why_shares_are_not_solved(planner: ConcernShown | None, said: str) -> None:
    """A planner or a solver that is missing, slow or wrong: one sentence each, also in JSON."""
    shares = PoolShares(1, (V100,), (1,), (ClassShares(CLASS, ((0, 500_000),)),), "highs", 2)
    sharing = pooled(SharesSet(shares, policy="max_min"), PolicySet(SharingSettings("allox"), 1))
    found = status_of(sharing, Instant(0), {}, planner)["shares"]
    assert said in found["problem"]
    assert (planner is None) == (found["planner"] is None)
    assert any(said in line for line in status_lines(sharing, Instant(0), {}, planner))


def test_shares_and_jobs_are_told() -> None:
    """By class and column; and of each job whether it runs, where, and what it is owed."""
    shares = PoolShares(
        1, (V100, K80), (1, 4), (ClassShares(CLASS, ((0, 500_000), (1, 125_000))),), "highs", 2
    )
    number = 5
    sharing = pooled(
        SharesSet(shares, policy="max_min"),
        RoundBegun(number, (V100, K80), {}, (), seconds(30)),
        PicksAdded((V100,), {W1: 0}),
    )
    now = Instant(number * ROUND_SPAN + 60 * SECOND)
    times = {
        W1: JobTime("ads", CLASS, 1, since=now - 100, due={"us/V100": 50 * WHOLE}, received={"us/V100": 40})
    }
    found = status_of(sharing, now, times)
    assert (number, 300.0, 1, 2) == (
        found["round"],
        found["next_round_seconds"],
        found["picked"],
        found["jobs"],
    )
    assert [("us/V100", 1, 1), ("us/K80", 4, 0)] == [
        (one["column"], one["gpus"], one["picked_gpus"]) for one in found["columns"]
    ]
    text = "\n".join(status_lines(sharing, now, times))
    assert "max_min, in rounds of 6m, staying is worth 2 rounds" in text
    assert "5; the next begins in 5:00" in text
    lines = [line.split() for line in text.splitlines()]
    figures = ["1", "50.0%", "40.0%", "0.80"]
    assert [["TENANT", "JOBS", "TARGET", "RECEIVED", "FAIRNESS"], ["ads", *figures]] == lines[-5:-3]
    assert ([*CLASS.split(), *figures], 0.8) == (lines[-1], found["tenants"][0]["fairness"])
    head, row = shares_lines(sharing, None)
    assert ["CLASS", "GPUS", "JOBS", "us/V100", "us/K80"] == head.split()
    assert ["1", "2", "50.0%", "12.5%"] == row.split()[-4:]
    _, first, second = jobs_lines(sharing, None)
    assert ("w-1", "starts", "us/V100") == (
        first.split()[0],
        *first.removesuffix(", us/V100 +0.50").split()[-4:-2],
    )
    assert "us/K80 +0.12, us/V100 +0.50" in first
    assert "waits" in second
    time = JobTime("ads", CLASS, 1, since=now - 100, received={"us/V100": 40})
    order = [(WorkloadId("w-2"), "us/V100"), (W1, "us/V100"), (W1, "us/K80")]
    turns = {one: Turn(inf, float(place), 0, one[0]) for place, one in enumerate(order)}
    chosen = ChosenRound(number, 9, now, {"us/V100": 1}, {W1: 1}, turns, {}, {}, is_alike=True)
    rows = job_rows(sharing, W1, time, chosen, now)
    named, steps, _, head, fast, slow = job_lines(job_told(sharing, W1, rows, None), None)
    assert [f"w-1, of class {CLASS}", "steps: 0 saved; it told none"] == [named, steps]
    assert ["COLUMN", "STEPS/S", "SPEED", "TARGET", "RECEIVED", "LAG", "TURN"] == head.split()
    assert ["us/V100", "9", "told", "50.0%", "40.0%", "+0.50", "2", "of", "3", "picked"] == fast.split()
    guessed = ["us/K80", "9", "guessed", "12.5%", "0.0%", "+0.12", "3", "of", "3"]
    assert guessed == slow.split(), "as fast as the slowest that is told"
    bare = job_told(sharing, W1, job_rows(sharing, W1, None, None, now), None)
    assert ["us/V100", "9", "told", "50.0%", "-", "+0.50", "-", "picked"] == job_lines(bare, None)[-2].split()
    with pytest.raises(CommandError, match="no job of a shared pool"):
        job_rows(sharing, WorkloadId("w-9"), None, None, now)


@pytest.mark.parametrize(
    ("steps", "saved", "run_time", "said"),
    [
        (900, 450, None, "450 of 900 saved"),
        (900, 950, None, "950 saved, more than the 900 that it told: it counts as having one left"),
        (0, 5, None, "5 saved; it told none"),
        (
            0,
            5,
            RunTimeTold(seconds(100), PredictedBy.FAMILY),
            "5 saved; it told none, and counts as having 900, to judge by earlier runs of its family",
        ),
        (900, 0, RunTimeTold(seconds(100), PredictedBy.FAMILY), "0 of 900 saved"),
    ],
)
def test_steps_of_a_job_are_told(steps: int, saved: int, run_time: RunTimeTold | None, said: str) -> None:
    """Those that it told, or that are expected of it, and from what; and what is made of fewer than are saved."""
    image = GlobalImage.empty(("sharing",))
    closed = AttemptClosed(W1, 1, EndCause.ROUND_OVER, Phase.PENDING, US, 1, saved_step=saved)
    for sequence, event in enumerate((submitted(spec=shared(speeds=SPEEDS, steps=steps)), closed), 1):
        image.fold(Fact(GLOBAL_LOG, sequence, Instant(sequence), "cause", "actor", event, Instant(sequence)))
    told = job_told(image.sharing, W1, [], run_time)
    assert f"steps: {said}" == job_lines(told, None)[1]


def test_steps_that_a_job_saved_since_it_runs_count() -> None:
    """The queue's image has those of attempts that are over; before the attempt that runs has saved, they are the newest."""
    image = GlobalImage.empty(("sharing",))
    closed = AttemptClosed(W1, 1, EndCause.ROUND_OVER, Phase.PENDING, US, 1, saved_step=450)
    for sequence, event in enumerate((submitted(spec=shared(speeds=SPEEDS, steps=900)), closed), 1):
        image.fold(Fact(GLOBAL_LOG, sequence, Instant(sequence), "cause", "actor", event, Instant(sequence)))
    told = [job_told(image.sharing, W1, [], None, saved)["steps"]["saved"] for saved in (0, 700)]
    assert [450, 700] == told


def test_jobs_that_share_a_gpu_are_told() -> None:
    """With the job beside each; GPUs are counted once; shares beside others stand beside those alone."""
    queue = a_queue_of_pairs(Machine)
    owe(queue, (A, B, WHOLE // 2), (B, A, WHOLE // 2), (A, "", WHOLE // 4))
    while not begun(next_round(queue)).beside:
        pass
    sharing = queue.state.image.sharing
    first, second = jobs_rows(sharing)
    assert (("w-2", "w-1"), ("us/V100", "us/V100")) == (
        (first["beside"], second["beside"]),
        (first["picked"], second["picked"]),
    )
    text = "\n".join(jobs_lines(sharing, None))
    assert "us/V100 beside w-2" in text
    assert "25.0% + 50.0% beside others" in "\n".join(shares_lines(sharing, None))
    (column,) = status_of(sharing, queue.now, {})["columns"]
    assert (1, 1) == (column["gpus"], column["picked_gpus"])
    (row,) = job_rows(sharing, W1, None, None, queue.now)
    assert (0.75, {B: 0.5}) == (row["target"], row["beside"])
