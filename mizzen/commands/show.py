"""`mizzen show`: everything about one workload, also about one that ended long ago."""

from mizzen.answers import tell_json, tell_lines, tell_note
from mizzen.options import Json, OneWorkload


def show(
    workload: OneWorkload,
    /,
    *,
    json: Json = False,
) -> None:
    """Tell everything about one workload: what was asked for, where it is, and every attempt with its times and causes."""
    from mizzen.views import show_text
    from mizzen.views.knowing import known
    from mizzen.views.reading import on_plane, workload_of

    asked = workload_of(workload)
    found = on_plane(lambda bus, _: known(bus, asked))
    for note in found.notes:
        tell_note(note, is_json=json)
    if json:
        tell_json(show_text.builtins_of(found.telling.story, found.live))
    else:
        tell_lines(show_text.lines_of(found.telling.story, found.live, found.at))
