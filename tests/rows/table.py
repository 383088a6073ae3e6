"""The rows of the specifications' checklists, and who shows each: what `python -m tests.rows.make` writes to docs/results/rows.md.

A test shows a row when it would fail if the row were not so, and says that by the row's id: at the start of its docstring ("T11: only ...",
"T11, T19: ...", "T18 beside T21: ...") or in brackets anywhere in it ("(T25)"). A benchmark or a scenario says it by a comment of its
own line, `# rows: T25, E13`. Ids that stand elsewhere in a text mean nothing here: some are names of GPUs too.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, convert

from tests.sources import tree_of

HOUSE = Path(__file__).resolve().parents[2]
PAGE = HOUSE / "docs" / "results" / "rows.md"
ROWS = Path(__file__).with_name("rows.toml")

ID = r"(?:[A-BD-GI-Z]\d+|[CH]\d|[A-Z]-[A-Z]?\d+)"
_LEADING = re.compile(rf"{ID}(?:(?:, | and | beside ){ID})*(?=:)")
_BRACKETS = re.compile(rf"\({ID}(?:, {ID})*\)")
_COMMENT = re.compile(rf"^# rows: (?P<ids>{ID}(?:, {ID})*)$", re.MULTILINE)
_MEANT_AS_COMMENT = re.compile(r"^# rows:", re.MULTILINE)
_ID = re.compile(ID)

HEAD = """\
# The rows of the specifications, and what shows them

Mizzen is built from published systems; each of their checklists is a table here. A row counts as shown by a test that would fail if it were
not so, and that names it in its docstring; `bench/` and `scenarios/library/` name theirs in a comment. Most tests show no row: they are about
what the specifications leave open. `python -m tests.rows.make` writes this page from [tests/rows/rows.toml](../../tests/rows/rows.toml) and
the tests; `-` stands where nothing shows a row yet.
"""


class Checklist(Struct, frozen=True, forbid_unknown_fields=True):
    """One table of a specification."""

    title: str
    file: str
    heading: str
    rows: dict[str, tuple[str, str]]
    """By its id, each row's tier and what must be so."""
    prefix: str = ""
    """What is put before the number of a row that has no letter of its own."""


class Showing(Struct, frozen=True, order=True):
    """Something that says which rows it shows."""

    path: str
    name: str
    ids: tuple[str, ...]

    @property
    def label(self) -> str:
        """As pytest names it; of a benchmark or a scenario, its file."""
        return f"{self.path}::{self.name}" if self.name else self.path


def checklists() -> list[Checklist]:
    """All of them, in the order of the page."""
    return convert(tomllib.loads(ROWS.read_text()), dict[str, list[Checklist]])["checklists"]


def known_ids() -> list[str]:
    """Of all rows, in the order of the page."""
    return [row for checklist in checklists() for row in checklist.rows]


def ids_in_docstring(text: str) -> tuple[str, ...]:
    """The rows that a test's docstring names, in order, each once."""
    found = [match.group() for match in _BRACKETS.finditer(text)]
    leading = _LEADING.match(text)
    if leading is not None:
        found.insert(0, leading.group())
    return tuple(dict.fromkeys(_ID.findall(" ".join(found))))


def ids_in_comments(text: str) -> tuple[str, ...]:
    """The rows that the comments of a benchmark or a scenario name, in order, each once; one that cannot be read is an error."""
    found = [match["ids"] for match in _COMMENT.finditer(text)]
    if len(found) != len(_MEANT_AS_COMMENT.findall(text)):
        raise ValueError(
            "a `# rows:` comment names rows by their ids, with a comma and a blank between them, and nothing else"
        )
    return tuple(dict.fromkeys(_ID.findall(" ".join(found))))


def showings() -> list[Showing]:
    """Whoever names a row, by file and name."""
    tests = [showing for path in sorted((HOUSE / "tests").rglob("test_*.py")) for showing in _tests_in(path)]
    others = [*(HOUSE / "bench").rglob("*.py"), *(HOUSE / "scenarios" / "library").rglob("*.yaml")]
    comments = [Showing(_name(path), "", ids_in_comments(path.read_text())) for path in sorted(others)]
    return [showing for showing in [*tests, *comments] if showing.ids]


def page() -> str:
    """All of it."""
    lists, shown = checklists(), _by_id(showings())
    parts = [
        HEAD,
        "| specification | rows | shown | of them core | shown |\n|---|---|---|---|---|",
        *(
            _count(f"[{checklist.title}](#{_anchor(checklist.title)})", [checklist], shown)
            for checklist in lists
        ),
        _count("all", lists, shown),
    ]
    for checklist in lists:
        parts += [
            f"\n## {checklist.title}\n\n| row | what must be so | tier | shown by |\n|---|---|---|---|",
            *(
                f"| {row} | {text} | {tier or '-'} | {_links(shown.get(row, []))} |"
                for row, (tier, text) in checklist.rows.items()
            ),
        ]
    return "\n".join(parts) + "\n"


def ids_in_specification(text: str, checklist: Checklist) -> list[str]:
    """The ids of the rows that stand under a checklist's heading in its specification."""
    _, found, rest = text.partition(f"\n{checklist.heading}\n")
    if not found:
        return []
    section = re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]
    number = r"\d+" if checklist.prefix else ID
    starts = re.compile(rf"^(?:\| |\*\*)({number})(?=[ *])", re.MULTILINE)
    return [checklist.prefix + row for row in starts.findall(section)]


def _tests_in(path: Path) -> Iterator[Showing]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield Showing(_name(path), node.name, ids_in_docstring(ast.get_docstring(node) or ""))


def _by_id(found: list[Showing]) -> dict[str, list[Showing]]:
    by_id: dict[str, list[Showing]] = {}
    for showing in found:
        for row in showing.ids:
            by_id.setdefault(row, []).append(showing)
    return by_id


def _count(title: str, lists: list[Checklist], shown: dict[str, list[Showing]]) -> str:
    rows = [(row, tier) for checklist in lists for row, (tier, _) in checklist.rows.items()]
    core = [row for row, tier in rows if tier == "core"]
    figures = (len(rows), sum(row in shown for row, _ in rows), len(core), sum(row in shown for row in core))
    return f"| {title} | " + " | ".join(str(figure) for figure in figures) + " |"


def _links(found: list[Showing]) -> str:
    return ", ".join(f"[{_short(showing)}](../../{showing.path})" for showing in found) or "-"


def _short(showing: Showing) -> str:
    """Where it lies is in the link; names of tests tell the rest."""
    return f"`{showing.label.removeprefix('tests/')}`"


def _anchor(title: str) -> str:
    """As a page's headings are linked to."""
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def _name(path: Path) -> str:
    return path.relative_to(HOUSE).as_posix()
