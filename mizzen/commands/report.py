"""`mizzen report`: how much of a plane was given out, and how long work waited, from its logs alone."""

from itertools import islice
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeFloat

from core.nouns.ids import GLOBAL_LOG, LogName
from core.nouns.instant import SECOND, Instant
from mizzen.terminal.options import Json
from mizzen.terminal.output import CommandError, explained, tell_json, tell_table

SUFFIX = ".sqlite"


def report(
    directory: Path,
    /,
    *,
    skip: Annotated[
        NonNegativeFloat, Parameter(help="Hours at the beginning of the logs that do not count.")
    ] = 0.0,
    json: Json = False,
) -> None:
    """Tell what a plane came to: what was allocated and of use, waits within quota and over it, and late starts.

    DIRECTORY holds the logs of the queue and of the regions. Keepers may have them open meanwhile.
    """
    from core.figures.plane import PlaneFigures
    from store.errors import LogError
    from store.sqlite import facts_in

    logs = _logs(directory)
    with explained(LogError):
        begins = [fact.at for log in logs for fact in islice(facts_in(directory, log), 1)]
        if not begins:
            raise CommandError(f"the logs in {directory} are empty")
        first = min(begins)
        figures, last = PlaneFigures(Instant(first + round(skip * 3_600 * SECOND))), Instant(first)
        for log in logs:
            for fact in facts_in(directory, log):
                figures.take(fact)
                last = max(last, fact.at)
    found = figures.figures(last)
    if json:
        tell_json(found)
    else:
        tell_table(("figure", "value"), [(name, f"{value:,.4g}") for name, value in found.items()])


def _logs(directory: Path) -> list[LogName]:
    """Raises CommandError unless a queue's is among them."""
    names = sorted(path.name.removesuffix(SUFFIX) for path in directory.glob(f"*{SUFFIX}"))
    if GLOBAL_LOG not in names:
        raise CommandError(
            f"{directory} has no log of a queue in it; name the directory that keepers were started with"
        )
    return [LogName(name) for name in names]
