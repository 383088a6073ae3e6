"""Gavel's traces, in both of their forms: a job a line, columns apart by a tab.

Ten columns: model, command, directory, argument for the steps, whether it needs data (0 or 1), steps, GPUs, weight, promise as a
multiple of the time alone on V100s (-1: none), arrival in seconds. Seven, the older form: model, command, argument for the steps,
whether it needs data, steps, arrival, GPUs. The published parser reads only the first.

Source: Gavel's repository, `scheduler/utils.py` and its traces (commit c4fa4009, MIT).
"""

import math
from collections.abc import Sequence

from msgspec import Struct

from core.sharing.jobs import SharingJob
from core.sharing.speeds import SpeedTable, shape_text, with_shapes

NO_PROMISE = -1.0
"""As the promise of a line: there is none."""
PROMISED_ON = "v100"
"""The GPU type on which a promise counts the time."""


class BadTrace(Exception):
    """A trace that cannot be played; the text is one sentence for people, with the number of the line."""


class TraceRow(Struct, frozen=True):
    """A line of a trace."""

    model: str
    steps: float
    gpus: int
    arrival: float = 0.0
    """Seconds from the begin of the trace."""
    weight: float = 1.0
    promise: float = NO_PROMISE
    """Multiple of the time that the job takes alone on V100s; -1: none."""
    command: str = ""
    directory: str = ""
    steps_argument: str = ""
    needs_data: bool = False
    number: int = 0
    """Of the line, from 1; 0: it was not read."""

    @property
    def line(self) -> str:
        """Return the line, in the form with ten columns."""
        promise = f"{self.promise:f}"
        if float(promise) != self.promise:
            promise = repr(self.promise)
        numbers = (self.steps, self.gpus, self.weight)
        return "\t".join(
            (
                *(self.model, self.command, self.directory, self.steps_argument, str(int(self.needs_data))),
                *map(_written, numbers),
                *(promise, _written(self.arrival)),
            )
        )


def rows_of(text: str) -> tuple[TraceRow, ...]:
    """Return the lines of a trace, those that are empty left out. Raises BadTrace."""
    lines = enumerate(text.split("\n"), 1)
    rows = tuple(_row(line.removesuffix("\r"), number) for number, line in lines if line.strip())
    if not rows:
        raise BadTrace("the trace has no line with a job")
    return rows


def jobs_of(
    rows: Sequence[TraceRow], table: SpeedTable, *, promised_on: str = PROMISED_ON
) -> tuple[SharingJob, ...]:
    """Return the jobs of these lines, with ids from 1 on in their order. Raises BadTrace.

    table         of each model some speed is known; a width that is not known is guessed, as by `with_shapes`
    promised_on   the GPU type on which promises count the time
    """
    table, _ = with_shapes(table, ((row.model, row.gpus) for row in rows))
    jobs = []
    for number, row in enumerate(rows, 1):
        if (row.model, row.gpus) not in table.alone:
            raise BadTrace(f"{_at(row)}no speeds are known of the model {row.model!r}")
        within = 0.0
        if row.promise != NO_PROMISE:
            speed = table.alone[row.model, row.gpus].get(promised_on, 0.0)
            if speed <= 0:
                raise BadTrace(
                    f"{_at(row)}its promise counts the time on {promised_on}, and {shape_text((row.model, row.gpus))} has no speed there"
                )
            within = row.promise * row.steps / speed
        jobs.append(SharingJob(str(number), row.model, row.gpus, row.steps, row.arrival, row.weight, within))
    return tuple(jobs)


def row_of(job: SharingJob, table: SpeedTable, *, promised_on: str = PROMISED_ON) -> TraceRow:
    """Return the line of a job, without command. Raises BadTrace for a promise of a job that has no speed to count the promise by."""
    promise = NO_PROMISE
    if job.within:
        wider, _ = with_shapes(table, [(job.model, job.gpus)])
        speed = wider.alone.get((job.model, job.gpus), {}).get(promised_on, 0.0)
        if speed <= 0:
            raise BadTrace(
                f"job {job.id}: its promise cannot be written, as {job.model} has no speed on {promised_on}"
            )
        promise = job.within * speed / job.steps
    return TraceRow(job.model, job.steps, job.gpus, job.arrival, job.weight, promise)


def _row(line: str, number: int) -> TraceRow:
    columns = line.split("\t")
    at = f"line {number}: "
    if len(columns) == 10:
        model, command, directory, argument, data, steps, gpus, weight, promise, arrival = columns
    elif len(columns) == 7:
        model, command, argument, data, steps, arrival, gpus = columns
        directory, weight, promise = "", "1", "-1"
    else:
        count = f"{len(columns)} column" if len(columns) == 1 else f"{len(columns)} columns"
        raise BadTrace(f"{at}it has {count} apart by tabs, and a job has 10, or 7 in the older form")
    row = TraceRow(
        model,
        _number(at, "steps", steps),
        int(_number(at, "GPUs", gpus, is_whole=True)),
        _number(at, "arrival", arrival, is_zero_allowed=True),
        _number(at, "weight", weight),
        promise=_promise(at, promise),
        command=command,
        directory=directory,
        steps_argument=argument,
        needs_data=data.strip() == "1",
        number=number,
    )
    if not model.strip():
        raise BadTrace(f"{at}it names no model")
    if data.strip() not in {"0", "1"}:
        raise BadTrace(f"{at}whether it needs data must be 0 or 1, and is {data!r}")
    return row


def _promise(at: str, text: str) -> float:
    """Return the multiple, or `NO_PROMISE` for any number below 0."""
    try:
        is_none = float(text) < 0
    except ValueError:
        is_none = False
    return NO_PROMISE if is_none else _number(at, "promise", text)


def _number(at: str, name: str, text: str, *, is_whole: bool = False, is_zero_allowed: bool = False) -> float:
    """Return a number, at least 0. Raises BadTrace."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    sort = "whole number" if is_whole else "number"
    if not math.isfinite(value) or (is_whole and value != int(value)):
        raise BadTrace(f"{at}the {name} must be a {sort}, and is {text!r}")
    if value < 0 or (value == 0 and not is_zero_allowed):
        least = "at least" if is_zero_allowed else "more than"
        raise BadTrace(f"{at}the {name} must be {least} 0, and is {text!r}")
    return value


def _written(value: float) -> str:
    """Return a number as text that is read as the same number, without a point where it is whole."""
    return str(int(value)) if value == int(value) else repr(value)


def _at(row: TraceRow) -> str:
    return f"line {row.number}: " if row.number else ""
