"""YAML as a tree that knows where each part of it was written, so that whatever is wrong can be told with its line.

It is built from the parser's events, and what a scalar means is left to whoever reads the field: a time like `1:30:00`
stays as it was written, and `on` is no boolean. Text is never made into an object, an alias costs what it stands for, and
how much one file may hold has a ceiling.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import yaml
from msgspec import Struct
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

DEPTH_MAX = 20
PARTS_MAX = 20_000
"""Scalars, lists and mappings, those behind an alias counted each time. A job file has a few dozen."""
_MERGE = "<<"
_TEXT_TAGS = ("!", "tag:yaml.org,2002:str")
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_SHOWN_MAX = 60


def shown(text: str) -> str:
    """A value within a sentence: as it was written, unless that would be long or hard to see."""
    if not text or not text.isprintable() or text != text.strip():
        text = repr(text)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 3]}..."


class Place(Struct, frozen=True, order=True):
    """Where something was written; without a line it is an option of the command line."""

    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


class Problem(Struct, frozen=True, order=True):
    """What is wrong with one field."""

    place: Place
    field: str
    """Its path, as in `jobs[1].resources.gpus`; empty: the whole."""
    text: str

    def __str__(self) -> str:
        field = self.field if self.field.isprintable() else repr(self.field)
        return f"{self.place}: {field}: {self.text}" if field else f"{self.place}: {self.text}"


class Text(Struct, frozen=True):
    """A scalar, as it was written."""

    place: Place
    text: str
    is_nothing: bool = False
    """Nothing was written, or that there is nothing (`null`, `~`)."""


class Listing(Struct, frozen=True):
    """A list."""

    place: Place
    items: tuple["Tree", ...]


class Fields(Struct, frozen=True):
    """A mapping."""

    place: Place
    entries: dict[str, "Tree"]
    keys: dict[str, Place]
    """Where each key stands."""


Tree = Text | Listing | Fields


class _Stop(Exception):
    """Nothing can be made of the rest; the problem says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def read_yaml(text: str, source: str, at: Place | None = None) -> tuple[Tree | None, list[Problem]]:
    """The tree of one document, if there is one, and all that is wrong with how it is written.

    All of it is said to stand `at` a place, if one is given: what comes from the command line has no lines.
    """
    builder = _Builder(text, source, at)
    try:
        return builder.document(), builder.problems
    except _Stop as stop:
        return None, [*builder.problems, stop.problem]


def within(path: str, name: str) -> str:
    """What a field of a mapping at this path is called."""
    return f"{path}.{shown(name)}" if path else shown(name)


def fields_of(entries: dict[str, Tree], place: Place) -> Fields:
    """A mapping whose keys stand where their values do."""
    return Fields(place, entries, {name: tree.place for name, tree in entries.items()})


def with_fields(fields: Fields, changes: Iterable[tuple[str, Tree]], problems: list[Problem]) -> Fields:
    """The same mapping with these values at these paths, one after the other. A path that leads nowhere is told."""
    for path, tree in changes:
        try:
            fields = with_field(fields, path, tree)
        except LookupError:
            problems.append(Problem(tree.place, path, "there is no such field"))
    return fields


def with_field(fields: Fields, path: str, value: Tree) -> Fields:
    """The same mapping with another value at a path like `resources.gpus`. Raises LookupError when that leads nowhere."""
    name, _, rest = path.partition(".")
    if not name:
        raise LookupError(path)
    if rest:
        value = _within(fields.entries.get(name, fields_of({}, value.place)), rest, value)
    keys = {**fields.keys, name: fields.keys.get(name, value.place) if rest else value.place}
    return Fields(fields.place, {**fields.entries, name: value}, keys)


def _within(tree: Tree, path: str, value: Tree) -> Tree:
    """A part with another value somewhere in it; of a list by number."""
    if isinstance(tree, Fields):
        return with_field(tree, path, value)
    name, _, rest = path.partition(".")
    if isinstance(tree, Text) or not name.isdecimal() or len(name) > 6 or int(name) >= len(tree.items):
        raise LookupError(name)
    index = int(name)
    item = _within(tree.items[index], rest, value) if rest else value
    return Listing(tree.place, (*tree.items[:index], item, *tree.items[index + 1 :]))


