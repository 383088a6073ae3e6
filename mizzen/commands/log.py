"""`mizzen log`: the facts of a log, a line each; and its old facts archived by hand."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from cyclopts.types import NonNegativeInt

from mizzen.terminal.options import Json
from mizzen.terminal.output import tell_json, tell_lines

if TYPE_CHECKING:
    from mizzen.actions.log_archive import ArchivedByHand

MEGABYTE = 1_000_000

log = App(name="log", version_flags=[], default_parameter=Parameter(show_default=False))


@log.default
def facts(
    log_: Annotated[
        str, Parameter(name="LOG", help="`global` or `region.NAME` on the running plane, or a .sqlite file.")
    ],
    /,
    *,
    first: Annotated[NonNegativeInt, Parameter(help="The sequence to begin with.")] = 0,
    count: Annotated[
        NonNegativeInt, Parameter(help="At most so many; the newest 50 if nothing is said.")
    ] = 0,
    about: Annotated[str, Parameter(help="Only facts about this workload, worker or region.")] = "",
    follow: Annotated[
        bool, Parameter(name=("--follow", "-f"), negative=(), help="Go on with what comes.")
    ] = False,
    json: Json = False,
) -> None:
    """Tell the facts of a log: sequence, time, actor, type, what it is about, and the rest; JSON is a line each."""
    from mizzen.views.logs.fact_stream import Asked, tell, tell_plane_log
    from mizzen.views.logs.log_source import is_path, log_file, with_file
    from mizzen.views.plane_reads import on_plane

    asked = Asked(first, count, about, follow, json)
    if is_path(log_):
        path: Path = log_file(log_)
        asyncio.run(with_file(path, lambda source: tell(source, asked)))
    else:
        on_plane(lambda bus, _: tell_plane_log(bus, log_, asked))


@log.command(name="archive")
def archive(
    log_: Annotated[
        str,
        Parameter(name="LOG", help="A log's file, or the name of a log of the plane that is or was here."),
    ],
    /,
    *,
    keep: Annotated[
        str, Parameter(help="How old facts are that move; as MIZZEN_KEEP says, or 90d, if not named.")
    ] = "",
    json: Json = False,
) -> None:
    """Move facts that are older than a span to the log's archive, from where every command reads them as before.

    Facts from the oldest snapshot on stay. A plane that runs does this by itself, with 100,000 facts at a time; without a
    plane the log's file also gives all of its free room back. Do not start the plane meanwhile.
    """
    import msgspec

    from core.nouns.limits import KEEP
    from mizzen.actions.log_archive import archive_by_hand, keep_from, keep_said
    from mizzen.views.logs.log_source import log_file

    span = keep_said(keep, "--keep") if keep else keep_from(os.environ) or KEEP
    done = asyncio.run(archive_by_hand(log_file(log_), span))
    if json:
        tell_json(msgspec.to_builtins(done))
    else:
        tell_lines(_lines_of(done))


def _lines_of(done: "ArchivedByHand") -> list[str]:
    own = f"{done.log}.sqlite"
    if not done.files:
        lines = [f"nothing of {done.log} was archived: {done.why_none}"]
    else:
        files = "1 file" if done.files == 1 else f"{done.files} files"
        size = f"{done.archive_bytes / MEGABYTE:,.1f} MB"
        lines = [
            f"facts {done.first} to {done.last} of {done.log} are in {files} ({size}) of {done.directory}"
        ]
    if not done.is_kept:
        before, after = (f"{size / MEGABYTE:,.1f}" for size in (done.bytes_before, done.bytes_after))
        return [*lines, f"{own} had {before} MB and has {after} MB"]
    return [*lines, f"its keeper takes them out of {own}, a little at a time"] if done.files else lines
