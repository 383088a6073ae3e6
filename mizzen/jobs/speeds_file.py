"""A file of speeds: by model and GPU type, the steps a second of a job.

    # One number is the speed on one GPU, and wider jobs are taken to do as much on each of theirs.
    bert-large: {H100: 12.5, A100: 6.1}
    # By width it is the speed of the whole job: here on 1 GPU, and on 8. A type with /spread is for GPUs on many nodes.
    llama-7b:
      H100: {1: 3.0, 8: 22.4}
      H100/spread: {8: 15.9}
      A100: {1: 1.4, 8: 10.2}

The model of a job in a plane's log is its family: its name without counters. A model has no speed on types that are not named, and
does not run there. JSON is read as well, and so are Gavel's own files, which have the speeds of pairs too.
"""

import math
from pathlib import Path

from core.sharing.speeds import BadSpeeds, SpeedTable, nearest_width, read_speeds
from mizzen.jobs.section import Section, as_text
from mizzen.jobs.values import Unreadable
from runtime.yaml_tree import Fields, Problem, Tree, read_yaml, shown

GAVEL_MARK = b"\"('"
"""With which the name of a job begins in Gavel's files."""
GPUS_MAX = 1_000_000
"""Of one job: wider than any fleet, and read in no time."""


def load_speeds(path: Path) -> SpeedTable:
    """Return the speeds of a file in either form. Raises BadSpeeds with a sentence for each problem, and OSError."""
    data = path.read_bytes()
    try:
        if GAVEL_MARK in data:
            return read_speeds(data)
        text = data.decode()
    except BadSpeeds as error:
        raise BadSpeeds(f"{path}: {error}") from error
    except UnicodeDecodeError as error:
        raise BadSpeeds(f"{path}: it is no text in UTF-8") from error
    tree, problems = read_yaml(text, str(path))
    table = SpeedTable({}, {}) if tree is None else _table(tree, problems)
    if problems:
        raise BadSpeeds("; ".join(str(problem) for problem in sorted(set(problems))))
    return table


def _table(tree: Tree, problems: list[Problem]) -> SpeedTable:
    """Return the speeds of the plain form; problems are added."""
    table = SpeedTable({}, {})
    if not isinstance(tree, Fields) or not tree.entries:
        problems.append(
            Problem(tree.place, "", "it must be a mapping of models, each with speeds by GPU type")
        )
        return table
    top = Section(tree, problems)
    for model in tree.entries:
        section = top.section(model)
        if section is not None:
            _enter(model, section.values(_by_width, {}), table)
            if not section.fields.entries:
                top.misplaced(model, "it has no speed on any GPU type")
    return table


def _enter(model: str, by_type: dict[str, dict[int, float]], table: SpeedTable) -> None:
    """Enter a row for each width that is named for any type; on the other types that width is guessed by a narrower one."""
    for width in sorted({width for known in by_type.values() for width in known}):
        row = table.alone[model, width] = {}
        for gpu_type, known in by_type.items():
            if known:
                near = width if width in known else nearest_width(known, width)
                row[gpu_type] = known[near] * width / near


def _by_width(tree: Tree) -> dict[int, float]:
    """Return speeds by the GPUs of a job; one number is of one GPU. Raises Unreadable."""
    if not isinstance(tree, Fields):
        return {1: _speed(as_text(tree))}
    if not tree.entries:
        raise Unreadable("it has no speed")
    return {_gpus(width): _speed(as_text(speed)) for width, speed in tree.entries.items()}


def _gpus(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text[:9]) <= GPUS_MAX:
        return int(text)
    raise Unreadable(f"{shown(text)} is no number of GPUs; write speeds by width as {{1: 3.0, 8: 22.4}}")


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not math.isfinite(speed) or speed < 0:
        raise Unreadable(f"{shown(text)} is no speed; write the steps a second, as 12.5")
    return speed
