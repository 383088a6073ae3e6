"""Where a job comes from, a file or standard input, and the fields that its text stands for: a job file's or a script's."""

import re
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from core.nouns.limits import NAME_LENGTH_MAX
from mizzen.jobs.script import SHORT, Around, is_script, read_script
from mizzen.jobs.section import JobFileError
from runtime.yaml_tree import Fields, Place, Problem, Text, Tree, read_yaml, shown

STDIN = "-"
BYTES_MAX = 1 << 20
"""Of a job file or script. A workload may have an eighth of that; the rest is comments."""
OF_JOB_FILES = (".yaml", ".yml", ".json")
OF_SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm")


class Source(Struct, frozen=True):
    """A text, and what its lines are told as lines of."""

    name: str
    text: str
    path: str = ""
    """Empty: standard input."""


class Sheet(Struct, frozen=True):
    """What a source says: its fields, what is wrong with how they are written, and what is not as it may seem."""

    fields: Fields
    problems: list[Problem]
    notes: list[str] = []
    arguments: tuple[str, ...] = ()
    """Of a job file, whose `run` asks for them; a script's are part of it."""


def read_source(path: str) -> Source:
    """The text of a file, or of standard input if the path is `-`. Raises JobFileError, and OSError when it cannot be read."""
    name = "stdin" if path == STDIN else path
    if path != STDIN:
        found = Path(path).stat()
        if stat.S_ISDIR(found.st_mode):
            raise _unusable(name, "it is a directory; name a job file in it")
        if found.st_size > BYTES_MAX:
            raise _unusable(name, f"it has {found.st_size} bytes, and a job file may have {BYTES_MAX}")
    # No pipe tells its size before.
    if path == STDIN:
        data = sys.stdin.buffer.read(BYTES_MAX + 1)
    else:
        with Path(path).open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise _unusable(name, f"it has more than {BYTES_MAX} bytes, which a job file may have")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unusable(name, "it is not text; name a job file or a script") from error
    if "\0" in text:
        raise _unusable(name, "it is not text; name a job file or a script")
    return Source(name, text, "" if path == STDIN else path)


def sheet_of(
    source: Source,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    changed: Sequence[str] = (),
) -> Sheet:
    """The fields of a source. Raises JobFileError when there are none.

    arguments    what follows `--`, for what is run
    environment  from which a script may name variables to be sent
    changed      paths of fields that the command line sets, and the source need not
    """
    suffix = Path(source.path).suffix.lower()
    if suffix in OF_SCRIPTS or (suffix not in OF_JOB_FILES and is_script(source.text)):
        around = Around(source.name, _name_of(source), arguments, environment or {}, changed)
        script = read_script(source.text, around)
        return Sheet(script.fields, script.problems, script.notes)
    if suffix and suffix not in OF_JOB_FILES:
        text = "it is neither a job file (.yaml) nor a script that begins with #! or #SBATCH lines"
        raise _unusable(source.name, text)
    tree, problems = read_yaml(source.text, source.name)
    if isinstance(tree, Text) and tree.is_nothing:
        problems.append(Problem(tree.place, "", "it is empty"))
    elif tree is not None and not isinstance(tree, Fields):
        problems.append(Problem(tree.place, "", "it must be a mapping of fields, such as `name: train`"))
    if not isinstance(tree, Fields):
        raise JobFileError(problems)
    return Sheet(tree, problems, arguments=tuple(arguments))


def read_settings(settings: Sequence[str], problems: list[Problem]) -> list[tuple[str, Tree]]:
    """The paths and values of settings like `resources.gpus=H100:4`, whose values are YAML."""
    found: list[tuple[str, Tree]] = []
    for setting in settings:
        name, sign, value = setting.partition("=")
        place = Place(f"--set {shown(name)}")
        tree, wrong = read_yaml(value, place.source, at=place)
        problems += wrong if sign else [Problem(place, "", "it is not of the form FIELD=VALUE")]
        found += [(SHORT.get(name, name), tree)] if tree is not None and sign else []
    return found


def _unusable(name: str, text: str) -> JobFileError:
    return JobFileError([Problem(Place(name), "", text)])


def _name_of(source: Source) -> str:
    """What a script is called unless it says so: as its file."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", Path(source.path).name).lstrip("._-")
    return name[:NAME_LENGTH_MAX] or "stdin"
