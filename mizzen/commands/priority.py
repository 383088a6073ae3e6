"""`mizzen priority`: the level that workloads ask for."""

import re
from typing import Annotated

from cyclopts import Parameter

from mizzen.actions.workload_batch import for_each
from mizzen.terminal.options import AnyWorkloads, Json
from mizzen.terminal.output import MISUSED, CommandError

TENANTS = "tenant"
_LEVEL = re.compile(r"-?[0-9]{1,9}")


def priority(
    level: Annotated[
        str,
        Parameter(
            name="LEVEL",
            help="0 to 6, the highest, and never above its tenant's; or tenant for its tenant's level.",
            allow_leading_hyphen=True,
        ),
    ],
    /,
    *workloads: AnyWorkloads,
    json: Json = False,
) -> int:
    """Set which level workloads ask for. One that waits is ranked again; one that runs goes on, and may be preempted."""
    if level != TENANTS and not _LEVEL.fullmatch(level):
        text = (
            f"{level!r} is no level; write 0 to 6 or {TENANTS} before the ids, as in `mizzen priority 4 w-7`"
        )
        raise CommandError(text, MISUSED)
    return for_each(workloads, "priority", None if level == TENANTS else int(level), is_json=json)
