"""Files of speeds: by model and type, with widths or without, and the published form beside them."""

import json
from pathlib import Path

import pytest

from core.sharing.speeds import BadSpeeds
from mizzen.jobs.speeds_file import load_speeds

PLAIN = """\
# Steps a second.
bert-large: {H100: 12.5, A100: 6}
llama-7b:
  H100: {1: 3.0, 8: 22.4}
  H100/spread: {8: 16}
  A100: 1.5
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a file is written to."""
    return tmp_path / "speeds.yaml"


def test_plain_form(path: Path) -> None:
    """One number is of one GPU; a width that one type names is there for all, as much for each GPU as the next narrower one."""
    path.write_text(PLAIN)
    table = load_speeds(path)
    assert {
        ("bert-large", 1): {"H100": 12.5, "A100": 6.0},
        ("llama-7b", 1): {"H100": 3.0, "H100/spread": 2.0, "A100": 1.5},
        ("llama-7b", 8): {"H100": 22.4, "H100/spread": 16.0, "A100": 12.0},
    } == table.alone
    assert {} == table.together


def test_json_is_read_as_well(path: Path) -> None:
    """The same form, as programs write it."""
    path.write_text(json.dumps({"bert": {"H100": 2, "A100": {"1": 1, "4": 3.5}}}))
    assert {("bert", 1): {"H100": 2, "A100": 1}, ("bert", 4): {"H100": 8, "A100": 3.5}} == load_speeds(
        path
    ).alone


def test_published_form(path: Path) -> None:
    """Gavel's own file is known by how it names jobs, whatever the file is called."""
    path.write_text(json.dumps({"k80": {"('A3C', 1)": {"null": 1.5, "('A3C', 1)": [1, 1]}}}))
    table = load_speeds(path)
    assert ({"k80": 1.5}, {"k80": (1, 1)}) == (
        table.alone["A3C", 1],
        table.together[("A3C", 1), ("A3C", 1)],
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ":1:1: it is empty"),
        ("[1, 2]", ":1:1: it must be a mapping of models, each with speeds by GPU type"),
        ("{}", ":1:1: it must be a mapping of models, each with speeds by GPU type"),
        ("bert: 12", ":1:7: bert: it must be a mapping of fields, and is 12"),
        ("bert: {}", ":1:1: bert: it has no speed on any GPU type"),
        ("bert: {H100: fast}", ":1:14: bert.H100: fast is no speed; write the steps a second, as 12.5"),
        ("bert: {H100: -1}", ":1:14: bert.H100: -1 is no speed; write the steps a second, as 12.5"),
        ("bert: {H100: .inf}", ":1:14: bert.H100: .inf is no speed; write the steps a second, as 12.5"),
        ("bert: {H100: [1]}", ":1:14: bert.H100: it must be one value, and is a list"),
        ("bert:\n  H100: {}", ":2:9: bert.H100: it has no speed"),
        ("bert:\n  H100:\n", ":2:8: bert.H100: it has no value"),
        (
            "bert: {H100: {some: 1}}",
            ":1:14: bert.H100: some is no number of GPUs; write speeds by width as {1: 3.0, 8: 22.4}",
        ),
        ("bert: {H100: {0: 1}}", ":1:14: bert.H100: 0 is no number of GPUs"),
        ("bert: {H100: 1}\nbert: {A100: 1}", ":2:1: bert: it is there twice; first on line 1"),
        ("bert: {H100: ", "it is not YAML"),
        ('{"k80": {"(\'A3C\'": {"null": 1.5}}}', ": \"('A3C'\" names no job"),
    ],
)
def test_problem_is_told_with_its_place(path: Path, text: str, problem: str) -> None:
    """A sentence, and the file, line and column of it."""
    path.write_text(text)
    with pytest.raises(BadSpeeds) as caught:
        load_speeds(path)
    assert str(caught.value).startswith(str(path))
    assert problem in str(caught.value)


def test_every_problem_is_told(path: Path) -> None:
    """All at once, in the order of the file."""
    path.write_text("a: {H100: x}\nb: {H100: y}\n")
    with pytest.raises(BadSpeeds, match=r"a\.H100: x is no speed.*; .*b\.H100: y is no speed"):
        load_speeds(path)


def test_bytes_that_are_no_text(path: Path) -> None:
    """A sentence for those as well."""
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadSpeeds, match="no text in UTF-8"):
        load_speeds(path)
