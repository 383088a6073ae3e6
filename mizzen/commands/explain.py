"""`mizzen explain`: why a workload waits, runs where it runs, or ended."""

from pathlib import Path
from typing import TYPE_CHECKING

from mizzen.terminal.options import Json, OneWorkload
from mizzen.terminal.output import tell_json, tell_lines, tell_note

if TYPE_CHECKING:
    from bus.port import Bus
    from core.nouns.ids import WorkloadId
    from mizzen.connect.plane import Plane


def explain(
    workload: OneWorkload,
    /,
    *,
    json: Json = False,
) -> None:
    """Tell why a workload is where it is.

    Of one that waits: what stands in the way of each region, with figures, and whose turn it is; of a job of a shared pool
    which jobs have the GPUs in this round, and by how much they stood before it. Of one that runs: the
    bids and their scores, and how its agent chose: what each rule left, which decided, and the runner-up, recomputed from
    the region's log. Of one that ended: the chain of facts that led to it.
    """
    from mizzen.views.plane_reads import on_plane, workload_of

    asked = workload_of(workload)
    on_plane(
        lambda bus, plane: _explain_own(bus, asked, json) if bus.tenant else _explain(bus, plane, asked, json)
    )


async def _explain(bus: "Bus", plane: "Plane", workload: "WorkloadId", is_json: bool) -> None:
    from mizzen.views.workloads import explain as explaining

    directory = Path(plane.directory) if plane.directory else None
    explanation, found = await explaining.explained(bus, workload, directory)
    for note in found.notes:
        tell_note(note, is_json=is_json)
    if is_json:
        tell_json(explaining.builtins_of(explanation))
    else:
        tell_lines(explaining.lines_of(explanation, found.telling.story))


async def _explain_own(bus: "Bus", workload: "WorkloadId", is_json: bool) -> None:
    """As a tenant."""
    from mizzen.views.workloads import explain as explaining
    from mizzen.views.workloads import tenant_view as own_work

    own = await own_work.own_work(bus, workload)
    tell_note(own_work.UNTOLD, is_json=is_json)
    if is_json:
        tell_json(explaining.builtins_of(own_work.explanation_of(own)))
    else:
        tell_lines(own_work.explained_lines(own))
