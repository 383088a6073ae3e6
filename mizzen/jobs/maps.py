"""A map in a job file: a function, a file of inputs and a directory for values become the program that runs `mizzen map`.

The program runs with the Mizzen of its node, whatever Python the task's environment has. It calls the function with the credentials that
the map names; without any it looks for a plane from the program's directory upwards.
"""

import re
import shlex
from collections.abc import Callable, Iterator

from mizzen.jobs.section import Section, one
from mizzen.jobs.values import Unreadable
from runtime.yaml_tree import Fields, Listing, Problem, Tree, shown, within

OF_MAP = ("function", "inputs", "outputs", "credentials")
CREDENTIALS = "credentials"
PYTHON_VARIABLE = "MIZZEN_PYTHON"
"""Names the interpreter with a node's own Mizzen to every task (runtime/tasks/environment.py)."""
STAND_IN = "x:x"
_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def run_of_map(section: Section, path_of: Callable[[Tree], str]) -> str:
    """Return what the task of a job with a map runs."""
    found = section.section("map", OF_MAP)
    if found is None:
        return "true"
    for name, text in (
        ("function", "say which, as in score:score, the module and the name of the function"),
        ("inputs", "name a file with one argument in JSON on each line"),
        ("outputs", "name a directory for the values"),
    ):
        if name not in found:
            found.missing(name, text)
    for name in ("tasks", "nodes"):
        if name in section and section.read(name, one(str), "1") != "1":
            section.misplaced(
                name, "a map is one task: its calls run on executors, as many at once as there is room for"
            )
    words = [found.read("function", one(target_of), STAND_IN)]
    for name, option in (("inputs", "--inputs"), ("outputs", "--out"), (CREDENTIALS, "--credentials")):
        if name in found:
            words += [option, found.read(name, path_of, "")]
    return f'exec "${PYTHON_VARIABLE}" -I -m mizzen map {shlex.join(words)}'


def target_of(text: str) -> str:
    """Return `module:name`. Raises Unreadable."""
    if not _TARGET.fullmatch(text):
        raise Unreadable(f"{shown(text)} is not of the form module:name; write for example score:score")
    return text


def maps_without_credentials(tree: Tree, path: str = "") -> Iterator[Problem]:
    """Yield a problem for each map of a file, of its jobs or of its stages that names no credentials."""
    if isinstance(tree, Listing):
        for index, item in enumerate(tree.items):
            yield from maps_without_credentials(item, f"{path}[{index}]")
        return
    if not isinstance(tree, Fields):
        return
    found = tree.entries.get("map")
    if isinstance(found, Fields) and CREDENTIALS not in found.entries:
        text = "it is missing; name a file of `mizzen tenants grant` that nodes see: the map calls its function from a node"
        yield Problem(found.place, within(within(path, "map"), CREDENTIALS), text)
    for name in ("jobs", "stages"):
        inner = tree.entries.get(name)
        if isinstance(inner, Fields):
            for key, part in inner.entries.items():
                yield from maps_without_credentials(part, within(within(path, name), key))
        elif inner is not None:
            yield from maps_without_credentials(inner, within(path, name))
