"""A script as a job file: its `#SBATCH` and `#MIZZEN` lines become fields, and its text is what each task runs.

Lines are read as sbatch reads them: up to the first command. `#MIZZEN --FIELD VALUE` sets any field of a job file, and goes
before what Slurm's options ask for.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct

from mizzen.jobs.slurm_fields import SlurmFields
from mizzen.jobs.slurm_options import IGNORED, REFUSED, Option, slurm_options, words_of
from runtime.yaml_tree import Fields, Place, Problem, Text, Tree, fields_of, read_yaml, shown, with_fields

SLURM = "#SBATCH"
OURS = "#MIZZEN"
SHORT = {"cpus": "resources.cpus", "gpus": "resources.gpus", "memory": "resources.memory"}
"""What may be said shorter in a line of ours, and behind `--set`."""

_PLAIN = (["/bin/sh"], ["/usr/bin/sh"])
_SHELL = re.compile(r"(?:ba|da|k|z|a)?sh")
_INTERPRETERS = {"-c": re.compile(rf"{_SHELL.pattern}|python[0-9.]*"), "-e": re.compile(r"perl|ruby|node")}
"""How each takes a program as an argument."""
_SRUN = re.compile(r"\s*(?:exec\s+)?srun\b")


class Around(Struct, frozen=True):
    """What a script is not told by its own text."""

    source: str
    """What its lines are told as lines of."""
    name: str
    """Unless it says another."""
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    """From which `--export=NAME` takes."""
    changed: Sequence[str] = ()
    """Paths of fields that are set from outside, whatever it says."""


class Script(Struct, frozen=True):
    """The fields that a script stands for, what is wrong with its lines, and what is not as its author may think."""

    fields: Fields
    problems: list[Problem]
    notes: list[str]


def is_script(text: str) -> bool:
    """Whether it begins as scripts do: with an interpreter, or with lines for a scheduler."""
    return text.startswith("#!") or bool(_headers(text))


def read_script(text: str, around: Around) -> Script:
    """The fields of a script."""
    source, top = around.source, Place(around.source, 1, 1)
    problems: list[Problem] = []
    options: dict[str, Option] = {}
    ours: list[tuple[str, Tree]] = []
    for number, prefix, line in _headers(text):
        words, problem = words_of(line, len(prefix), Place(source, number, 1))
        if problem is not None:
            problems.append(problem)
        elif prefix == OURS:
            ours += _ours(words, problems)
        else:
            # Of two that say the same, the later holds, as with Slurm.
            options |= {option.name: option for option in slurm_options(words, problems)}
    settled = [*around.changed, *(path for path, _ in ours)]
    has_gpus = "resources" in settled or "resources.gpus" in settled
    asked = SlurmFields(options, around.environment, top, has_gpus=has_gpus)
    problems += [option.problem(REFUSED[name][1]) for name, option in options.items() if name in REFUSED]
    problems += asked.problems
    notes = [
        f"{option.place}: --{name} is left out: {IGNORED[name][1]}"
        for name, option in options.items()
        if name in IGNORED
    ]
    run = _command(text, around, problems)
    fields = fields_of(
        {"name": Text(top, around.name), "run": Text(top, run), "slurm_env": Text(top, "true")}, top
    )
    fields = with_fields(fields, (*asked.found, *ours), problems)
    return Script(fields, problems, [*notes, *asked.notes, *_surprises(text, source)])


def _headers(text: str) -> list[tuple[int, str, str]]:
    """The lines for a scheduler before the first command: their numbers, whose they are, and the lines."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        found += [(number, prefix, line) for prefix in (SLURM, OURS) if re.match(rf"{prefix}\s", line)]
    return found


def _ours(words: list[tuple[str, Place]], problems: list[Problem]) -> list[tuple[str, Tree]]:
    """The fields that a line of ours sets."""
    found: list[tuple[str, Tree]] = []
    waiting = list(reversed(words))
    while waiting:
        word, place = waiting.pop()
        name, sign, value = word.partition("=")
        if not re.fullmatch(r"--[a-z_]+(\..+)?", name):
            problems.append(Problem(place, "", f"{shown(word)} is not of the form --FIELD VALUE"))
            continue
        path = SHORT.get(name[2:], name[2:])
        if not sign:
            if not waiting or waiting[-1][0].startswith("--"):
                problems.append(Problem(place, path, "it has no value"))
                continue
            value = waiting.pop()[0]
        tree, wrong = read_yaml(value, place.source, at=place)
        problems += wrong
        found += [] if tree is None else [(path, tree)]
    return found


def _command(text: str, around: Around, problems: list[Problem]) -> str:
    """What `/bin/sh -c` is to be given, so that the script runs under the interpreter that it names."""
    top = Place(around.source, 1, 1)
    first = text.partition("\n")[0]
    if "\r\n" in text:
        text_of_problem = "its lines end as on Windows, which no shell understands; `dos2unix` mends that"
        problems.append(Problem(top, "", text_of_problem))
        return text
    try:
        words = shlex.split(first[2:]) if first.startswith("#!") else _PLAIN[0]
    except ValueError:
        words = []
    if words in _PLAIN:
        return with_arguments(text, around.arguments)
    interpreter = next(iter(_programs(words)), "")
    for option, known in _INTERPRETERS.items():
        if known.fullmatch(interpreter):
            # A shell takes the word behind its program for the program's own name.
            called = [around.name] if _SHELL.fullmatch(interpreter) else []
            return f"exec {shlex.join([*words, option, text, *called, *around.arguments])}"
    text_of_problem = f"{shown(first)}: how to run that is not known; let a shell script start it"
    problems.append(Problem(top, "", text_of_problem))
    return text


def with_arguments(run: str, arguments: Sequence[str]) -> str:
    """The same text for a shell, which finds these as `$1`, `$2` and so on."""
    return f"set -- {shlex.join(arguments)}\n{run}" if arguments else run


def _programs(words: Sequence[str]) -> list[str]:
    """The names of the programs in a line that names an interpreter, without `env` and what is meant for it."""
    names = [PurePath(word).name for word in words if not word.startswith("-") and "=" not in word]
    return names[1:] if names[:1] == ["env"] else names[:1]


def _surprises(text: str, source: str) -> list[str]:
    """What works with Slurm and not here, without being wrong."""
    found = []
    last = max((number for number, _, _ in _headers(text)), default=0)
    for number, line in enumerate(text.split("\n"), 1):
        if number > last and line.startswith(f"{SLURM} "):
            found.append(f"{source}:{number}: {SLURM} lines behind the first command are not read")
            break
    for number, line in enumerate(text.split("\n"), 1):
        if _SRUN.match(line):
            found.append(
                f"{source}:{number}: there is no srun here; the script itself runs once for each task"
            )
            break
    return found
