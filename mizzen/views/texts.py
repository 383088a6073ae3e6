"""How figures, times and places look to people, and tables as plain columns: what `squeue` taught everybody to read."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from core.nouns.instant import MILLISECOND, SECOND
from core.nouns.quantities import MILLI, Amount

GIB = 1 << 30
GAP = "  "


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


def amount_text(amount: Amount) -> str:
    """What is in it, and nothing else."""
    parts = []
    if amount.gpu_milli:
        parts.append(f"{gpus_text(amount.gpu_milli)} GPUs")
    if amount.cpu_milli:
        parts.append(f"{amount.cpu_milli / MILLI:g} CPUs")
    if amount.memory_bytes:
        parts.append(f"{amount.memory_bytes / GIB:.4g} GiB")
    return ", ".join(parts) or "nothing"


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


def nodes_text(region: str, runs: Sequence[tuple[int, int]]) -> str:
    """Nodes of a region as Slurm writes a list of hosts: `eu-7`, `eu-[0-3,7]`."""
    if not runs:
        return region
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    if len(parts) == 1 and runs[0][0] == runs[0][1]:
        return f"{region}-{parts[0]}"
    return f"{region}-[{','.join(parts)}]"


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
