"""The workload or pipeline that a command line means: what a file says, changed by what the command line says."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from mizzen.jobs.file import Job, read_job
from mizzen.jobs.section import JobFileError
from mizzen.jobs.source import STDIN, read_settings, read_source, sheet_of
from mizzen.jobs.stages import MAKE_PIPELINE
from mizzen.terminal.output import MISUSED, CommandError, explained, tell_note
from runtime.yaml_tree import Listing, Place, Problem, Text, Tree, with_fields


def job_given(
    file: str,
    arguments: Sequence[str] = (),
    *,
    fields: Mapping[str, str] | None = None,
    regions: Sequence[str] = (),
    settings: Sequence[str] = (),
    command: str,
    is_json: bool,
) -> Job:
    """What is asked for by this command. Raises CommandError, with all that is wrong.

    arguments  what follows `--`, for what is run
    fields     by their paths; what is empty is not given
    settings   others, each as FIELD=VALUE
    """
    if file.startswith("-") and file != STDIN:
        text = f"there is no option {file}; `mizzen {command} --help` shows what there is"
        raise CommandError(text, MISUSED)
    trees: list[tuple[str, Tree]] = [
        (field, Text(Place(f"--{field}"), value)) for field, value in (fields or {}).items() if value
    ]
    if regions:
        place = Place("--region")
        trees.append(("regions", Listing(place, tuple(Text(place, region) for region in regions))))
    try:
        with explained():
            source = read_source(file)
        problems: list[Problem] = []
        trees += read_settings(settings, problems)
        sheet = sheet_of(source, arguments, os.environ, [path for path, _ in trees])
        for note in sheet.notes:
            tell_note(note, is_json=is_json)
        found = with_fields(sheet.fields, trees, problems)
        job = read_job(replace(sheet, fields=found, problems=[*sheet.problems, *problems]), Path.cwd())
        if command not in TAKE_PIPELINES:
            _tell_left_out(job, is_json=is_json)
        return job
    except JobFileError as error:
        told = [str(problem) for problem in error.problems]
        if len(told) == 1 and not error.problems[0].place.line:
            raise CommandError(told[0], MISUSED) from error
        called = "standard input" if file == STDIN else file
        count = "a problem" if len(told) == 1 else f"{len(told)} problems"
        raise CommandError(f"nothing was {DONE[command]}: {called} has {count}", MISUSED, told) from error


def _tell_left_out(job: Job, *, is_json: bool) -> None:
    """Note what a command that takes one workload makes nothing of. Raises JobFileError for a file with stages."""
    name = job.spec.name
    left = [field for field in (*MAKE_PIPELINE, "on_late") if field in job.fields.entries]
    if left:
        text = f"{', '.join(left)} of {name}: left out; only a submission is given a deadline or a window"
        tell_note(text, is_json=is_json)


TAKE_PIPELINES = ("submit",)
"""Commands that need a file and take one with stages."""
DONE = {"submit": "submitted", "update": "changed"}
"""What a command that needs a file does with it."""
