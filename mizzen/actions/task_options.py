"""What `restart` and `move` have in common: options that name tasks, and an answer that says what they wait for."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mizzen.terminal.output import MISUSED, CommandError, tell_json, tell_lines

if TYPE_CHECKING:
    from core.nouns.instant import Nanoseconds

Ranks = Annotated[str, Parameter(help="Only these ranks, as in 3,5-7.")]
JobName = Annotated[str, Parameter(help="Only tasks of this job.")]
Deadline = Annotated[
    str,
    Parameter(
        help="Do it after this span, as in 10m, though its controller has not agreed; without it, never."
    ),
]
Why = Annotated[str, Parameter(help="Told to its controller, and kept in the log.")]

REASON_LENGTH_MAX = 256


def on_tasks(
    workload: str, kind: str, *, ranks: str, job: str, deadline: str, reason: str, is_json: bool
) -> None:
    """Ask for an operation of this kind, and tell how it stands. Raises CommandError."""
    import msgspec

    from core.nouns.operation import OperationKind
    from mizzen.actions import task_operations as operating
    from mizzen.views.plane_reads import on_plane, workload_of

    asked = workload_of(workload)
    if len(reason) > REASON_LENGTH_MAX or not reason.isprintable():
        raise CommandError(f"a reason has {REASON_LENGTH_MAX} printable characters at most", MISUSED)
    wish = operating.Wish(
        OperationKind(kind), operating.ranks_of(ranks) if ranks else (), job, reason, _deadline_of(deadline)
    )
    done = on_plane(lambda bus, _: operating.operate(bus, asked, wish))
    if is_json:
        tell_json(msgspec.to_builtins(done))
    else:
        tell_lines(operating.lines_of(done))


def _deadline_of(text: str) -> "Nanoseconds":
    from core.nouns.workload import NEVER
    from mizzen.jobs.parts import longer_than_zero
    from mizzen.jobs.values import Unreadable

    try:
        return longer_than_zero(text) if text else NEVER
    except Unreadable as error:
        raise CommandError(f"--deadline: {error}", MISUSED) from error
