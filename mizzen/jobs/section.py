"""Reading one mapping of a job file: known fields become values, and everything that is wrong is told with its place.

A field that cannot be read is told and gets a stand-in, so that the rest of the file can still be looked at.
"""

import difflib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from mizzen.jobs.values import Unreadable
from runtime.yaml_tree import Fields, Listing, Problem, Text, Tree, shown, within

Value = TypeVar("Value")

ELSEWHERE = {
    "accelerators": "resources.gpus",
    "account": "tenant",
    "cmd": "run",
    "command": "run",
    "cpus": "resources.cpus",
    "depends_on": "after",
    "environment": "env",
    "envs": "env",
    "gpus": "resources.gpus",
    "grace": "checkpoint.grace",
    "memory": "resources.memory",
    "num_nodes": "nodes",
    "project": "tenant",
    "queue": "tenant",
    "replicas": "tasks",
    "script": "run",
    "time": "max_duration",
    "timeout": "max_duration",
    "workdir": "directory",
    "working_dir": "directory",
}
"""What other schedulers call it, or where it would be expected."""


class JobFileError(Exception):
    """A job file that cannot be submitted."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(set(problems))
        """All of them, in the order of the file."""
        super().__init__("; ".join(str(problem) for problem in self.problems))


class Section:
    """One mapping, what it is called in the whole file, and where to tell what is wrong with it."""

    def __init__(
        self, fields: Fields, problems: list[Problem], path: str = "", known: Collection[str] | None = None
    ) -> None:
        """Fields that are not known are told at once; if no known ones are named, any may be there."""
        self.fields = fields
        self.problems = problems
        self.path = path
        for name, place in fields.keys.items():
            if known is not None and name not in known:
                problems.append(Problem(place, path, _unknown(name, known)))

    def __contains__(self, name: str) -> bool:
        return name in self.fields.entries

    def read(self, name: str, read: Callable[[Tree], Value], stand_in: Value) -> Value:
        """A field's value, or the stand-in if it is not there or cannot be read."""
        tree = self.fields.entries.get(name)
        return stand_in if tree is None else self._value(tree, within(self.path, name), read, stand_in)

    def items(self, name: str, read: Callable[[Tree], Value]) -> tuple[Value, ...]:
        """Those items of a list that can be read."""
        found: list[Value] = []
        nothing: tuple[Tree, ...] = ()
        for index, tree in enumerate(self.read(name, as_items, nothing)):
            value = self._value(tree, f"{within(self.path, name)}[{index}]", read, None)
            found += [] if value is None else [value]
        return tuple(found)

    def values(self, read: Callable[[Tree], Value], stand_in: Value) -> dict[str, Value]:
        """All fields of a mapping whose names are free."""
        return {name: self.read(name, read, stand_in) for name in self.fields.entries}

    def section(self, name: str, known: Collection[str] | None = None) -> "Section | None":
        """A mapping within it, if it is there and is one."""
        fields = self.read(name, as_fields, None)
        return None if fields is None else Section(fields, self.problems, within(self.path, name), known)

    def missing(self, name: str, text: str) -> None:
        """A field that must be there is not."""
        self.problems.append(Problem(self.fields.place, within(self.path, name), f"it is missing; {text}"))

    def misplaced(self, name: str, text: str) -> None:
        """A field that is there must not be."""
        self.problems.append(Problem(self.fields.keys[name], within(self.path, name), text))

    def _value(self, tree: Tree, path: str, read: Callable[[Tree], Value], stand_in: Value) -> Value:
        try:
            return read(_something(tree))
        except Unreadable as error:
            self.problems.append(Problem(tree.place, path, str(error)))
            return stand_in


def one(read: Callable[[str], Value]) -> Callable[[Tree], Value]:
    """A reader of what is written as one value. Raises Unreadable."""
    return lambda tree: read(as_text(tree))


def as_text(tree: Tree) -> str:
    """A single value, as it was written. Raises Unreadable."""
    if isinstance(tree, Text):
        return tree.text
    raise Unreadable(f"it must be one value, and is a {'list' if isinstance(tree, Listing) else 'mapping'}")


def as_fields(tree: Tree) -> Fields:
    """A mapping. Raises Unreadable."""
    if isinstance(tree, Fields):
        return tree
    what = shown(tree.text) if isinstance(tree, Text) else "a list"
    raise Unreadable(f"it must be a mapping of fields, and is {what}")


def as_items(tree: Tree) -> tuple[Tree, ...]:
    """A list. Raises Unreadable."""
    if isinstance(tree, Listing):
        return tree.items
    hint = f"one value; write [{shown(tree.text)}]" if isinstance(tree, Text) else "a mapping"
    raise Unreadable(f"it must be a list, and is {hint}")


def as_yes_or_no(tree: Tree) -> bool:
    """True or false, as YAML 1.2 and JSON write them. Raises Unreadable."""
    text = as_text(tree)
    if text.lower() not in {"true", "false"}:
        raise Unreadable(f"{shown(text)} is neither true nor false")
    return text.lower() == "true"


def word_of(text: str, words: Sequence[str], what: str) -> str:
    """One of these words. Raises Unreadable."""
    if text in words:
        return text
    hint = nearest(text, words)
    named = f"did you mean {hint}?" if hint else f"there are {', '.join(words)}"
    raise Unreadable(f"{shown(text)} is no {what}; {named}")


def nearest(name: str, known: Collection[str]) -> str:
    """The known name that is nearest to this one; empty when none is near."""
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1)), "")


def _something(tree: Tree) -> Tree:
    if isinstance(tree, Text) and tree.is_nothing:
        raise Unreadable("it has no value")
    return tree


def _unknown(name: str, known: Collection[str]) -> str:
    """What to say of a field that is not known."""
    elsewhere = ELSEWHERE.get(name, "")
    hint = nearest(name, known) or (elsewhere if elsewhere.partition(".")[0] in known else "")
    called = f"'{name}'" if name == shown(name) else shown(name)
    return f"unknown field {called}" + (f"; did you mean '{hint}'?" if hint else "")
