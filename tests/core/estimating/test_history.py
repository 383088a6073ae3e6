"""What the queue's image remembers of what ran, and what it predicts from that."""

import random

import pytest
from msgspec.structs import replace

from core.estimating.family import family_of
from core.estimating.prediction import PredictedBy, Prediction, left_of, predicted
from core.estimating.run_times import KnownRuns, PastRun
from core.events.queue import (
    AttemptClosed,
    RegionAdded,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadChanged,
    WorkloadSubmitted,
)
from core.fact import Event, Fact
from core.images import GlobalImage, Image, decode_image
from core.images.history import History
from core.nouns.ids import GLOBAL_LOG, DatasetName, TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.limits import (
    DATASETS_READ_MAX,
    ERRORS_KEPT_MAX,
    FAMILY_DATASETS_MAX,
    FAMILY_RUNS_MAX,
    RUN_TIME_DEFAULT,
)
from core.nouns.workload import EndCause, Kind, Phase
from tests.builders import EU, START, a_fact, a_job, a_spec

ML = TenantName("ml")


class Past:
    """A queue's log in which workloads run."""

    def __init__(self) -> None:
        self.image = GlobalImage.empty()
        self.now = START
        self.count = 0
        self.facts: list[Fact] = []
        self.say(RegionAdded(EU))

    @property
    def history(self) -> History:
        """What is remembered."""
        return self.image.history

    def say(self, event: Event, after: float = 0.0) -> None:
        """So many seconds later."""
        self.now = Instant(self.now + round(after * SECOND))
        self.facts.append(a_fact(event, len(self.facts) + 1, log=GLOBAL_LOG, at=self.now))
        self.image.fold(self.facts[-1])

    def submit(self, name: str = "train-1", **changes: object) -> WorkloadId:
        """One more workload of tenant `ml`."""
        self.count += 1
        workload = WorkloadId(f"w-{self.count}")
        spec = replace(a_spec(name=name, tenant="ml"), **changes)
        self.say(WorkloadSubmitted(workload, self.count, spec, "ada"))
        return workload

    def up(self, workload: WorkloadId, epoch: int = 1) -> None:
        """It is awarded, and all of its tasks are up at once."""
        self.say(WorkloadAwarded(workload, epoch, EU, 0, ()))
        self.say(WorkloadBound(workload, epoch, EU, 1))

    def run(
        self,
        workload: WorkloadId,
        seconds: float,
        cause: EndCause = EndCause.COMPLETED,
        *,
        phase: Phase = Phase.COMPLETED,
        epoch: int = 1,
        saved: int = 0,
    ) -> None:
        """It is up, and ends so many seconds later."""
        self.up(workload, epoch)
        self.say(AttemptClosed(workload, epoch, cause, phase, EU, 1, saved), seconds)

    def ran(self, *seconds: float, name: str = "train-1", **changes: object) -> None:
        """One after the other completed after so long."""
        for each in seconds:
            self.run(self.submit(name, **changes), each)

    def predicts(self, name: str = "train-9", **changes: object) -> tuple[str, float]:
        """What it is predicted by, and how many seconds."""
        found = self.prediction(name, **changes)
        return found.by, found.duration / SECOND

    def prediction(self, name: str = "train-9", **changes: object) -> Prediction:
        """Of one more workload of tenant `ml`."""
        spec = replace(a_spec(name=name, tenant="ml"), **changes)
        return predicted(self.history.runs, spec, family_of(spec.name))


def test_recurring_work_runs_as_long_as_it_did() -> None:
    """M36: the median of the newest completed runs of its family, whatever number they have, and on what they asked for."""
    past = Past()
    past.ran(10, 30, 20, name="nightly-2026-03-01", jobs=(a_job(4, 8),))
    past.ran(500, name="other")
    found = past.prediction("nightly-2026-03-02")
    assert Prediction(Nanoseconds(20 * SECOND), PredictedBy.FAMILY, 32_000, "H100") == found


def test_hardware_is_the_kind_requested_most() -> None:
    """M36: of equals the last; and it is told how often that was right."""
    past = Past()
    for gpus in (8, 2, 8, 4, 4):
        past.ran(10, jobs=(a_job(1, gpus),))
    assert 4_000 == past.prediction().gpu_milli
    past.ran(10, jobs=(a_job(1, 8),))
    assert 8_000 == past.prediction().gpu_milli
    # Predicted were 8, 2, 8, 8 and 4, as what was asked for last or most.
    assert (5, 0) == (past.history.hardware.count, past.history.hardware.right)
    past.submit(jobs=(a_job(1, 8),))
    assert (6, 1) == (past.history.hardware.count, past.history.hardware.right)


