"""Capacity for functions: the job of a service whose tasks hold it (docs/functions.md)."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mizzen.jobs.file import Job, read_job
from mizzen.jobs.section import JobFileError
from mizzen.jobs.source import Source, sheet_of
from mizzen.terminal.output import MISUSED, CommandError


def serving_job(
    *, name: str, gpus: str, memory: str, tasks: str, whose: str, tenant: str, regions: Sequence[str]
) -> Job:
    """Return the job of a service for functions, given as a job file would. What is empty is not said. Raises CommandError."""
    resources = {"gpus": gpus, **({"memory": memory} if memory else {})}
    given: dict[str, Any] = {"name": name, "serve": "functions", "tasks": tasks, "resources": resources}
    given |= {field: value for field, value in (("for", whose), ("tenant", tenant)) if value}
    if regions:
        given["regions"] = list(regions)
    try:
        return read_job(sheet_of(Source("serve", json.dumps(given), "serve.json")), Path.cwd())
    except JobFileError as error:
        raise CommandError("nothing was submitted", MISUSED, [str(one) for one in error.problems]) from error
