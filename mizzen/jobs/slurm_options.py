"""The options that a script's `#SBATCH` lines may hold, as Slurm's sbatch names them, and what becomes of each here."""

import shlex
from collections.abc import Iterator

from msgspec import Struct

from mizzen.jobs.section import nearest
from runtime.yaml_tree import Place, Problem, shown

TAKEN = {
    "account": "A", "chdir": "D", "cpus-per-task": "c", "export": "", "gpus": "G", "gpus-per-node": "",
    "gpus-per-task": "", "gres": "", "job-name": "J", "mem": "", "mem-per-cpu": "", "mem-per-gpu": "", "nodes": "N",
    "ntasks": "n", "ntasks-per-node": "", "requeue": "", "signal": "", "time": "t",
}  # fmt: skip
"""Each with its letter. What they become is in mizzen/jobs/script.py."""

OUTPUT = "`mizzen logs` shows what a task writes"
NO_MAIL = "Mizzen sends no mail"
IGNORED = {
    "comment": ("", "Mizzen does not read it"),
    "error": ("e", OUTPUT),
    "mail-type": ("", NO_MAIL),
    "mail-user": ("", NO_MAIL),
    "open-mode": ("", OUTPUT),
    "output": ("o", OUTPUT),
    "parsable": ("", "only the id is printed anyway"),
    "partition": ("p", "Mizzen has no partitions, and finds nodes of the type that is asked for"),
    "qos": ("q", "Mizzen has levels of priority; say `#MIZZEN --priority 0` to 6"),
    "quiet": ("Q", "only the id is printed anyway"),
    "verbose": ("v", "only the id is printed anyway"),
}
"""Left out without harm; each is told, with the reason."""

REFUSED = {
    "array": ("a", "arrays are not supported yet; submit each index by itself"),
    "begin": ("b", "a time to begin is not supported yet; hold the workload and release it"),
    "constraint": ("C", "features of nodes are not supported; name the GPU type, as in --gres=gpu:H100:8"),
    "dependency": ("d", "dependencies are not supported yet"),
    "exclude": ("x", "nodes cannot be chosen by name"),
    "exclusive": ("", "a node cannot be asked for as such; ask for all of its GPUs"),
    "licenses": ("L", "licenses are not supported"),
    "nice": ("", "say `#MIZZEN --priority 0` to 6"),
    "no-requeue": ("", "a workload that loses its node is always started again"),
    "nodelist": ("w", "nodes cannot be chosen by name"),
    "ntasks-per-gpu": ("", "say --gpus-per-task"),
    "reservation": ("", "reservations are not supported yet"),
    "time-min": ("", "a shortest time is not supported; say --time"),
}
"""What cannot be given and must not be left out silently; each with what to do."""

FLAGS = frozenset({"requeue", "no-requeue", "parsable", "quiet", "verbose"})
"""Options without a value."""
LOOSE = frozenset({"exclusive", "nice"})
"""Options whose value, if they have one, is joined to them by `=`."""

_LONG = {
    letter: name
    for name, letter in (
        *TAKEN.items(),
        *((name, letter) for table in (IGNORED, REFUSED) for name, (letter, _) in table.items()),
    )
    if letter
}
_KNOWN = (*TAKEN, *IGNORED, *REFUSED)


class Option(Struct, frozen=True):
    """One option of one line."""

    name: str
    value: str
    place: Place

    def problem(self, text: str) -> Problem:
        """Something is wrong with it."""
        return Problem(self.place, f"--{self.name}", text)


def words_of(line: str, begin: int, place: Place) -> tuple[list[tuple[str, Place]], Problem | None]:
    """A line's words behind its first `begin` characters, as a shell would take them; a comment ends them."""
    lexer = shlex.shlex(line[begin:], posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[tuple[str, Place]] = []
    column = begin
    try:
        for word in lexer:
            if word.startswith("#"):
                break
            column = max(line.find(word, column), column)
            found.append((word, Place(place.source, place.line, column + 1)))
    except ValueError:
        return found, Problem(place, "", "a quotation mark is not closed on this line")
    return found, None


def slurm_options(words: list[tuple[str, Place]], problems: list[Problem]) -> Iterator[Option]:
    """What these words of one line ask for; what cannot be understood is told and passed over."""
    waiting = list(reversed(words))
    while waiting:
        word, place = waiting.pop()
        name, sign, value = word.partition("=")
        if word.startswith("--"):
            name = name[2:]
        elif word.startswith("-") and len(word) > 1:
            name, value = _LONG.get(word[1], word[1]), word[2:].removeprefix("=")
            sign = value
        else:
            problems.append(Problem(place, "", f"{shown(word)} belongs to no option"))
            continue
        if name not in _KNOWN:
            hint = nearest(name, _KNOWN)
            text = f"unknown option {shown(word.partition('=')[0])}" + (
                f"; did you mean --{hint}?" if hint else ""
            )
            problems.append(Problem(place, "", text))
            # Its value, if it has one, is no option of its own.
            while waiting and not sign and not waiting[-1][0].startswith("-"):
                waiting.pop()
            continue
        if not sign and name not in FLAGS | LOOSE:
            if not waiting or waiting[-1][0].startswith("--"):
                problems.append(Problem(place, f"--{name}", "it has no value"))
                continue
            value = waiting.pop()[0]
        yield Option(name, value, place)
