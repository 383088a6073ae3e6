"""`mizzen preempt`: stop a running attempt for others, by negotiation with its controller, back into its place in the queue."""

from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json, OneWorkload
from mizzen.terminal.output import MISUSED, CommandError

PATIENCE = "60s"

Patience = Annotated[
    str,
    Parameter(help="Stop it after this span, 60s if none is named, though its controller has not agreed."),
]
Reason = Annotated[str, Parameter(help="Told to its controller, and kept in the log.")]


def preempt(
    workload: OneWorkload,
    /,
    *,
    deadline: Patience = "",
    now: Annotated[bool, Parameter(negative=(), help="Ask no controller: stop it at once.")] = False,
    reason: Reason = "",
    json: Json = False,
) -> None:
    """Stop a workload that runs, all of its tasks, back into its place in the queue.

    Its controller is asked, and may have it write a checkpoint first; without one it is stopped at once, and writes one in its
    grace. It uses up no retry. Interactive work is never preempted: requeue it.
    """
    from mizzen.actions.task_options import on_tasks

    if now and deadline:
        raise CommandError(
            "--now asks no controller, so there is no --deadline to wait for; say one of them", MISUSED
        )
    on_tasks(
        workload,
        "preempt",
        ranks="",
        job="",
        deadline="1ms" if now else deadline or PATIENCE,
        reason=reason,
        is_json=json,
    )
