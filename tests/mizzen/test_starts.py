"""How starts and run times are told to people."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from core.estimating.bands import StartEstimate
from core.estimating.prediction import PredictedBy, Prediction
from core.messages.queue import RunTimeTold
from core.messages.starts import ListedStart, PredictionError, PredictionTally, StartsListed, SubmissionTested
from core.nouns.ids import DatasetName, RegionName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from mizzen.views.workloads.start_estimates import builtins_of, outcome_of, run_time_text, table_of

NOW = datetime(2026, 3, 1, 23, 50, tzinfo=UTC)
ESTIMATE = StartEstimate(seconds(600), seconds(240), seconds(720), seconds(2_400), "16m")


RUN_TIMES = (
    "run times: half were predicted within a factor of 40 from nothing but a default (1), within a factor of 1.8 from "
    "earlier runs of its family (12), within a factor of 3 by new (2)"
)
UNKNOWN = (
    "it would be accepted; no region is heard that could hold it, so nothing can be said of its start; "
    "no workload waits ahead of it"
)


def row(number: int, start: StartEstimate | None = ESTIMATE) -> ListedStart:
    """One that waits."""
    return ListedStart(
        WorkloadId(f"w-{number}"),
        "train",
        "ml",
        3,
        16_000,
        number,
        seconds(5),
        "no_capacity",
        start,
        Nanoseconds(0),
    )


def test_table_of_starts() -> None:
    """Estimated with its band, promised, or unknown; and how far the bands could be trusted."""
    rows = (
        replace(row(1), duration=seconds(7_200)),
        replace(row(2), promised_in=seconds(60)),
        row(3, None),
        replace(row(4, None), round_in=seconds(90)),
        replace(row(5, None), round_in=Nanoseconds(0)),
    )
    errors = {
        "family": PredictionError(12, 1_834),
        "default": PredictionError(1, 40_000),
        "new": PredictionError(2, 3_000),
    }
    lines = table_of(
        StartsListed(rows, 7, 500, 405, errors, PredictionTally(9, 7, 9), PredictionTally(8, 6, 7)), NOW, None
    )
    assert [
        "ID   NAME   TENANT  PRIO  GPUS  START                 IN        BAND     RUNS  REASON",
        "w-1  train  ml         3    16  2026-03-02T00:02Z  12:00  4:00-40:00  2:00:00  no_capacity",
        "w-2  train  ml         3    16  2026-03-01T23:51Z   1:00    promised        -  no_capacity",
        "w-3  train  ml         3    16  -                      -           -        -  no_capacity",
        "w-4  train  ml         -    16  2026-03-01T23:51Z   1:30  next round        -  no_capacity",
        "w-5  train  ml         -    16  2026-03-01T23:50Z   0:00  this round        -  no_capacity",
        "and 7 more behind them",
        "",
        "bands held 81 % of the last 500 starts; they are drawn to hold 80 %",
        RUN_TIMES,
        "GPUs: 7 of 9 recurring workloads asked for as many of the type as was predicted",
        "datasets: of 8 that recurring workloads read 6 were predicted, and 1 that they did not",
    ] == lines


def test_outcome_of_a_job_of_a_shared_pool() -> None:
    """Rounds decide: no start is estimated, and no workload stands ahead of it."""
    prediction = Prediction(seconds(3_600), PredictedBy.DEFAULT)
    first, *_ = outcome_of(SubmissionTested(0, (RegionName("eu"),), None, prediction, round_in=seconds(90)))
    assert first.endswith("it may be picked from the next round on, which begins in 1:30")
    assert "ahead" not in first


def test_nothing_to_tell_yet() -> None:
    """Nothing waits, and nothing has started."""
    lines = table_of(StartsListed((), 0, 0, 0), NOW, None)
    assert "no start was estimated and came yet, so bands are wide" == lines[-1]


def test_starts_as_json() -> None:
    """Spans are nanoseconds, and a reason has its sentence."""
    told = builtins_of(StartsListed((row(1),), 0, 10, 8, {"family": PredictionError(12, 1_834)}))
    assert seconds(240) == told["starts"][0]["start"]["low"]
    assert told["starts"][0]["sentence"].startswith("Not enough capacity")
    assert {"judged": 10, "held": 8} == told["bands"]
    assert {"family": {"count": 12, "factor_milli": 1_834}} == told["run_time_errors"]
    assert {"count": 0, "right": 0, "predicted": 0} == told["hardware"] == told["data"]


@pytest.mark.parametrize(
    ("tested", "lines"),
    [
        (
            SubmissionTested(
                2,
                (RegionName("us"), RegionName("eu")),
                ESTIMATE,
                Prediction(
                    seconds(3_600),
                    PredictedBy.FAMILY,
                    8_000,
                    "H100",
                    (DatasetName("clicks"), DatasetName("users")),
                ),
                "over",
            ),
            [
                "it would start in about 12:00, four times of five in 4:00-40:00; 2 workloads wait ahead of it",
                "it would be over its tenant's quota",
                "it would run for about 1:00:00 in all, to judge by earlier runs of its family",
                "its earlier runs most often asked for 8 GPUs of H100",
                "its earlier runs read clicks, users",
                "it could run in eu, us",
            ],
        ),
        (
            SubmissionTested(0, (), None, Prediction(seconds(1_200), PredictedBy.DEFAULT)),
            [
                UNKNOWN,
                "it would run for about 20:00 in all, to judge by nothing but a default",
            ],
        ),
    ],
    ids=("known", "unknown"),
)
def test_outcome_of_a_submission(tested: SubmissionTested, lines: list[str]) -> None:
    """Whether and when it would start, its quota, how long it would run and where."""
    assert lines == outcome_of(tested)


def test_remaining_time_of_a_run() -> None:
    """While it is up."""
    told = RunTimeTold(seconds(60), PredictedBy.TENANT, seconds(30))
    assert (
        "for about 1:00 in all, to judge by its tenant's other work; work that has run as long goes on for about 0:30 more"
        == run_time_text(told)
    )
