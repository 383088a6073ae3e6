"""`mizzen explain`: why a workload waits, runs where it runs, or ended."""

from pathlib import Path

from mizzen.answers import tell_json, tell_lines, tell_note
from mizzen.options import Json, OneWorkload


def explain(
    workload: OneWorkload,
    /,
    *,
    json: Json = False,
) -> None:
    """Tell why a workload is where it is.

    Of one that waits: what stands in the way of each region, with figures, and whose turn it is. Of one that runs: the
    bids and their scores, and how its agent chose: what each rule left, which decided, and the runner-up, recomputed from
    the region's log. Of one that ended: the chain of facts that led to it.
    """
    from mizzen.views import explaining
    from mizzen.views.reading import on_plane, workload_of

    asked = workload_of(workload)
    explanation, found = on_plane(
        lambda bus, plane: explaining.explained(
            bus, asked, Path(plane.directory) if plane.directory else None
        )
    )
    for note in found.notes:
        tell_note(note, is_json=json)
    if json:
        tell_json(explaining.builtins_of(explanation))
    else:
        tell_lines(explaining.lines_of(explanation, found.telling.story))
