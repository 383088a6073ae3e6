"""Rows of the specifications are named as they are, and the page that lists them is up to date."""

import re

import pytest

from tests.rows.table import (
    HOUSE,
    PAGE,
    Checklist,
    checklists,
    ids_in_comments,
    ids_in_docstring,
    ids_in_specification,
    known_ids,
    page,
    showings,
)

SPECIFICATIONS = HOUSE.parent / "shared" / "spec"
SPECIFICATION_FILES = sorted({checklist.file for checklist in checklists()})


def test_rows_have_ids_of_their_own() -> None:
    """No two rows of any checklists have one id, each is one that can be named, and each says what must be so."""
    ids = known_ids()
    assert len(set(ids)) == len(ids)
    assert ids == [row for each in ids for row in ids_in_docstring(f"{each}: so.")]
    assert ids == [row for each in ids for row in ids_in_comments(f"# rows: {each}\n")]
    lines = [line for checklist in checklists() for line in checklist.rows.values()]
    assert [] == [line for line in lines if line[0] not in {"core", "nice", "new", "experiment", ""}]
    assert [] == [text for _, text in lines if not text.endswith(".") or "|" in text]


def test_named_rows_exist() -> None:
    """Ids are not guessed: a typing error would otherwise hide that a row is shown."""
    known = set(known_ids())
    assert [] == [(showing.label, row) for showing in showings() for row in showing.ids if row not in known]


def test_page_is_up_to_date() -> None:
    """It is what `python -m tests.rows.make` writes from the rows and the tests as they are now."""
    assert page() == PAGE.read_text(), "`python -m tests.rows.make` writes it anew"


def test_page_leads_to_files_that_are_there() -> None:
    """Each link is to a file of this repository or to a heading of the page."""
    text = PAGE.read_text()
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("#")]
    assert links
    assert [] == [link for link in sorted(set(links)) if not (PAGE.parent / link).resolve().is_file()]
    anchors = re.findall(r"\]\(#([^)]+)\)", text)
    headings = [
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^## (.+)$", text, re.MULTILINE)
    ]
    assert headings == anchors


@pytest.mark.parametrize(
    ("docstring", "ids"),
    [
        ("T11: only what was acknowledged proceeds.", ("T11",)),
        ("T11, T19: both.", ("T11", "T19")),
        ("T18 beside T21: both.", ("T18", "T21")),
        ("C-1: an id with a dash.", ("C-1",)),
        ("E-P5 and H1: experiments.", ("E-P5", "H1")),
        ("Others run on (T25). And again (T25, M25).", ("T25", "M25")),
        ("T26: it stops. Others run on (T25).", ("T26", "T25")),
        ("What T11 says is told in a sentence.", ()),
        ("A node of T4 GPUs, or (H100), or of (eight) others: none is a row.", ()),
        ("Second line:\nT11: does not begin the docstring.", ()),
    ],
)
def test_rows_that_a_docstring_names(docstring: str, ids: tuple[str, ...]) -> None:
    """Those at its start and those in brackets, each once; a word within a sentence names none."""
    assert ids == ids_in_docstring(docstring)


def test_rows_that_a_comment_names() -> None:
    """On a line of its own; one that is written otherwise is an error, and not a row that nobody sees."""
    assert ("T25", "E13") == ids_in_comments("name: x\n# rows: T25, E13\n# rows: T25\n")
    assert () == ids_in_comments("rows = 3  # rows: of a table\n")
    for wrong in ("# rows: T25 E13\n", "# rows: T25, and more\n", "# rows:\n"):
        with pytest.raises(ValueError, match="rows"):
            ids_in_comments(wrong)


def test_rows_under_a_heading() -> None:
    """Those of the table below it, and of no other; a table that only numbers its rows lends them its prefix."""
    text = "# A\n\n## B\n| # | row |\n|---|---|\n| M1 | one |\n| N0 | two |\n**H1** three\n\n| 1 | four |\n## C\n| M9 | none |\n"
    assert ["M1", "N0", "H1"] == ids_in_specification(text, Checklist("", "", "## B", {}))
    assert ["G1"] == ids_in_specification(text, Checklist("", "", "## B", {}, "G"))
    assert [] == ids_in_specification(text, Checklist("", "", "## D", {}))


@pytest.mark.skipif(
    not SPECIFICATIONS.is_dir(), reason="the specifications do not lie beside this repository"
)
@pytest.mark.parametrize("file", SPECIFICATION_FILES)
def test_no_row_of_a_specification_is_missing(file: str) -> None:
    """Each checklist has here exactly the rows that it has there, in their order; and no other table of that file has lettered rows."""
    text = (SPECIFICATIONS / file).read_text()
    ours = [checklist for checklist in checklists() if checklist.file == file]
    for checklist in ours:
        assert list(checklist.rows) == ids_in_specification(text, checklist), checklist.heading
    lettered = re.findall(r"^(?:\| |\*\*)((?:[A-Z]|[A-Z]-[A-Z]?)\d+)(?: \||\*\*)", text, re.MULTILINE)
    assert [] == [row for row in lettered if row not in known_ids()]


@pytest.mark.skipif(
    not SPECIFICATIONS.is_dir(), reason="the specifications do not lie beside this repository"
)
def test_no_specification_is_left_out() -> None:
    """Whichever has a checklist, by the words of its headings, is one of ours."""
    with_rows = sorted(
        path.name
        for path in SPECIFICATIONS.glob("*.md")
        if re.search(r"^#+ .*([Cc]hecklist|[Ee]xperiments|\b[Rr]ows\b)", path.read_text(), re.MULTILINE)
    )
    assert SPECIFICATION_FILES == with_rows
