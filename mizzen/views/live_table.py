"""A run as people watch it: progress, who waits and why, GPUs held by region, the gang's loss; redrawn where there is a
terminal, a line now and then where there is none.
"""

import sys
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from core.nouns.quantities import MILLI
from core.nouns.workload import Phase
from mizzen.views.fleet.tenant_table import quota_of
from scenarios.play.live import Look, TenantsAt
from scenarios.play.live_gangs import GangLook, Point

if TYPE_CHECKING:
    from rich.console import Group

LINE_SECONDS = 5.0
"""Between lines where nobody can be shown a table."""
BAR = 24
CURVE = 40
BLOCKS = "▁▂▃▄▅▆▇█"


class LiveTable:
    """Call it with each look."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        """`is_quiet`: nothing is shown at all."""
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True, highlight=False)
        self._is_quiet = is_quiet
        self._live = None
        if self._console.is_terminal and not is_quiet:
            self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._said_at = -LINE_SECONDS

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, look: Look) -> None:
        """Show it."""
        if self._is_quiet:
            return
        if self._live is not None:
            self._live.update(_drawn(look), refresh=True)
        elif look.seconds - self._said_at >= LINE_SECONDS:
            self._said_at = look.seconds
            print(line_of(look), file=sys.stderr, flush=True)


def line_of(look: Look) -> str:
    """A look in a line."""
    ended = _ended(look)
    running, pending = look.counts.get(Phase.RUNNING, 0), look.counts.get(Phase.PENDING, 0)
    held = sum(look.held.values()) // MILLI
    text = f"{look.seconds:5.1f} s  {ended}/{look.wanted} ended, {running} running, {pending} pending, {held} GPUs held"
    if look.tenants:
        borrowed = sum(use.borrowed for row in look.tenants for use in row.uses.values())
        text += f", {borrowed // MILLI} borrowed"
    trained = [gang for gang in look.gangs if gang.curve]
    for gang in trained:
        of = f" of {_name_of(gang)}" if len(trained) > 1 else ""
        text += f", loss {gang.curve[-1].loss:.3f} at step {gang.curve[-1].step}{of}"
    for made in look.calls:
        if made.told.calls:
            text += f", {made.told.ended} of {made.told.calls} calls ended"
    return text


def sparkline(points: list[Point], width: int = CURVE) -> str:
    """A loss curve as blocks, the newest on the right."""
    if not points:
        return ""
    step = max(1, -(-len(points) // width))
    losses = [point.loss for point in points[::step]][-width:]
    low, high = min(losses), max(losses)
    span = (high - low) or 1.0
    return "".join(BLOCKS[round((loss - low) / span * (len(BLOCKS) - 1))] for loss in losses)


def tenants_told(moments: Iterable[TenantsAt]) -> list[str]:
    """What tenants held in the course of a scenario: when that was most, and in the end."""
    lines = []
    for at, when in zip(moments, ("most was held", "everything had ended"), strict=False):
        lines += ["", f"tenants after {at.seconds:.1f} s, when {when}:", *quota_of(at.rows, None)]
    return lines


def _ended(look: Look) -> int:
    return sum(count for phase, count in look.counts.items() if Phase(phase).is_terminal)


def _drawn(look: Look) -> "Group":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    head = Text(line_of(look), style="bold")
    regions = Table("region", "GPUs held", "", "of", box=None, pad_edge=False)
    regions.columns[1].justify = regions.columns[3].justify = "right"
    for region, total in sorted(look.total.items()):
        held = look.held.get(region, 0)
        filled = round(BAR * held / total) if total else 0
        bar = Text("█" * filled + "·" * (BAR - filled), style="green")
        regions.add_row(region, f"{held / MILLI:g}", bar, f"{total / MILLI:g}")
    waiting = ", ".join(f"{count} {reason}" for reason, count in sorted(look.waiting.items())) or "nobody"
    ended = ", ".join(
        f"{count} {phase}" for phase, count in sorted(look.counts.items()) if Phase(phase).is_terminal
    )
    lines = Table(box=None, show_header=False, pad_edge=False)
    lines.add_row("waiting", waiting)
    lines.add_row("ended", ended or "none yet")
    lines.add_row("misfortune", ", ".join(look.kills) or "none yet")
    for gang in look.gangs:
        for name, text in _rows_of(gang):
            lines.add_row(name, text)
    tenants = Text("\n".join(quota_of(look.tenants, None))) if look.tenants else Text(end="")
    return Group(head, regions, tenants, lines)


def _name_of(gang: GangLook) -> str:
    """Two jobs may come of one file."""
    return gang.name if gang.row is None else f"{gang.name} ({gang.row.workload})"


def _rows_of(gang: GangLook) -> list[tuple[str, str]]:
    rows = []
    if gang.row is not None:
        row = gang.row
        where = "has ended" if gang.has_ended else f"{row.phase.lower()} in {row.region or 'no region'}"
        resumed = gang.resumed.get(row.epoch)
        since = "" if resumed is None else f", resumed at step {resumed}"
        rows.append((_name_of(gang), f"{where}, attempt {row.epoch}{since}"))
    if gang.curve:
        first, last = gang.curve[0], gang.curve[-1]
        rows.append(("loss", f"{first.loss:.3f} {sparkline(gang.curve)} {last.loss:.3f} at step {last.step}"))
    return rows
