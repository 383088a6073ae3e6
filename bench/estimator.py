"""How near estimated speeds of co-located jobs come: each of 26 models in turn as a new one, of which only some runs are known.

Sixteen models, drawn by a seed, are the references. The new model has run beside all of them on all three GPU types, or beside a random
fifth of those. Its speed beside each other model is estimated where it was not run; the error is the mean absolute difference from the measured
speed, in parts of its speed alone, over the estimates and not over the runs. The models that are no reference are known beside the
references and each other, as in the published set-up.

In 16 of the 26 cases the new model is a copy of a reference, which stays in the table. Where the copy is found to be most like it, its
estimates are the measured speeds, and the error is 0 by construction. `mean_error` is over all 26 nevertheless, as the published figures
were taken; `stranger_error` is over the ten models that are no reference, and says how good the estimates are. `new_pair_error` is of harder
work: the ten are all new at once, and the speed of one beside another is estimated, though no such pair was run.

source    OSDI 2020, section 6 and its data (26 models of one GPU); the figures of the published estimator are those that
          spec/gavel.md §1.7 measured with its own code
"""

# rows: G28

import random
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from bench.support.report import Findings, Yardstick, at_least, at_most
from bench.support.sharing.tables import GAVEL_TYPES, gavel_table
from core.sharing.completion import Completed, completed, runs_to_make
from core.sharing.speeds import Shape, SpeedTable

REFERENCES = 16
SEEDS, QUICK_SEEDS = range(5), range(1)
FRACTION = 0.2
NEW = ("a new model", 1)


class Found(Struct):
    """The results of one fraction of runs, over all seeds."""

    matches: list[int]
    """By seed, how many of the references, taken for new models, are most like themselves."""
    errors: list[float]
    """Absolute error of each estimate, in parts of the speed alone."""
    stranger_errors: list[float]
    """Those of them that are of a model that is no reference."""
    pair_errors: list[float]
    """Absolute errors of pairs of two new models."""


def run(directory: Path, *, is_quick: bool) -> Findings:
    """Both fractions, on each seed."""
    del directory
    table, seeds = gavel_table(), QUICK_SEEDS if is_quick else SEEDS
    full, fifth = (found(table, seeds, fraction) for fraction in (1.0, FRACTION))
    figures = {
        "self_match": float(min(full.matches)),
        "self_match_20": float(min(fifth.matches)),
        "mean_error_full": _mean(full.errors),
        "mean_error_20": _mean(fifth.errors),
        "stranger_error_full": _mean(full.stranger_errors),
        "stranger_error_20": _mean(fifth.stranger_errors),
        "new_pair_error_full": _mean(full.pair_errors),
        "new_pair_error_20": _mean(fifth.pair_errors),
    }
    bars = [
        at_least(
            "self_match", figures["self_match"], REFERENCES, "two models keep the same beside all others"
        ),
        at_most("mean_error_full", figures["mean_error_full"], 0.04, "some models are like no other"),
        at_most("mean_error_20", figures["mean_error_20"], 0.07, "some models are like no other"),
    ]
    source = "spec/gavel.md §1.7: Gavel's estimator, 16 of 26 references, all profiled"
    return Findings(
        figures,
        bars,
        [
            Yardstick("published_self_match", 1, source, "self_match"),
            Yardstick("published_mean_error", 0.159, source, "mean_error_full"),
            Yardstick(
                "published_indexed_mean_error",
                0.034,
                f"{source}, with the columns put right",
                "mean_error_full",
            ),
        ],
    )


def found(table: SpeedTable, seeds: range, fraction: float) -> Found:
    """Return the results of this fraction of runs."""
    models = sorted(shape for shape in table.alone if shape[1] == 1)
    all_found = Found([], [], [], [])
    for seed in seeds:
        dice = random.Random(seed)
        references = sorted(dice.sample(models, REFERENCES))
        matches = 0
        for model in models:
            one = _with_new(table, model, references, fraction, dice)
            matches += one.likes.get(NEW) == model
            errors = list(_errors(table, one, {NEW: model}, [model], models))
            all_found.errors += errors
            if model not in references:
                all_found.stranger_errors += errors
        all_found.matches.append(matches)
        new = [model for model in models if model not in references]
        several = _with_unknown(table, new, references, fraction, dice)
        all_found.pair_errors.extend(_errors(table, several, {}, new, new))
    return all_found


def _with_new(
    table: SpeedTable, model: Shape, references: list[Shape], fraction: float, dice: random.Random
) -> Completed:
    """Return the table with the model under another name, of which only runs beside references are known."""
    alone = {shape: speeds for shape, speeds in table.alone.items() if shape[1] == 1}
    together = {pair: speeds for pair, speeds in table.together.items() if pair[0] in alone}
    alone[NEW] = alone[model]
    for reference, gpu_type in runs_to_make(references, GAVEL_TYPES, fraction, dice):
        first, second = table.together[model, reference][gpu_type]
        together.setdefault((NEW, reference), {})[gpu_type] = first, second
        together.setdefault((reference, NEW), {})[gpu_type] = second, first
    return completed(SpeedTable(alone, together), alone, references, GAVEL_TYPES)


def _with_unknown(
    table: SpeedTable, new: list[Shape], references: list[Shape], fraction: float, dice: random.Random
) -> Completed:
    """Return the table in which these models are all new: of each only some runs beside references are known."""
    alone = {shape: table.alone[shape] for shape in (*references, *new)}
    together = {(one, other): table.together[one, other] for one in references for other in references}
    for model in new:
        for reference, gpu_type in runs_to_make(references, GAVEL_TYPES, fraction, dice):
            first, second = table.together[model, reference][gpu_type]
            together.setdefault((model, reference), {})[gpu_type] = first, second
            together.setdefault((reference, model), {})[gpu_type] = second, first
    return completed(SpeedTable(alone, together), alone, references, GAVEL_TYPES)


def _errors(
    table: SpeedTable,
    one: Completed,
    names: dict[Shape, Shape],
    rows: list[Shape],
    columns: list[Shape],
) -> Iterator[float]:
    """Yield how far each estimated number is off. `names` says under which another name a model is known."""
    known_as = {model: name for name, model in names.items()}
    for row in rows:
        mine = known_as.get(row, row)
        for column in columns:
            for gpu_type in GAVEL_TYPES:
                if not one.is_measured(mine, column, gpu_type):
                    alone = table.alone[row][gpu_type]
                    estimate = one.table.together[mine, column][gpu_type][0]
                    yield abs(estimate - table.together[row, column][gpu_type][0]) / alone


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)
