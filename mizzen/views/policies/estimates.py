"""Speeds of pairs that were not measured, estimated from models that were measured beside each other (core/sharing/completion.py)."""

from collections.abc import Sequence

from core.sharing.completion import Completed, completed, references_of
from core.sharing.speeds import SpeedTable
from mizzen.views.policies.inputs import Input

NOTES_MAX = 5
"""Models of which it is said that their speeds are estimated; the others are counted."""
NONE_KNOWN = "no speeds of pairs are known of these jobs, so that no two share GPUs"


def with_pairs(given: Input, gpu_types: Sequence[str]) -> Input:
    """Return the jobs with the speeds of each pair of them that was not measured, as far as they can be estimated.

    gpu_types   of the fleet, those that are spread among them
    """
    jobs = {(job.model, job.gpus) for job in given.jobs}
    table = _with_references(given)
    found = completed(table, jobs, references_of(table, gpu_types), gpu_types)
    together = {pair: both for pair, both in found.table.together.items() if jobs.issuperset(pair)}
    estimated = {pair: types for pair, types in found.estimated.items() if jobs.issuperset(pair)}
    told = [NONE_KNOWN] if not together else list(Completed(found.table, estimated, found.likes).notes)
    if len(told) > NOTES_MAX:
        told[NOTES_MAX:] = [f"and {len(told) - NOTES_MAX} more models with estimated speeds beside others"]
    return Input(given.jobs, SpeedTable(given.table.alone, together), (*given.notes, *told), given.references)


def _with_references(given: Input) -> SpeedTable:
    """Return the table with the models of the whole file of speeds, as references; without pairs of jobs whose speeds are not the file's."""
    if given.references is None:
        return given.table
    whole = given.references
    alone = {**whole.alone, **given.table.alone}
    together = {
        pair: both
        for pair, both in whole.together.items()
        if all(alone.get(shape) == whole.alone.get(shape) for shape in pair)
    }
    return SpeedTable(alone, together)
