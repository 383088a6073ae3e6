"""The job file: what it may say, and the workload or the pipeline that it becomes.

    name: train
    run: torchrun train.py
    resources: {gpus: H100:8}

docs/job-file.md describes every field. All problems are told at once, those among them that the queue would refuse it for.
`workload.py` reads a workload, `stages.py` what makes a pipeline of workloads, and `origins.py` finds the line of a problem.
"""

import os
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from core.nouns.instant import Instant
from core.nouns.pipeline import PipelineSpec
from core.nouns.workload import WorkloadSpec
from core.rules.pipelines.submission import problems_of_pipeline
from core.rules.submission import problems_of
from mizzen.jobs.origins import Origin, located
from mizzen.jobs.parts import OF_JOB
from mizzen.jobs.section import JobFileError, Section
from mizzen.jobs.source import Sheet, read_source, sheet_of
from mizzen.jobs.stages import MAKE_PIPELINE, OF_PIPELINE, OF_STAGE, read_pipeline, read_plain, read_stages
from mizzen.jobs.workload import OF_WORKLOAD, given_to
from runtime.clock import wall_now
from runtime.yaml_tree import Fields, Problem

__all__ = ["Job", "JobFileError", "load_file", "load_job", "read_job"]


class Job(Struct, frozen=True):
    """A workload or a pipeline that is ready to be submitted, and the fields of which it was made."""

    workloads: tuple[WorkloadSpec, ...]
    """One, or that of each stage."""
    fields: Fields
    origins: tuple[Origin, ...]
    """The fields of which each workload was made."""
    pipeline: PipelineSpec | None = None
    """None: it is a plain workload."""

    @property
    def spec(self) -> WorkloadSpec:
        """The workload of a file without stages. Raises JobFileError for a file with stages."""
        if "stages" in self.fields.entries:
            raise _no_pipeline(self.fields, "stages")
        return self.workloads[0]

    def located(self, problem: str) -> Problem:
        """A problem that the queue tells, at its place in the file."""
        return located(problem, self.fields, self.origins)


def load_file(path: Path, folder: Path | None = None) -> Job:
    """The workload or the pipeline of a job file or a script, as if submitted from this folder, or from here. Raises JobFileError, OSError."""
    return read_job(sheet_of(read_source(str(path)), environment=os.environ), folder or Path.cwd())


def load_job(path: Path, folder: Path | None = None) -> WorkloadSpec:
    """The plain workload of a job file or a script, as if submitted from this folder, or from here. Raises JobFileError, OSError."""
    job = load_file(path, folder)
    for field in MAKE_PIPELINE:
        if field in job.fields.entries:
            raise _no_pipeline(job.fields, field)
    return job.spec


def read_job(sheet: Sheet, folder: Path, now: Instant | None = None) -> Job:
    """The workload or the pipeline that a sheet asks for, submitted from this folder, now. Raises JobFileError, with all that is wrong."""
    fields, problems = sheet.fields, [*sheet.problems]
    top = Section(fields, problems, "", (*OF_WORKLOAD, *OF_JOB, *OF_PIPELINE, *OF_STAGE))
    found = read_stages(top, folder) if "stages" in top else read_plain(top, folder)
    workloads = given_to([stage.workload for stage, _ in found], sheet.arguments, problems)
    stages = [replace(stage, workload=one) for (stage, _), one in zip(found, workloads, strict=True)]
    pipeline = read_pipeline(top, stages)
    origins = tuple(origin for _, origin in found)
    try:
        wrong = (
            problems_of(workloads[0])
            if pipeline is None
            else problems_of_pipeline(pipeline, wall_now() if now is None else now)
        )
    except UnicodeEncodeError:
        # The text of a file is sound, but an argument and the name of a folder may be any bytes.
        problems.append(Problem(fields.place, "", "an argument or the folder's name is not UTF-8"))
        wrong = ()
    problems += [located(problem, fields, origins) for problem in wrong]
    if problems:
        raise JobFileError(problems)
    return Job(tuple(workloads), fields, origins, pipeline)


def _no_pipeline(fields: Fields, field: str) -> JobFileError:
    """Of a pipeline where one plain workload is asked for."""
    text = "it makes a pipeline, and a plain workload is asked for here; only `mizzen submit` takes pipelines"
    return JobFileError([Problem(fields.keys[field], field, text)])