def test_data_is_read_by_half_of_its_runs() -> None:
    """M36: of recurring work, whichever data the next names; of first-time work nothing. And it is told how often that was right."""
    past = Past()
    clicks, users, once = DatasetName("clicks"), DatasetName("users"), DatasetName("once")
    assert () == past.prediction().data
    past.ran(10, data=(users, clicks))
    assert (clicks, users) == past.prediction().data
    past.ran(10, data=(clicks, once))
    past.ran(10, data=(clicks,))
    past.ran(10, data=(clicks, users))
    assert (clicks, users) == past.prediction(data=(once,)).data
    assert () == past.prediction("another-1").data
    assert () == past.prediction(tenant=TenantName("other")).data
    # Predicted were clicks and users; all three; and clicks alone.
    told = past.history.data
    assert (5, 6, 3) == (told.read, told.predicted, told.both)
    past.ran(10, 10, 10, 10)
    assert (clicks,) == past.prediction().data
    past.ran(10)
    assert () == past.prediction().data


def test_of_a_family_few_datasets_are_remembered() -> None:
    """Those that most of its newest runs read; and none that no run read of late."""
    past = Past()
    names = [DatasetName(f"part-{number:02}") for number in range(DATASETS_READ_MAX)]
    past.ran(10, data=tuple(names))
    family = past.history.runs.family(ML, "train")
    assert family is not None
    assert FAMILY_DATASETS_MAX == len(family.read) == len(past.prediction().data)
    past.ran(10, data=("always", names[0]))
    past.ran(10, data=("always", "seldom"))
    assert FAMILY_DATASETS_MAX == len(family.read)
    assert ("always",) == past.prediction().data[:1]
    past.ran(*([10] * FAMILY_RUNS_MAX), data=("always",))
    assert {"always": (1 << FAMILY_RUNS_MAX) - 1} == family.read


def test_services_are_not_predicted() -> None:
    """Nor is it told how often their hardware was foreseen, though other work has their name."""
    past = Past()
    past.ran(10)
    past.submit(kind=Kind.SERVICE)
    assert (0, 0) == (past.history.hardware.count, past.history.data.read)


def test_first_time_work_has_the_median_of_families() -> None:
    """M36: of its tenant's, then of work of like size, of everything, and before all that a default."""
    past = Past()
    assert ("default", RUN_TIME_DEFAULT / SECOND) == past.predicts()
    past.ran(100, 100, 100, name="a", tenant=TenantName("other"), jobs=(a_job(8, 8),))
    by, seconds = past.predicts()
    assert "fleet" == by
    assert 100 == pytest.approx(seconds, rel=0.125)
    past.ran(40, 40, 40, name="a", tenant=TenantName("other"))
    by, seconds = past.predicts()
    assert "size" == by
    assert 40 == pytest.approx(seconds, rel=0.125)
    past.ran(1, 1, 1, 1, 1, 1, name="often")
    past.ran(7, name="rare")
    past.ran(9, name="rarer")
    assert ("tenant", 7) == past.predicts("never-seen")


def test_nothing_is_predicted_to_run_longer_than_it_may() -> None:
    """M36: its own longest duration caps every prediction."""
    past = Past()
    cap = Nanoseconds(15 * SECOND)
    assert ("default", 15) == past.predicts(max_duration=cap)
    past.ran(20, 30)
    assert ("family", 15) == past.predicts(max_duration=cap)
    assert ("family", 20) == past.predicts(max_duration=Nanoseconds(25 * SECOND))


def test_work_that_goes_on_from_a_checkpoint_is_one_run() -> None:
    """An attempt that saved something counts, and one whose work is done again does not."""
    past = Past()
    workload = past.submit()
    past.run(workload, 100, EndCause.PREEMPTED, phase=Phase.PENDING, epoch=1, saved=1)
    past.run(workload, 70, EndCause.NODE_LOST, phase=Phase.PENDING, epoch=2, saved=1)
    past.run(workload, 50, epoch=3, saved=3)
    assert ("family", 150) == past.predicts()


def test_only_work_that_came_to_its_end_says_how_long_it_runs() -> None:
    """What ran as long as it was allowed to counts too; what failed or was cancelled does where nothing else is known."""
    past = Past()
    past.run(past.submit(), 3, EndCause.TASK_FAILED, phase=Phase.FAILED)
    past.run(past.submit(), 5, EndCause.CANCELLED, phase=Phase.CANCELLED)
    assert ("family", 3) == past.predicts()
    assert {} == past.history.errors
    past.run(past.submit(), 60, EndCause.TIMEOUT, phase=Phase.TIMEOUT)
    assert ("family", 60) == past.predicts()
    assert [PredictedBy.FAMILY] == list(past.history.errors)


