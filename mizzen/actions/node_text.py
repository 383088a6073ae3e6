"""What became of what an operator asked for, in a line or two."""

from core.nouns.instant import Instant
from core.nouns.operation import DRAIN
from mizzen.actions.nodes import Done
from mizzen.views.phrases.durations import clock_text, short_text
from mizzen.views.phrases.text import nodes_text


def drained_text(done: Done, deadline: int) -> str:
    """The name first: it is what is typed next."""
    if not done.tasks:
        return f"{done.name} drains {_nodes(done)}: nothing runs there"
    unless = f"at the latest in {short_text(deadline)}" if deadline else "when their controllers agree"
    return f"{done.name} drains {_nodes(done)}: {_tasks(done)} will leave, {unless}; `mizzen drain {done.name} -w` shows it"


def undrained_text(done: Done) -> str:
    """Which drains it were, and what still keeps work away from those nodes."""
    drains = [source for source in sorted(done.still_closed) if source.startswith(DRAIN)]
    more = f"; `mizzen undrain {drains[0]}` lifts that too" if drains else ""
    return f"{_nodes(done)}: {done.name} lifted{_still(done)}{more}"


def released_text(done: Done) -> str:
    """Which of them were in quarantine at all."""
    if not done.nodes:
        return "none of these nodes is in quarantine; `mizzen nodes` shows which are"
    return f"{_nodes(done)}: released from quarantine{_still(done)}"


def planned_text(done: Done, now: Instant, lasts: int) -> str:
    """With both times, so that a wrong zone or a slip is seen at once."""
    starts_at = now + done.starts_in
    when = f"opens {clock_text(starts_at, now)}, in {short_text(done.starts_in)}, until {clock_text(starts_at + lasts, now)}"
    return f"{done.name} {when}, on {_nodes(done)}: {_tasks(done)} there now; `mizzen maintain {done.name}` shows it"


def _nodes(done: Done) -> str:
    return (
        f"{nodes_text(done.region, done.node_runs)} ({done.nodes} {'node' if done.nodes == 1 else 'nodes'})"
    )


def _tasks(done: Done) -> str:
    of = len(done.workloads)
    tasks = f"{done.tasks} {'task' if done.tasks == 1 else 'tasks'}"
    return f"{tasks} of {of} {'workload' if of == 1 else 'workloads'}"


def _still(done: Done) -> str:
    closed = [
        f"{source} {nodes_text(done.region, runs)}" for source, runs in sorted(done.still_closed.items())
    ]
    return f"; still closed: {', '.join(closed)}" if closed else ""
