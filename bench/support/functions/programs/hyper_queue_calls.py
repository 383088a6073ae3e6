"""Calls of HyperQueue: the tasks of one job, and jobs of one task. Each task is a process of its own: `true`, or a shell that tells its end.

A Python function is no better form: each of its tasks starts an interpreter. HyperQueue brings no values back, and its client looks for
the end of a job once a second; so a single call is done when its process has written its argument into a pipe. The server runs in this
process, as the wheel has it.
"""

import os
import tempfile
from collections.abc import Iterator
from typing import Any  # Any: HyperQueue is not there where types are checked.

from hyperqueue import Job, LocalCluster  # type: ignore[import-not-found]
from hyperqueue.cluster import WorkerConfig  # type: ignore[import-not-found]

from bench.support.functions.programs.timing import Forms, tell, work_of_line

WORKERS = 2


def main() -> None:
    """Start the server and one worker of two cores, and time all forms."""
    with tempfile.TemporaryDirectory() as directory:
        cluster: Any = LocalCluster(f"{directory}/server", WorkerConfig(cores=WORKERS))
        try:
            tell("hyperqueue", forms_of(cluster.client(), directory), work_of_line())
        finally:
            cluster.stop()


def forms_of(client: Any, directory: str) -> Forms:
    """Return the forms."""
    pipe = f"{directory}/ends"
    os.mkfifo(pipe)
    ends = ended(pipe)

    def array(count: int) -> list[int]:
        job = Job(directory)
        for _ in range(count):
            job.program(["true"], stdout=None, stderr=None)
        assert client.wait_for_jobs([client.submit(job)]), "a task has failed"
        return list(range(count))

    def submit(number: int) -> None:
        job = Job(directory)
        job.program(["sh", "-c", f"echo {number} > {pipe}"], stdout=None, stderr=None)
        client.submit(job)

    def in_flight(count: int, many: int) -> list[int]:
        for number in range(min(many, count)):
            submit(number)
        values = []
        for number in range(many, count + many):
            values.append(next(ends))
            if number < count:
                submit(number)
        return sorted(values)

    def one(number: int) -> int:
        submit(number)
        return next(ends)

    return Forms(mapped={"programs": array}, chunked={}, called={"jobs": in_flight}, one={"job": one})


def ended(pipe: str) -> Iterator[int]:
    """Yield the arguments of calls as they end."""
    # Open for writing too: the pipe has no end while no task writes.
    with os.fdopen(os.open(pipe, os.O_RDWR), "rb", buffering=0) as file:
        rest = b""
        while True:
            *lines, rest = (rest + file.read(65_536)).split(b"\n")
            yield from (int(line) for line in lines)


if __name__ == "__main__":
    main()
