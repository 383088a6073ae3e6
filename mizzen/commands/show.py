"""`mizzen show`: everything about one workload, also about one that ended long ago."""

from typing import TYPE_CHECKING

from mizzen.terminal.options import Json, OneWorkload
from mizzen.terminal.output import tell_json, tell_lines, tell_note

if TYPE_CHECKING:
    from bus.port import Bus
    from core.nouns.ids import WorkloadId


def show(
    workload: OneWorkload,
    /,
    *,
    json: Json = False,
) -> None:
    """Tell everything about one workload: what was asked for, where it is, and every attempt with its times and causes."""
    from mizzen.views.plane_reads import on_plane, workload_of

    asked = workload_of(workload)
    on_plane(lambda bus, _: _show_own(bus, asked, json) if bus.tenant else _show(bus, asked, json))


async def _show(bus: "Bus", workload: "WorkloadId", is_json: bool) -> None:
    from mizzen.views.workloads import show_text
    from mizzen.views.workloads.lookup import known

    found = await known(bus, workload)
    for note in found.notes:
        tell_note(note, is_json=is_json)
    if is_json:
        tell_json(show_text.builtins_of(found.telling.story, found.live))
    else:
        tell_lines(show_text.lines_of(found.telling.story, found.live, found.at))


async def _show_own(bus: "Bus", workload: "WorkloadId", is_json: bool) -> None:
    """As a tenant."""
    from mizzen.views.workloads import tenant_view as own_work

    own = await own_work.own_work(bus, workload)
    tell_note(own_work.UNTOLD, is_json=is_json)
    if is_json:
        tell_json(own_work.shown_builtins(own))
    else:
        tell_lines(own_work.shown_lines(own))
