"""Speeds beside others that nobody measured: each reference knows itself, estimates come near, and each says that it is one."""

import random

import numpy as np
import pytest

from core.sharing.completion import completed, filled, keeps_of, references_of, runs_to_make
from core.sharing.speeds import Shape, SpeedTable

TYPES = ("v100", "p100", "k80")
NEW = ("new", 1)


def drawn(seed: int, models: int = 12, width: int = 1) -> SpeedTable:
    """Models on all types. What two keep depends on how much each takes of a GPU, and some cannot share a K80."""
    dice = random.Random(f"completion/{seed}")
    shapes: list[Shape] = [(f"m{index:02}", width) for index in range(models)]
    alone = {shape: {gpu_type: 10 ** dice.uniform(0, 2) for gpu_type in TYPES} for shape in shapes}
    takes = {shape: [dice.uniform(0.2, 1.0) for _ in TYPES] for shape in shapes}
    together: dict[tuple[Shape, Shape], dict[str, tuple[float, float]]] = {}
    for one in shapes:
        for other in shapes:
            both = together[one, other] = {}
            for place, gpu_type in enumerate(TYPES):
                total = takes[one][place] + takes[other][place]
                keeps = 0.0 if gpu_type == "k80" and total > 1.7 else min(1.0, 1.0 / total)
                mine = min(1.0, keeps * (1 + 0.2 * (takes[one][place] - takes[other][place])))
                theirs = min(1.0, keeps * (1 + 0.2 * (takes[other][place] - takes[one][place])))
                both[gpu_type] = (alone[one][gpu_type] * mine, alone[other][gpu_type] * theirs)
    return SpeedTable(alone, together)


def with_new(table: SpeedTable, model: Shape, runs: tuple[tuple[Shape, str], ...]) -> SpeedTable:
    """The table with a model under another name, of which these runs alone are known."""
    alone, together = {**table.alone, NEW: table.alone[model]}, dict(table.together)
    for reference, gpu_type in runs:
        first, second = table.together[model, reference][gpu_type]
        together[NEW, reference] = {**together.get((NEW, reference), {}), gpu_type: (first, second)}
        together[reference, NEW] = {**together.get((reference, NEW), {}), gpu_type: (second, first)}
    return SpeedTable(alone, together)


@pytest.mark.parametrize("seed", range(5))
def test_every_reference_knows_itself(seed: int) -> None:
    """Fault 7: of the published estimator one of 16 references, all runs of which are known, is most like itself, as it reads the
    columns of a subset by the places of the whole. Here all are, whichever models are the references and in whatever order (G28).
    """
    table = drawn(seed)
    dice = random.Random(seed)
    references = dice.sample(sorted(table.alone), 7)
    every = runs_to_make(references, TYPES, 1.0, dice)
    assert 21 == len(every)
    found = [
        completed(with_new(table, model, every), [*table.alone, NEW], references, TYPES).likes[NEW]
        for model in references
    ]
    assert references == found


def test_speeds_of_a_known_model_are_found_again() -> None:
    """G28: a new model that is a reference under another name has that one's speeds beside models that it never ran beside, and
    those have theirs beside it.
    """
    table = drawn(1)
    references = sorted(table.alone)[::2]
    model, other = references[2], sorted(table.alone)[1]
    partly = with_new(table, model, runs_to_make(references, TYPES, 0.4, random.Random(3)))
    found = completed(partly, [*table.alone, NEW], references, TYPES)
    assert model == found.likes[NEW]
    unmeasured = [name for name in TYPES if not found.is_measured(NEW, references[0], name)]
    assert unmeasured
    for gpu_type in unmeasured:
        expected = table.together[model, references[0]][gpu_type]
        assert expected == pytest.approx(found.table.together[NEW, references[0]][gpu_type])
    for gpu_type in TYPES:
        expected = table.together[other, model][gpu_type]
        assert expected[1] == pytest.approx(found.table.together[other, NEW][gpu_type][1], rel=0.3)


def test_estimates_come_near_and_nearer_with_more_runs() -> None:
    """G28: over ten models that are no reference, what is estimated is off by less than a naive guess, and by less the more ran."""
    errors: dict[float, list[float]] = {0.2: [], 1.0: []}
    naive = []
    for seed in range(5):
        table = drawn(seed, models=20)
        shapes = sorted(table.alone)
        references, others = shapes[::2], shapes[1::2]
        mean = np.nanmean(keeps_of(table, references, TYPES))
        for fraction, found in errors.items():
            for model in others:
                runs = runs_to_make(references, TYPES, fraction, random.Random(f"{seed}/{model}"))
                done = completed(with_new(table, model, runs), [*shapes, NEW], references, TYPES)
                for partner in others:
                    for gpu_type in TYPES:
                        assert not done.is_measured(NEW, partner, gpu_type)
                        alone = table.alone[model][gpu_type]
                        true = table.together[model, partner][gpu_type][0] / alone
                        found.append(abs(done.table.together[NEW, partner][gpu_type][0] / alone - true))
                        naive.append(abs(mean - true))
    few, full, guess = np.mean(errors[0.2]), np.mean(errors[1.0]), np.mean(naive)
    assert full < few < guess / 1.5


