"""Options that several commands have."""

from typing import Annotated

from cyclopts import Parameter

from core.nouns.instant import SECOND
from core.nouns.limits import UNANSWERED_MAX
from mizzen.terminal.output import MISUSED, CommandError

Json = Annotated[bool, Parameter(name="--json", negative=(), help="Answer with JSON.")]
OneWorkload = Annotated[str, Parameter(name="ID", help="The workload, as in w-7.")]
AnyWorkloads = Annotated[str, Parameter(name="ID", help="Workloads, as in w-7.")]
Sure = Annotated[bool, Parameter(name="--yes", negative=(), help="Also if no node of the region stays open.")]

HUNG_AFTER = UNANSWERED_MAX // SECOND
"""What `--hung-after` is if not named, in seconds."""


def check_hung_after(seconds: int) -> None:
    """Raise CommandError unless a process may stand still for so long."""
    if seconds < 0:
        raise CommandError(f"--hung-after: {seconds} is less than 0", MISUSED)
