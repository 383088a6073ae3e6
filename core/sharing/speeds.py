"""How fast each model is on each type of GPU, alone and beside another: a user's figures, corrected by measured speeds.

A table is of whole jobs: a job of 8 GPUs has one speed, that of all eight together. Where a type has two rows of figures, one for
GPUs on few nodes and one for GPUs on many, the second has `/spread` behind its name.

Source of the form that is read: Gavel's repository, `simulation_throughputs.json` (commit c4fa4009, MIT).
"""

import ast
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

Shape = tuple[str, int]
"""A model, and the GPUs of the whole job."""

SPREAD = "/spread"
"""Suffix of a GPU type for jobs with GPUs on many nodes."""
MEASURED_WEIGHT = 0.5
"""Weight of a measured speed in the moving average with the speed that was believed; as in the published system (spec/gavel.md §3)."""
_ALONE = "null"
_UNCONSOLIDATED = "_unconsolidated"


class BadSpeeds(Exception):
    """A file of speeds that cannot be used; the text is one sentence for people."""


class SpeedTable(Struct, frozen=True):
    """Steps a second of whole jobs."""

    alone: dict[Shape, dict[str, float]]
    """By GPU type; 0: it does not run there."""
    together: dict[tuple[Shape, Shape], dict[str, tuple[float, float]]]
    """Of the first and of the second, by GPU type, where both run on the same GPUs; (0, 0): they cannot. Both have the same width, and
    each pair is there in both orders."""

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models, by name."""
        return tuple(sorted({model for model, _ in self.alone}))

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """Return the GPU types of any model, by name, those that are spread among them."""
        return tuple(sorted({gpu_type for by_type in self.alone.values() for gpu_type in by_type}))


class Measured(Struct, frozen=True):
    """The measured speed of a job that ran on GPUs of one type."""

    shape: Shape
    gpu_type: str
    speed: float
    """Steps a second, >= 0."""
    beside: Shape | None = None
    """The job on the same GPUs; None: it had them to itself."""
    beside_speed: float = 0.0
    """Steps a second of that one."""


def corrected(table: SpeedTable, measured: Iterable[Measured]) -> SpeedTable:
    """Return the table with each measured speed averaged into the one that was believed, in their order.

    A speed that was not known, or was known as none, becomes the measured one.
    """
    alone, together = dict(table.alone), dict(table.together)
    for one in measured:
        assert one.speed >= 0, one
        if one.beside is None:
            known = alone.get(one.shape, {})
            alone[one.shape] = {
                **known,
                one.gpu_type: _averaged(known.get(one.gpu_type, 0.0), one.speed),
            }
            continue
        assert one.shape[1] == one.beside[1], one
        pair = together.get((one.shape, one.beside), {})
        first, second = pair.get(one.gpu_type, (0.0, 0.0))
        both = _averaged(first, one.speed), _averaged(second, one.beside_speed)
        together[one.shape, one.beside] = {**pair, one.gpu_type: both}
        other = together.get((one.beside, one.shape), {})
        together[one.beside, one.shape] = {**other, one.gpu_type: both[::-1]}
    return SpeedTable(alone, together)


def with_shapes(table: SpeedTable, shapes: Iterable[Shape]) -> tuple[SpeedTable, tuple[str, ...]]:
    """Return the table with a row for each of these shapes of a known model, and a sentence for each width that was not.

    A width that is not known has the speed for each GPU of the next narrower one, or else of the narrowest. Jobs scale less well the
    wider they are, so the guess is too high for jobs much wider than those that were measured. Of unknown models nothing is added.
    """
    widths: dict[str, list[int]] = {}
    for model, gpus in sorted(table.alone):
        widths.setdefault(model, []).append(gpus)
    alone = dict(table.alone)
    guessed: dict[tuple[int, int], list[str]] = {}
    for model, gpus in sorted(set(shapes)):
        known = widths.get(model, [])
        if not known or gpus in known:
            continue
        width = nearest_width(known, gpus)
        alone[model, gpus] = {
            gpu_type: speed * gpus / width for gpu_type, speed in table.alone[model, width].items()
        }
        guessed.setdefault((gpus, width), []).append(model)
    notes = tuple(
        f"{_of_gpus(gpus)} of {_listed(models)} were not measured: the speed for each GPU is that of {_of_gpus(width)}"
        for (gpus, width), models in sorted(guessed.items())
    )
    return SpeedTable(alone, table.together), notes


def shape_text(shape: Shape) -> str:
    """Return a job's model and width for people: `A3C with 1 GPU`."""
    return f"{shape[0]} with {_of_gpus(shape[1])}"