def test_measured_speeds_are_left_as_they_are() -> None:
    """G28: only what is missing is estimated, and the answer says what that is, in both orders and in a sentence."""
    table = drawn(4)
    references = sorted(table.alone)[:6]
    runs = ((references[0], "v100"), (references[0], "k80"), (references[3], "p100"))
    partly = with_new(table, references[1], runs)
    found = completed(partly, [*references, NEW], references, TYPES)
    for reference, gpu_type in runs:
        assert found.is_measured(NEW, reference, gpu_type)
        assert found.table.together[NEW, reference][gpu_type] == partly.together[NEW, reference][gpu_type]
    assert (("p100",), ("p100",)) == (
        found.estimated[NEW, references[0]],
        found.estimated[references[0], NEW],
    )
    assert 13 == len(found.estimated)
    for (one, other), names in found.estimated.items():
        for gpu_type in names:
            first, second = found.table.together[one, other][gpu_type]
            assert (second, first) == found.table.together[other, one][gpu_type]
            assert 0 <= first <= found.table.alone[one][gpu_type]
    like = found.likes[NEW][0]
    expected = f"new with 1 GPU: its speeds beside 7 models are estimated, as it is most like {like}"
    assert expected in found.notes


def test_nothing_is_made_up() -> None:
    """G28: a job that ran beside no reference, a type on which it does not run, and a width without references stay unknown."""
    table = drawn(2)
    references = sorted(table.alone)[:6]
    alone = {**table.alone, NEW: {"v100": 5.0}, ("wide", 4): {"v100": 20.0}}
    unknown = SpeedTable(alone, table.together)
    found = completed(unknown, [NEW, ("wide", 4), ("not there", 1)], references, TYPES)
    assert (table.together, {}, {}) == (found.table.together, found.estimated, found.likes)
    once = with_new(table, references[0], ((references[1], "v100"),))
    once = SpeedTable({**once.alone, NEW: {"v100": 5.0, "k80": 0.0}}, once.together)
    found = completed(once, [NEW], references, TYPES)
    assert {"v100"} == {name for names in found.estimated.values() for name in names}


def test_references_were_measured_beside_each_other() -> None:
    """Of each width the jobs that all ran beside each other, those with most pairs first; one job alone says nothing of others."""
    table = drawn(6, models=5)
    shapes = sorted(table.alone)
    assert shapes == sorted(references_of(table, TYPES))
    together = {pair: both for pair, both in table.together.items() if {*pair} != {*shapes[:2]}}
    # The first two never ran beside each other, and the second has one pair less.
    del together[shapes[1], shapes[2]], together[shapes[2], shapes[1]]
    alone = {**table.alone, ("wide", 4): dict.fromkeys(TYPES, 1.0)}
    wide = (("wide", 4), ("wide", 4))
    partly = SpeedTable(alone, {**together, wide: {"v100": (0.6, 0.6)}})
    assert (shapes[3], shapes[4], shapes[0], shapes[2]) == references_of(partly, TYPES)
    assert () == references_of(partly, ["h100"])


def test_one_model_is_not_several() -> None:
    """The sentence on a job that lacks the speeds beside one other says so."""
    table = drawn(6, models=5)
    shapes = sorted(table.alone)
    together = {pair: both for pair, both in table.together.items() if {*pair} != {*shapes[:2]}}
    found = completed(SpeedTable(table.alone, together), shapes, references_of(table, TYPES), TYPES)
    assert 2 == len(found.notes)
    assert all(
        ": its speeds beside 1 model are estimated, as it is most like " in note for note in found.notes
    )


def test_one_run_at_least() -> None:
    """However small the fraction, something is run; and the same dice draw the same."""
    references = [("a", 1), ("b", 1)]
    assert 1 == len(runs_to_make(references, TYPES, 0.0, random.Random(1)))
    first, second = (runs_to_make(references, TYPES, 0.5, random.Random(7)) for _ in range(2))
    assert first == second


def test_estimate_is_the_sum_of_three() -> None:
    """Like job beside the partner, and job beside the like partner, less the two like ones: 0.6 + 0.5 - 0.7."""
    missing = np.nan
    keeps = np.array(
        [
            # Beside: reference 0, reference 1, and the new ones 2 and 3.
            [0.9, 0.7, 0.8, 0.6],
            [0.7, 0.9, 0.2, 0.9],
            [0.9, 0.5, missing, missing],
            [0.2, 0.9, missing, missing],
        ]
    )[:, None, :]
    found, nearest = filled(keeps, np.array([0, 1]))
    assert [1, 0, 0, 1] == nearest.tolist()
    assert found[2, 0, 3] == pytest.approx(0.6 + 0.5 - 0.7)