class _Builder:
    """One document on its way from events to a tree."""

    def __init__(self, text: str, source: str, at: Place | None) -> None:
        self.problems: list[Problem] = []
        self._text = text
        self._source = source
        self._at = at
        self._events = self._parsed()
        self._anchors: dict[str, tuple[Tree, int] | None] = {}
        """What each stands for and how many parts that has; None while it is still being read."""
        self._parts = 0

    def document(self) -> Tree:
        """The one document. Raises _Stop."""
        assert isinstance(next(self._events), StreamStartEvent)
        start = next(self._events)
        if isinstance(start, StreamEndEvent):
            raise self._stop(start, "it is empty")
        tree = self._tree(next(self._events), 0, "")
        next(self._events)  # The document's end.
        more = next(self._events)
        if isinstance(more, DocumentStartEvent):
            raise self._stop(more, "a second document begins here; each needs a file of its own")
        return tree

    def _tree(self, event: Event, depth: int, path: str) -> Tree:
        assert isinstance(event, NodeEvent), event
        self._parts += 1
        if depth > DEPTH_MAX:
            raise self._stop(event, f"it is nested more than {DEPTH_MAX} deep")
        if isinstance(event, AliasEvent):
            return self._aliased(event)
        begun = self._parts
        if event.anchor:
            self._anchors[event.anchor] = None
        tree = self._made(event, depth, path)
        if self._parts > PARTS_MAX:
            raise self._stop(event, f"it has more than {PARTS_MAX} parts")
        if event.anchor:
            self._anchors[event.anchor] = (tree, self._parts - begun + 1)
        return tree

    def _made(self, event: NodeEvent, depth: int, path: str) -> Tree:
        tag = getattr(event, "tag", None)
        if tag is not None and not (isinstance(event, ScalarEvent) and tag in _TEXT_TAGS):
            self._problem(event, path, "tags like !name are not known here")
        place = self._place(event.start_mark)
        if isinstance(event, ScalarEvent):
            is_plain = event.style is None and tag is None
            return Text(place, self._sound(event, path), is_plain and event.value in _NOTHING)
        if isinstance(event, SequenceStartEvent):
            items: list[Tree] = []
            while not isinstance(part := next(self._events), SequenceEndEvent):
                items.append(self._tree(part, depth + 1, f"{path}[{len(items)}]"))
            return Listing(place, tuple(items))
        assert isinstance(event, MappingStartEvent), event
        return self._mapping(place, depth, path)

    def _mapping(self, place: Place, depth: int, path: str) -> Fields:
        """Own fields go before those that are merged in, wherever they stand."""
        own = Fields(place, {}, {})
        merged: list[Fields] = []
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._tree(event, depth + 1, path)
            called = within(path, key.text) if isinstance(key, Text) else path
            value = self._tree(next(self._events), depth + 1, called)
            if not isinstance(key, Text):
                self.problems.append(Problem(key.place, path, "the name of a field must be plain text"))
            elif key.text == _MERGE:
                merged.extend(self._merged(key.place, value, called))
            elif key.text in own.entries:
                first = own.keys[key.text].line
                self.problems.append(Problem(key.place, called, f"it is there twice; first on line {first}"))
            else:
                own.entries[key.text] = value
                own.keys[key.text] = key.place
        for other in merged:
            for name, value in other.entries.items():
                own.entries.setdefault(name, value)
                own.keys.setdefault(name, other.keys[name])
        return own

    def _merged(self, place: Place, value: Tree, path: str) -> list[Fields]:
        """What stands behind `<<`: a mapping, or several."""
        trees = value.items if isinstance(value, Listing) else (value,)
        found = [tree for tree in trees if isinstance(tree, Fields)]
        if len(found) != len(trees):
            self.problems.append(Problem(place, path, "only a mapping can be merged in"))
        return found

    def _aliased(self, event: AliasEvent) -> Tree:
        if event.anchor not in self._anchors:
            raise self._stop(event, f"there is no anchor &{event.anchor} before this")
        known = self._anchors[event.anchor]
        if known is None:
            raise self._stop(event, f"&{event.anchor} would hold itself")
        tree, parts = known
        self._parts += parts
        return tree

    def _sound(self, event: ScalarEvent, path: str) -> str:
        """A text that can be sent: an escape may write half of a character."""
        value: str = event.value
        try:
            value.encode()
        except UnicodeEncodeError:
            self._problem(event, path, "half of a character cannot be part of a text")
            return value.encode(errors="replace").decode()
        return value

    def _parsed(self) -> Iterator[Event]:
        """The parser's events. Raises _Stop."""
        try:
            yield from yaml.parse(self._text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            raise _Stop(self._unparsed(error)) from error
        except yaml.reader.ReaderError as error:
            before = self._text[: error.position]
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            place = self._at or Place(self._source, line, column)
            raise _Stop(
                Problem(place, "", f"character {error.character:#x} is not allowed in YAML")
            ) from error
        except (ValueError, OverflowError) as error:
            # An escape or a version number that no character or number belongs to: the parser does not look before.
            raise _Stop(
                Problem(self._at or Place(self._source, 1, 1), "", f"it is not YAML: {error}")
            ) from error

    def _unparsed(self, error: yaml.MarkedYAMLError) -> Problem:
        said = [part for part in (error.problem, error.context) if part]
        return Problem(self._place(error.problem_mark), "", f"it is not YAML: {' '.join(said)}")

    def _place(self, mark: Any) -> Place:  # Any: a mark of either parser, or none
        if self._at is not None:
            return self._at
        return Place(self._source, mark.line + 1, mark.column + 1) if mark else Place(self._source, 1, 1)

    def _problem(self, event: Event, path: str, text: str) -> None:
        self.problems.append(Problem(self._place(event.start_mark), path, text))

    def _stop(self, event: Event, text: str) -> _Stop:
        return _Stop(Problem(self._place(event.start_mark), "", text))
