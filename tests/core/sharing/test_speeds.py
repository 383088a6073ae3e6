"""Tables of speeds: Gavel's form is read, measured speeds correct it, and widths beyond it are guessed and told."""

import json

import pytest

from core.sharing.problem import SharingProblem
from core.sharing.speeds import BadSpeeds, Measured, Shape, SpeedTable, corrected, read_speeds, with_shapes
from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import of_speeds

A3C, LM, WIDE = ("A3C", 1), ("LM", 1), ("LM", 4)
GAVEL = {
    "v100": {
        "('A3C', 1)": {"null": 4.0, "('A3C', 1)": [2.0, 2.0], "('LM', 1)": [3.0, 6.0]},
        "('LM', 1)": {"null": 10, "('A3C', 1)": [6.0, 3.0], "('LM', 1)": [0, 0]},
        "('LM', 4)": {"null": 32.0},
    },
    "v100_unconsolidated": {"('LM', 4)": {"null": 20.0}},
}


def read(form: object) -> SpeedTable:
    """The table of a file in Gavel's form."""
    return read_speeds(json.dumps(form).encode())


def test_form_of_the_published_speeds() -> None:
    """Speeds alone and in pairs, by whole jobs; GPUs that are spread are a type of their own; pairs are there in both orders."""
    table = read(GAVEL)
    assert {"v100": 32.0, "v100/spread": 20.0} == table.alone[WIDE]
    assert ((3.0, 6.0), (6.0, 3.0)) == (table.together[A3C, LM]["v100"], table.together[LM, A3C]["v100"])
    assert (0.0, 0.0) == table.together[LM, LM]["v100"]
    assert (("A3C", "LM"), ("v100", "v100/spread")) == (table.models, table.gpu_types)


def test_pair_may_be_there_once() -> None:
    """The other order is made of it."""
    table = read({"k80": {"('B', 2)": {"null": 1, "('A', 2)": [0.5, 0.25]}, "('A', 2)": {"null": 1}}})
    assert (0.25, 0.5) == table.together[("A", 2), ("B", 2)]["k80"]


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ([], "it is not a table of speeds by GPU type, job and other job"),
        (
            {"v100": {"('A', 1)": {"null": "fast"}}},
            "it is not a table of speeds by GPU type, job and other job",
        ),
        ({"v100": {"('A', 1)": {"('A', 1)": [1, 1, 1]}}}, "it is not a table of speeds"),
        ({}, "it has no speed of any job alone"),
        ({"v100": {"A": {"null": 1}}}, "'A' names no job"),
        ({"v100": {"('A', 0)": {"null": 1}}}, "names no job"),
        ({"v100": {"('A', 1, 2)": {"null": 1}}}, "names no job"),
        ({"v100": {"__import__('os')": {"null": 1}}}, "names no job"),
        ({"v100": {"('A', 1)": {"null": -1}}}, "A with 1 GPU on v100: a speed is less than 0"),
        ({"v100": {"('A', 1)": {"null": [1, 1]}}}, "its speed alone must be one number"),
        ({"v100": {"('A', 1)": {"null": 1, "('B', 1)": 1}}}, "it must be two speeds"),
        (
            {"v100": {"('A', 1)": {"null": 1, "('B', 2)": [1, 1]}}},
            "A with 1 GPU on v100 beside B with 2 GPUs: only jobs of as many GPUs can share them",
        ),
        (
            {"v100": {"('A', 1)": {"('B', 1)": [1, 2]}, "('B', 1)": {"('A', 1)": [1, 2]}}},
            "the other way around",
        ),
    ],
)
def test_bad_speeds_are_told(form: object, problem: str) -> None:
    """One sentence that names the job and the type."""
    with pytest.raises(BadSpeeds) as caught:
        read(form)
    assert problem in str(caught.value)


def test_text_that_is_no_json() -> None:
    """Nothing but BadSpeeds comes of bytes that are no JSON or no text."""
    for data in (b"", b"{", b"\xff\xfe{}"):
        with pytest.raises(BadSpeeds):
            read_speeds(data)


