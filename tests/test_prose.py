"""Docstrings, comments and documents name what acts: each folder keeps to a ceiling of the words that hide it.

Counts are per 1,000 words: `who` (who, whom, whose, whoever), `what` (what, whatever), `it` (it, its) and `any` (nobody, everything and
their like); `opens` is the percentage of docstrings that open with a word which has no subject of its own. A ceiling may only fall.
"""

import ast
import io
import re
import tokenize
from pathlib import Path
from typing import NamedTuple

import pytest

HOUSE = Path(__file__).resolve().parents[1]
WORDS = {
    "who": {"who", "whom", "whose", "whoever"},
    "what": {"what", "whatever"},
    "it": {"it", "its"},
    "any": {"nobody", "somebody", "anybody", "everybody", "nothing", "anything", "everything", "none"},
}
OPENS = re.compile(
    r"(Of|And|What|Whatever|Whether|Who|Whom|Whoever|Those|These|By|From|It|Its|Nor|So|The same|Their|They)\b"
)


class Ceiling(NamedTuple):
    """The most of each in a folder's prose."""

    who: float
    what: float
    it: float
    any: float
    opens: float = 100.0


CEILINGS = {
    "bench": Ceiling(3.7, 18.8, 28.1, 8.6, 27.5),
    "bus": Ceiling(11.5, 17.6, 45.1, 16.3, 18.8),
    "components": Ceiling(1.0, 1.0, 14.0, 3.5, 2.0),
    "core/ranking": Ceiling(1.0, 1.0, 10.0, 4.0, 2.0),
    "core/rules": Ceiling(1.0, 1.0, 10.0, 3.0, 2.0),
    "core/placing": Ceiling(1.0, 1.0, 10.0, 4.0, 2.0),
    "core": Ceiling(1.4, 8.6, 26.0, 6.0, 20.0),
    "mizzen": Ceiling(5.6, 26.6, 41.6, 12.1, 28.3),
    "runtime": Ceiling(6.9, 22.5, 47.7, 13.6, 24.3),
    "scenarios": Ceiling(7.3, 21.3, 47.5, 14.9, 30.0),
    "store": Ceiling(4.1, 13.8, 36.9, 11.9, 17.4),
}
DOCUMENTS = {
    "ARCHITECTURE.md": Ceiling(2.0, 2.0, 8.0, 1.0),
    "CONVENTIONS.md": Ceiling(1.0, 3.0, 16.0, 3.0),
    "README.md": Ceiling(2.0, 2.0, 10.0, 2.0),
    "docs/glossary.md": Ceiling(1.0, 1.0, 5.0, 1.0),
    "docs/decisions": Ceiling(3.1, 7.4, 23.5, 5.6),
    "docs/results": Ceiling(1.0, 3.0, 8.0, 3.0),
}


@pytest.mark.parametrize("folder", CEILINGS)
def test_code_keeps_to_its_ceiling(folder: str) -> None:
    """Comments and docstrings of a folder hide the subject no more often than its ceiling says."""
    found = measured([_python_text(path.read_text()) for path in sorted((HOUSE / folder).rglob("*.py"))])
    assert {} == _above(found, CEILINGS[folder])


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_keep_to_their_ceiling(document: str) -> None:
    """So do the documents, tables and code blocks left out."""
    place = HOUSE / document
    paths = [place] if place.is_file() else sorted(place.rglob("*.md"))
    assert paths, document
    assert {} == _above(
        measured([(_markdown_text(path.read_text()), []) for path in paths]), DOCUMENTS[document]
    )


def test_words_are_counted() -> None:
    """A count that finds nothing would keep to any ceiling."""
    source = '"""Whoever waits, and what for, and so on."""\nA = 1  # Its own.\n"""Of all."""\n'
    found = measured([_python_text(source)])
    assert (1000 / 12, 1000 / 12, 1000 / 12, 0.0, 100 / 2) == (*found[:4], 50.0)
    assert 100.0 == found.opens


def measured(texts: list[tuple[str, list[str]]]) -> Ceiling:
    """Return the figures of a folder, given the prose of each file and its docstrings."""
    words = [word for text, _ in texts for word in re.findall(r"[a-z']+", text.lower())]
    docstrings = [one for _, many in texts for one in many]
    counts = [1000 * sum(word in mine for word in words) / max(1, len(words)) for mine in WORDS.values()]
    opens = 100 * sum(bool(OPENS.match(one.strip())) for one in docstrings) / max(1, len(docstrings))
    who, what, it, others = counts
    return Ceiling(who, what, it, others, opens)


def _above(found: Ceiling, most: Ceiling) -> dict[str, tuple[float, float]]:
    pairs = zip(Ceiling._fields, found, most, strict=True)
    return {name: (round(count, 1), ceiling) for name, count, ceiling in pairs if count > ceiling}


def _python_text(source: str) -> tuple[str, list[str]]:
    """Return comments and docstrings as one text, and the docstrings (of attributes too) by themselves."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [one.string.lstrip("#: ") for one in tokens if one.type == tokenize.COMMENT]
    docstrings = [
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    return " ".join([*comments, *docstrings]), docstrings


def _markdown_text(source: str) -> str:
    source = re.sub(r"```.*?```", "", source, flags=re.DOTALL)
    return "\n".join(line for line in source.split("\n") if not line.startswith(("|", "    ")))
