"""Gavel's traces: both forms are read, and what is wrong with a line is told with its number."""

from pathlib import Path

import pytest

from core.sharing.jobs import SharingJob
from core.sharing.speeds import SpeedTable
from core.sharing.traces import BadTrace, TraceRow, jobs_of, row_of, rows_of

TRACES = Path(__file__).resolve().parents[4] / "shared" / "data" / "gavel" / "traces"
TABLE = SpeedTable({("A3C", 1): {"v100": 4.0, "k80": 1.0}, ("LM", 2): {"v100": 8.0, "k80": 2.0}}, {})

TEN = (
    "A3C\tpython3 main.py --workers 4\trl\t--max-steps\t0\t1200\t1\t1\t1.200000\t0\n"
    "LM\tpython3 main.py --data %s/wiki\tlanguage\t--steps\t1\t800\t2\t5\t-1.000000\t46317\n"
)
SEVEN = (
    "A3C\tcd %s/rl && python3 main.py\t--max-steps\t0\t1200\t0.000000\t1\n"
    "LM\tcd %s/lm && python3 main.py\t--steps\t1\t800\t1456.500000\t2\n"
)


def test_form_with_ten_columns() -> None:
    """G33: weights are read, and a promise of 1.2 times the 300 s that it takes on a V100 becomes seconds."""
    expected = (
        SharingJob("1", "A3C", 1, 1_200, within=360.0),
        SharingJob("2", "LM", 2, 800, arrival=46_317, weight=5.0),
    )
    assert expected == jobs_of(rows_of(TEN), TABLE)


def test_form_with_seven_columns() -> None:
    """Fault 11: the published parser rejects the older form of its own traces; here it is read, with its order of columns (G33)."""
    first, second = rows_of(SEVEN)
    assert ("cd %s/rl && python3 main.py", "--max-steps", "", False) == (
        first.command,
        first.steps_argument,
        first.directory,
        first.needs_data,
    )
    assert second.needs_data
    expected = (SharingJob("1", "A3C", 1, 1_200), SharingJob("2", "LM", 2, 800, arrival=1_456.5))
    assert expected == jobs_of((first, second), TABLE)


def test_lines_come_back() -> None:
    """G33: a line of ten columns is written as it was read, and one of seven is read again as the same."""
    assert TEN == "".join(f"{row.line}\n" for row in rows_of(TEN))
    written = "\n".join(row.line for row in rows_of(SEVEN))
    assert rows_of(SEVEN) == rows_of(written)


def test_jobs_come_back() -> None:
    """G33: a job is written as a line and read again, with numbers that no short text holds."""
    jobs = (
        SharingJob("1", "A3C", 1, 1_000 / 3, 0.1, 2.5, within=77.7),
        SharingJob("2", "LM", 2, 1e6, 1e7, entity="ads"),
        SharingJob("3", "LM", 16, 5.0, 1e7, within=3.0),
    )
    text = "\n".join(row_of(job, TABLE).line for job in jobs)
    for job, found in zip(jobs, jobs_of(rows_of(text), TABLE), strict=True):
        assert (job.id, job.model, job.gpus) == (found.id, found.model, found.gpus)
        assert (job.steps, job.arrival, job.weight) == (found.steps, found.arrival, found.weight)
        assert job.within == pytest.approx(found.within, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("minimize_makespan.trace", 100),
        ("max_min_fairness.trace", 96),
        ("msr_2869ce_seed0.trace", 533),
        ("msr_e13805_seed0.trace", 607),
    ],
)
def test_published_traces(name: str, jobs: int) -> None:
    """G33: all lines of the published traces are read, and those of the newer form come back to the letter."""
    path = TRACES / name
    if not path.is_file():
        pytest.skip("the published traces are not here")
    text = path.read_text()
    rows = rows_of(text)
    assert jobs == len(rows)
    if not name.startswith("msr"):
        assert text == "".join(f"{row.line}\n" for row in rows)
    assert rows == rows_of("\n".join(row.line for row in rows))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("A3C\trun\t1200", "it has 3 columns apart by tabs, and a job has 10, or 7 in the older form"),
        ("nothing", "it has 1 column apart by tabs, and a job has 10, or 7 in the older form"),
        ("A3C\trun\t-n\t0\tmany\t0\t1", "the steps must be a number, and is 'many'"),
        ("A3C\trun\t-n\t0\tnan\t0\t1", "the steps must be a number, and is 'nan'"),
        ("A3C\trun\t-n\t0\t0\t0\t1", "the steps must be more than 0, and is '0'"),
        ("A3C\trun\t-n\t0\t5\t-3\t1", "the arrival must be at least 0, and is '-3'"),
        ("A3C\trun\t-n\t0\t5\t0\t1.5", "the GPUs must be a whole number, and is '1.5'"),
        ("A3C\trun\t-n\t0\t5\t0\t0", "the GPUs must be more than 0, and is '0'"),
        ("A3C\trun\t-n\tno\t5\t0\t1", "whether it needs data must be 0 or 1, and is 'no'"),
        (" \trun\t-n\t0\t5\t0\t1", "it names no model"),
        ("A3C\trun\trl\t-n\t0\t5\t1\t0\t-1\t0", "the weight must be more than 0, and is '0'"),
        ("A3C\trun\trl\t-n\t0\t5\t1\t1\tsoon\t0", "the promise must be a number, and is 'soon'"),
        ("A3C\trun\trl\t-n\t0\t5\t1\t1\t0\t0", "the promise must be more than 0, and is '0'"),
        ("BERT\trun\t-n\t0\t5\t0\t1", "no speeds are known of the model 'BERT'"),
        (
            "A4C\trun\trl\t-n\t0\t5\t1\t1\t2\t0",
            "its promise counts the time on v100, and A4C with 1 GPU has no speed there",
        ),
    ],
)
def test_problem_is_told_with_its_line(line: str, problem: str) -> None:
    """G33: one sentence, and the number of the line in the file, empty ones counted."""
    table = SpeedTable({**TABLE.alone, ("A4C", 1): {"k80": 1.0}}, {})
    with pytest.raises(BadTrace) as caught:
        jobs_of(rows_of(f"{SEVEN}\n{line}\n"), table)
    assert f"line 4: {problem}" == str(caught.value)


def test_trace_without_jobs() -> None:
    """A file of empty lines is no trace."""
    with pytest.raises(BadTrace, match="no line with a job"):
        rows_of("\n\n")


def test_width_beyond_the_table() -> None:
    """G33: a promise of a job wider than any that was measured counts the guessed time: LM has 4 steps a second for each GPU."""
    row = TraceRow("LM", steps=6_400, gpus=16, promise=2.0)
    assert 200.0 == jobs_of([row], TABLE)[0].within