def test_measured_speed_is_averaged_in() -> None:
    """G29: half of what was measured and half of what was believed, each time; the table that was given stays as it was."""
    table = read(GAVEL)
    once = corrected(table, [Measured(A3C, "v100", 8.0)])
    twice = corrected(table, [Measured(A3C, "v100", 8.0), Measured(A3C, "v100", 8.0)])
    assert (4.0, 6.0, 7.0) == (table.alone[A3C]["v100"], once.alone[A3C]["v100"], twice.alone[A3C]["v100"])
    assert table.alone[LM] == twice.alone[LM]


def test_measured_pair_is_averaged_in_both_orders() -> None:
    """G29: whichever of two jobs is named first."""
    table = corrected(read(GAVEL), [Measured(LM, "v100", 4.0, beside=A3C, beside_speed=1.0)])
    assert ((5.0, 2.0), (2.0, 5.0)) == (table.together[LM, A3C]["v100"], table.together[A3C, LM]["v100"])
    twin = corrected(read(GAVEL), [Measured(A3C, "v100", 1.0, beside=A3C, beside_speed=1.0)])
    assert (1.5, 1.5) == twin.together[A3C, A3C]["v100"]


def test_first_measured_speed_is_taken_as_it_is() -> None:
    """G29: of a job, a type or a pair that was not known, or was said not to run, there is nothing to average with."""
    new: Shape = ("BERT", 1)
    table = corrected(
        read(GAVEL),
        [
            Measured(new, "k80", 3.0),
            Measured(A3C, "k80", 2.0),
            Measured(LM, "v100", 1.0, beside=LM, beside_speed=1.0),
            Measured(new, "k80", 1.0, beside=A3C, beside_speed=0.5),
        ],
    )
    assert ({"k80": 3.0}, {"v100": 4.0, "k80": 2.0}) == (table.alone[new], table.alone[A3C])
    assert (1.0, 1.0) == table.together[LM, LM]["v100"]
    assert (0.5, 1.0) == table.together[A3C, new]["k80"]


def test_measured_speed_reaches_the_next_solution() -> None:
    """G29: a job that was believed fast on the V100 had half of its time; seen to be slow there it has none."""
    table = SpeedTable({("a", 1): {"v100": 40.0, "p100": 10.0}, ("b", 1): {"v100": 12.0, "p100": 10.0}}, {})

    def problem(known: SpeedTable) -> SharingProblem:
        rows = [[known.alone[name, 1][gpu_type] for gpu_type in ("v100", "p100")] for name in "ab"]
        return of_speeds(rows, [1, 1])

    before = solve_shares("max_min", problem(table)).alone
    seen = corrected(table, [Measured(("a", 1), "v100", 8.0)] * 4)
    after = solve_shares("max_min", problem(seen)).alone
    assert (500_000, 0) == pytest.approx((before[0, 0], after[0, 0]), abs=5)


def test_width_beyond_the_table_is_guessed_and_told() -> None:
    """Jobs of 32 GPUs do as much on each as those of 4, and of 3 as those of 1; each such width is told once."""
    table, notes = with_shapes(read(GAVEL), [("LM", 32), ("LM", 3), ("A3C", 32), ("LM", 1), ("BERT", 1)])
    assert {"v100": 256.0, "v100/spread": 160.0} == table.alone["LM", 32]
    assert ({"v100": 30.0}, {"v100": 128.0}) == (table.alone["LM", 3], table.alone["A3C", 32])
    assert ("BERT", 1) not in table.alone
    expected = (
        "3 GPUs of LM were not measured: the speed for each GPU is that of 1 GPU",
        "32 GPUs of A3C were not measured: the speed for each GPU is that of 1 GPU",
        "32 GPUs of LM were not measured: the speed for each GPU is that of 4 GPUs",
    )
    assert expected == notes
    assert () == with_shapes(read(GAVEL), [A3C, WIDE])[1]


def test_narrower_than_the_table() -> None:
    """Of a model of which only wide jobs were measured, the narrowest tells."""
    table, _ = with_shapes(SpeedTable({("A", 4): {"h100": 8.0}, ("A", 8): {"h100": 12.0}}, {}), [("A", 1)])
    assert {"h100": 2.0} == table.alone["A", 1]
