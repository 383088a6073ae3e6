"""What `cancel`, `hold`, `priority`, `release` and `requeue` have in common: ids in, a line for each out."""

from collections.abc import Sequence

from mizzen.terminal.output import FAILED, MISUSED, CommandError, tell_json, tell_problem

TAKE_PIPELINES = ("cancel", "cancel_and_wait")
"""Acts that may be done to a whole pipeline too, named as in p-7."""


def for_each(workloads: Sequence[str], act: str, *given: object, is_json: bool) -> int:
    """Do what `act` names in mizzen/actions/workloads.py for each, with what it is given; fails if it could not be done for one. Raises CommandError."""
    import msgspec

    from core.nouns.ids import WorkloadId
    from mizzen.actions.workloads import ACTS, each
    from mizzen.views.pipelines.stages import pipeline_of
    from mizzen.views.plane_reads import on_plane, workload_of

    if not workloads:
        raise CommandError("name a workload, as in w-7; `mizzen queue` lists them", MISUSED)
    takes_pipelines = act in TAKE_PIPELINES
    ids = [
        WorkloadId(pipeline_of(text)) if takes_pipelines and text.startswith("p-") else workload_of(text)
        for text in workloads
    ]
    done = on_plane(lambda bus, _: each(bus, ids, ACTS[act], given))
    if is_json:
        tell_json(msgspec.to_builtins(done))
    for one in done:
        if one.error:
            tell_problem(f"{one.workload}: {one.error}", is_json=is_json)
        elif not is_json:
            print(f"{one.workload} {one.text}")
    return FAILED if any(one.error for one in done) else 0
