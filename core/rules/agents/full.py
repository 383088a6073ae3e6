"""Requests for which node rows do not suffice, so that only an agent that folds every fact can search for them."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

from core.codec import encode
from core.device_shares import part_of
from core.nouns.ids import AttemptKey
from core.nouns.workload import JobSpec


class Wanting(Protocol):
    """A request, an award or a claim."""

    @property
    def jobs(self) -> tuple[JobSpec, ...]:
        """The jobs to place."""

    @property
    def beside(self) -> AttemptKey | None:
        """The host, on the device of which the jobs are to run."""


def needs_full(wanting: Wanting, victims: Sequence[AttemptKey] = ()) -> bool:
    """Return whether the jobs are to be alone on nodes, share devices, run beside another job, or preempt attempts."""
    return (
        bool(victims)
        or wanting.beside is not None
        or any(job.is_alone or part_of(job.need.gpu_milli) for job in wanting.jobs)
    )


def shape_of(jobs: Sequence[JobSpec]) -> bytes:
    """Return a digest of the fields of jobs that a search reads: equal for jobs that find the same places."""
    read = [(job.need, job.tasks, job.gpu_type, job.or_types, job.gpu_memory, job.topology) for job in jobs]
    return blake2b(encode(read), digest_size=16).digest()