def nearest_width(known: Iterable[int], gpus: int) -> int:
    """Return the known width by which another is guessed: the widest that is narrower, or else the narrowest."""
    widths = sorted(known)
    return max((one for one in widths if one < gpus), default=widths[0])


def read_speeds(data: bytes) -> SpeedTable:
    """Return the table of a file in Gavel's form: JSON, by GPU type, job and other job. Raises BadSpeeds.

    A job is `('MODEL', GPUS)`; the other is `null` for the speed alone, or a job of as many GPUs, for [own speed, the other's]. A type
    with `_unconsolidated` behind it is one with `/spread` here.
    """
    try:
        read = msgspec.json.decode(data, type=dict[str, dict[str, dict[str, float | tuple[float, float]]]])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadSpeeds(f"it is not a table of speeds by GPU type, job and other job: {error}") from error
    shapes: dict[str, Shape] = {}
    table = SpeedTable({}, {})
    for written_type, jobs in read.items():
        gpu_type = written_type
        if written_type.endswith(_UNCONSOLIDATED):
            gpu_type = written_type.removesuffix(_UNCONSOLIDATED) + SPREAD
        for job, others in jobs.items():
            if job not in shapes:
                shapes[job] = _shape(job)
            for other, value in others.items():
                if other != _ALONE and other not in shapes:
                    shapes[other] = _shape(other)
                second = None if other == _ALONE else shapes[other]
                _add(table, gpu_type, shapes[job], second, value)
    if not table.alone:
        raise BadSpeeds("it has no speed of any job alone")
    return table


def _add(
    table: SpeedTable, gpu_type: str, first: Shape, second: Shape | None, value: float | tuple[float, float]
) -> None:
    """Add one entry of a file. Raises BadSpeeds."""
    where = f"{shape_text(first)} on {gpu_type}"
    both = value if isinstance(value, tuple) else (value,)
    if any(speed < 0 for speed in both):
        raise BadSpeeds(f"{where}: a speed is less than 0")
    if second is None:
        if isinstance(value, tuple):
            raise BadSpeeds(f"{where}: its speed alone must be one number, and two are there")
        table.alone.setdefault(first, {})[gpu_type] = value
        return
    where = f"{where} beside {shape_text(second)}"
    if not isinstance(value, tuple):
        raise BadSpeeds(f"{where}: it must be two speeds, its own and the other's")
    if first[1] != second[1]:
        raise BadSpeeds(f"{where}: only jobs of as many GPUs can share them")
    turned = table.together.get((second, first), {}).get(gpu_type)
    if turned is not None and turned[::-1] != value:
        raise BadSpeeds(f"{where}: the file says {value} here, and the other way around {turned}")
    table.together.setdefault((first, second), {})[gpu_type] = value
    table.together.setdefault((second, first), {})[gpu_type] = value[::-1]


def _shape(text: str) -> Shape:
    """Return the job that a text like `('A3C', 1)` names. Raises BadSpeeds."""
    try:
        read = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        read = None
    match read:
        case (str(model), int(gpus)) if gpus > 0:
            return model, int(gpus)
    raise BadSpeeds(f"{text!r} names no job; one is named by its model and its GPUs, as ('A3C', 1)")


def _averaged(believed: float, measured: float) -> float:
    return measured if believed <= 0 else believed + MEASURED_WEIGHT * (measured - believed)


def _of_gpus(gpus: int) -> str:
    return f"{gpus} GPU" if gpus == 1 else f"{gpus} GPUs"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more models"
