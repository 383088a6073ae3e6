"""How figures, times and places look to people, and tables as plain columns: what `squeue` taught everybody to read."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from core.nouns.instant import MILLISECOND, SECOND
from core.nouns.placement import runs_of
from core.nouns.quantities import MILLI, Amount
from core.nouns.sharing import MICRO_STEPS, WEIGHT, WHOLE, ShareSpec
from core.nouns.workload import Blame, EndCause, Kind, WorkloadSpec
from core.rules.disruption_budget import USER

GIB = 1 << 30
GAP = "  "


BYTE_UNITS = ("B", "KB", "MB", "GB", "TB", "PB", "EB")


def time_text(nanoseconds: int) -> str:
    """A span as squeue writes it: `0:07`, `1:02:03`, `2-01:02:03`."""
    seconds = max(0, nanoseconds) // SECOND
    days, seconds = divmod(seconds, 86_400)
    hours, seconds = divmod(seconds, 3_600)
    minutes, seconds = divmod(seconds, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def instant_text(at: int) -> str:
    """An instant in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(at // SECOND, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % SECOND // MILLISECOND:03}Z"


def gpus_text(gpu_milli: int) -> str:
    """So many devices."""
    return f"{gpu_milli / MILLI:g}"


def bytes_text(count: int) -> str:
    """Bytes in thousands, three digits: `565MB`."""
    amount, unit = float(count), 0
    while amount >= 999.5 and unit < len(BYTE_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.3g}{BYTE_UNITS[unit]}"


def amount_text(amount: Amount) -> str:
    """What is in it, and nothing else."""
    return like_text(amount, amount) or "nothing"


def like_text(amount: Amount, like: Amount) -> str:
    """Of an amount, the resources that something like this needs, none of them too."""
    parts = []
    if like.gpu_milli:
        parts.append(f"{gpus_text(amount.gpu_milli)} GPUs")
    if like.cpu_milli:
        parts.append(f"{amount.cpu_milli / MILLI:g} CPUs")
    if like.memory_bytes:
        parts.append(f"{amount.memory_bytes / GIB:.4g} GiB")
    return ", ".join(parts)


def control_text(spec: WorkloadSpec) -> str:
    """Who must agree before its tasks are touched, how many at once, and whether they may outlive their region's sight."""
    control = spec.control
    parts = [f"controller {control.controller} decides" if control.controller else "no controller"]
    if spec.kind == Kind.SERVICE:
        at_once = str(control.unavailable_max) if control.unavailable_max else "a tenth"
        parts.append(f"at most {at_once} of a job's tasks down at once")
    if control.is_strict:
        parts.append(f"stops by itself after {time_text(control.isolation)} without contact")
    return ", ".join(parts)


def share_text(share: ShareSpec) -> str:
    """Return what a job of a shared pool told: its model, speeds and steps, and what else is not as it is for everybody."""
    parts = [f"model {share.model}"] if share.model else []
    parts += [f"{speed / MICRO_STEPS:g} steps/s on {name}" for name, speed in share.speeds.items()]
    parts += [f"{share.steps} steps"] if share.steps else []
    parts += [f"weight {share.weight / WEIGHT:g}"]
    parts += [f"entity {share.entity}"] if share.entity else []
    parts += [f"to be done within {time_text(share.within)}"] if share.within else []
    parts += [f"keeps {part / WHOLE:g} beside {model}" for model, part in share.beside.items()]
    return ", ".join(parts)


def nodes_text(region: str, runs: Sequence[tuple[int, int]]) -> str:
    """Nodes of a region as Slurm writes a list of hosts: `eu-7`, `eu-[0-3,7]`."""
    if not runs:
        return region
    if len(runs) == 1 and runs[0][0] == runs[0][1]:
        return f"{region}-{runs[0][0]}"
    return f"{region}-[{numbers_text(runs)}]"


def conflict_text(region: str, tries: int, conflict: str, nodes: Sequence[int]) -> str:
    """What came of claims before an award was given back: `, after 10 tries, the last met conflict on eu-[0,3]`; or nothing."""
    if not tries:
        return ""
    text = f", after {tries} {'try' if tries == 1 else 'tries'}"
    if conflict:
        where = f" on {nodes_text(region, runs_of(nodes))}" if nodes else ""
        text += f", the last met {conflict}{where}"
    return text


def numbers_text(runs: Sequence[tuple[int, int]]) -> str:
    """Runs of numbers: `0-3,7`."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


BLAMES = {Blame.NOBODY: "", Blame.USER: "yours", Blame.PLANNED: "planned", Blame.UNPLANNED: "unplanned"}
"""Whose doing an end was, for whoever owns the work."""


def blame_text(cause: str, asked_by: str = "") -> str:
    """`yours`, `planned` or `unplanned`; empty for what is nobody's, and for what is no cause of an end.

    To move is what a user asks for, or a rebalancer: `asked_by` tells.
    """
    if cause == EndCause.MOVED and asked_by.startswith(USER):
        return BLAMES[Blame.USER]
    return BLAMES[EndCause(cause).blame] if cause in set(EndCause) else ""


def asker_text(cause: str, asked_by: str) -> str:
    """Who asked for it, of a cause that does not say: a user by their name, a component by its own; empty if that is not known."""
    return asked_by.removeprefix(USER) if cause == EndCause.MOVED else ""


def cause_text(cause: str, asked_by: str = "") -> str:
    """A cause, and whose doing it was: `drained (planned)`, `moved (yours: ada@desk asked for it)`."""
    blame, who = blame_text(cause, asked_by), asker_text(cause, asked_by)
    because = f"{blame}: {who} asked for it" if who else blame
    return f"{cause} ({because})" if because else cause


def columns_text(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    width: int | None = None,
    right: Iterable[str] = (),
) -> list[str]:
    """A table's lines. `right` names columns of figures. A line that is wider than `width` is cut."""
    cells = [[str(cell) for cell in row] for row in rows]
    rights = [column in set(right) for column in columns]
    widths = [max(len(line[at]) for line in [list(columns), *cells]) for at in range(len(columns))]
    lines = []
    for line in [list(columns), *cells]:
        padded = [
            text.rjust(size) if is_right else text.ljust(size)
            for text, size, is_right in zip(line, widths, rights, strict=True)
        ]
        lines.append(_cut(GAP.join(padded).rstrip(), width))
    return lines


def _cut(line: str, width: int | None) -> str:
    return line if width is None or len(line) <= width else f"{line[: max(0, width - 1)]}…"