def test_work_that_never_ran_or_never_ends_predicts_nothing() -> None:
    """Cancelled while it waited; ended before it was up; a service."""
    past = Past()
    past.say(WorkloadCancelled(past.submit()))
    gone = past.submit()
    past.say(WorkloadAwarded(gone, 1, EU, 0, ()))
    past.say(AttemptClosed(gone, 1, EndCause.CANCELLED, Phase.CANCELLED, EU, 1))
    past.run(past.submit(kind=Kind.SERVICE), 1_000)
    assert "default" == past.predicts()[0]
    assert {} == past.history.live


def test_error_is_told_by_the_source_of_the_prediction() -> None:
    """M36: the median of how far off predictions were, each as it was made at the submission, up or down."""
    past = Past()
    past.ran(100)
    for seconds in (200, 50, 100):
        past.ran(seconds)
    found = past.history.errors[PredictedBy.FAMILY]
    # 200 against 100, 50 against the median of 100 and 200, 100 against that of 50, 100 and 200.
    assert [1_000, -1_000, 0] == found.ratios
    assert 2.0 == found.factor()
    waiting = past.submit()
    for _ in range(2 * ERRORS_KEPT_MAX):
        past.ran(100)
    assert ERRORS_KEPT_MAX == len(past.history.errors[PredictedBy.FAMILY].ratios)
    assert 1.0 == past.history.errors[PredictedBy.FAMILY].factor()
    past.run(waiting, 400)
    assert 2_000 == past.history.errors[PredictedBy.FAMILY].ratios[-1]


def test_running_work_is_expected_to_free_its_gpus_and_then_did() -> None:
    """The rate at which GPUs come free follows the running work; a change of its size is seen at its end."""
    past = Past()
    past.ran(3_600)
    workload = past.submit(jobs=(a_job(2, 8),))
    past.up(workload)
    assert 16_000_000 == past.history.flows["H100"].expected
    past.say(WorkloadChanged(workload, 1, (a_job(1, 8),)))
    freed = past.history.flows["H100"].freed
    past.say(AttemptClosed(workload, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 1), 1)
    flow = past.history.flows["H100"]
    assert 0 == flow.expected
    assert 8_000_000 == pytest.approx(flow.freed - freed, rel=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_history_folded_in_any_parts_equals_the_whole(seed: int) -> None:
    """M36: kept and gone on from wherever it was, it is the same."""
    dice = random.Random(seed)
    past = Past()
    for _ in range(60):
        past.ran(
            dice.lognormvariate(5, 2),
            name=f"{dice.choice('abc')}-{dice.randrange(9)}",
            jobs=(a_job(1, dice.choice((1, 8))),),
        )
    again: Image = GlobalImage.empty()
    for fact in past.facts:
        again.fold(fact)
        if dice.random() < 0.1:
            again = decode_image(GLOBAL_LOG, again.encode())
    assert past.image.encode() == again.encode()


def known(*seconds: float) -> KnownRuns:
    """A family `train` of tenant `ml` with these runs."""
    runs = KnownRuns()
    for each in seconds:
        runs.add(ML, "train", PastRun(Nanoseconds(round(each * SECOND)), 1_000, "H100", is_whole=True))
    return runs


@pytest.mark.parametrize(
    ("seconds", "gone", "left"),
    [
        ((10, 20, 30), 0, 20),
        ((10, 20, 30), 15, 5),
        ((10, 20, 300), 25, 275),
        # Nothing ran longer: as long again, and at least as long as nothing is known of at all.
        ((10, 20, 30), 5_000, 5_000),
        ((), 10, 1_200),
    ],
)
def test_remaining_time_depends_on_how_long_it_ran(
    seconds: tuple[float, ...], gone: float, left: float
) -> None:
    """Half of the runs that lasted longer than that ended within it: tails are heavy, and long runs go on."""
    so_far = Nanoseconds(round(gone * SECOND))
    assert left * SECOND == left_of(known(*seconds), ML, "train", 1_000, so_far)


def test_of_a_family_of_which_few_ran_so_long_others_tell() -> None:
    """One of eight says less of what is left than all that its tenant ran."""
    runs = known(10, 10, 10, 10, 10, 10, 10, 1_000)
    for _ in range(9):
        runs.add(ML, "other", PastRun(Nanoseconds(100 * SECOND), 1_000, "H100", is_whole=True))
    left = left_of(runs, ML, "train", 1_000, Nanoseconds(20 * SECOND))
    assert 80 == pytest.approx(left / SECOND, rel=0.2)
