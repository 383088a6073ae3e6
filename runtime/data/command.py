"""The command that copies a dataset: an operator's, as the fleet file has it, or our own program.

An operator's command is split as a shell would, and run without one; `{source}`, `{target}` and `{rate}` (bytes a second) are replaced in
the words. Both paths are those of the dataset itself, a file or a directory, and the target's parent is there. An rsync of directories is
`rsync -a --bwlimit={rate}B host:{source}/ {target}/`. A command that is run again after a restart finds the files
of its run before.
"""

import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from bus.server import guarded

OWN = ("-P", "-m", "runtime.data.copier")
_PLACEHOLDER = re.compile(r"\{(source|target|rate)\}")


class CopyCommand:
    """A command that copies."""

    def __init__(self, template: str | Sequence[str] = "") -> None:
        """Without a template it is our own. Raises ValueError when the template's quotes do not match."""
        self._template = tuple(shlex.split(template) if isinstance(template, str) else template)

    @property
    def is_own(self) -> bool:
        """Return whether our own program copies."""
        return not self._template

    def words(self, source: Path, target: Path, rate: int) -> tuple[str, ...] | None:
        """Return the command for one copy, to be run as it is; None if its program is not there."""
        if self.is_own:
            return (sys.executable, *OWN, str(source), str(target), str(rate))
        values = {"source": str(source), "target": str(target), "rate": str(rate)}
        program, *rest = (_PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in self._template)
        found = shutil.which(program)
        return (*guarded(), str(Path(found).absolute()), *rest) if found is not None else None
