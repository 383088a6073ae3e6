"""The comparison of policies as a drawing: mean and 99th percentile of the hours to completion, and the makespan."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.plots import draw_bars
from mizzen.views.policies.comparison import Compared


def checked_path(path: Path) -> Path:
    """Return the path of a drawing. Raises CommandError, before anything is played, where none could be made."""
    if find_spec("matplotlib") is None:
        raise CommandError("--plot: matplotlib is not installed; it comes with the extra `plots`", MISUSED)
    if not path.absolute().parent.is_dir():
        raise CommandError(f"--plot: there is no folder {path.parent}; make it first", MISUSED)
    return path


def draw(found: Sequence[Compared], path: Path) -> None:
    """Write the drawing. Raises CommandError."""
    summaries = {one.policy: one.summary for one in found if one.summary is not None}
    bars = {
        "mean": [one.mean_hours for one in summaries.values()],
        "99th percentile": [one.p99_hours for one in summaries.values()],
        "makespan": [one.makespan_hours for one in summaries.values()],
    }
    text = draw_bars("completion times by policy", "", "hours", [_broken(name) for name in summaries], bars)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--plot: {path} cannot be written ({error})") from error


def _broken(name: str) -> str:
    """Return the name in lines of one word, as there are many names beside each other."""
    return name.replace("_", "\n")
