"""`mizzen replay`: a log folded from its beginning."""

from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import FAILED, MISUSED, CommandError, tell_json, tell_problem

SHOWN_MAX = 20
"""Violations that are shown; JSON has a thousand."""


def replay(
    log: Annotated[
        str, Parameter(help="A log's file, or the name of a log of the plane that is or was here.")
    ],
    /,
    *,
    until: Annotated[int, Parameter(help="The last sequence to fold; all of them if not named.")] = 0,
    digest: Annotated[
        bool, Parameter(negative=(), help="Print the image's digest and nothing else.")
    ] = False,
    check: Annotated[
        bool, Parameter(negative=(), help="Check what must always hold at every fact; fails if it does not.")
    ] = False,
    json: Json = False,
) -> int:
    """Fold a log from its first fact on, and tell how far and how fast, and the digest of what it comes to.

    The digest is the one that the log's keeper reported when it stopped there.
    """
    import msgspec

    from mizzen.views.logs import replay as replaying
    from mizzen.views.logs.log_source import log_file

    if until < 0:
        raise CommandError("--until is a fact's sequence, and those begin at 1", MISUSED)
    done = replaying.replay(log_file(log), until, is_checked=check)
    if json:
        tell_json(msgspec.to_builtins(done))
    elif digest:
        print(done.digest)
    else:
        for name, value in replaying.rows_of(done, is_checked=check):
            print(f"{name:<10}  {value}")
    if not done.violations:
        return 0
    if not json:
        shown = [f"{one.sequence}: rule {one.rule}: {one.text}" for one in done.violations[:SHOWN_MAX]]
        text = f"{len(done.violations)} things do not hold in {done.log}; `mizzen state` shows it at each sequence"
        tell_problem(text, is_json=False, problems=shown)
    return FAILED
