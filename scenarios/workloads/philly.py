"""A trace: jobs of Microsoft's Philly clusters in 2017, with their times, sizes and virtual clusters.

source    Jeon et al., USENIX ATC 2019 (github.com/msr-fiddle/philly-traces, CC BY 4.0), as `jobs.csv.gz` with the columns
          submit_time, duration_s, num_gpus, vc. It tells neither who failed nor what was checkpointed: those are drawn.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from scenarios.trace import Trace, TracedJob, read_csv

FILE = "jobs.csv.gz"
COLUMNS = ("submit_time", "duration_s", "num_gpus", "vc")


class Philly(Trace, frozen=True):
    """A stretch of eleven weeks; the tenants are its virtual clusters."""

    directory: str = "../shared/data/philly-2017"

    def jobs(self) -> Sequence[TracedJob]:
        """As the file has them."""
        return _read(self.folder / FILE)


@lru_cache(maxsize=4)
def _read(path: Path) -> Sequence[TracedJob]:
    return sorted(read_csv(path, COLUMNS, _job), key=lambda job: job.at or 0.0)


def _job(row: dict[str, str]) -> TracedJob:
    submitted = datetime.fromisoformat(row["submit_time"]).replace(tzinfo=UTC)
    return TracedJob(
        gpus=max(1, int(row["num_gpus"])),
        at=submitted.timestamp(),
        seconds=float(row["duration_s"]),
        tenant=row["vc"],
    )
