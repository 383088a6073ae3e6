"""Folding a log's file from its beginning: how far, how fast, to which digest, and with every check on the way.

The digest is `Image.digest`, as a keeper logs it in its `keeper_stopped` line.
"""

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from core.fact import Fact
from core.images import GlobalImage, Image, RegionImage, empty_image
from core.images.sharing import Sharing
from core.invariants.consistency import (
    check_devices,
    check_global_fact,
    check_ledger,
    check_nodes_balance,
    check_region_fact,
    check_workloads,
)
from core.invariants.control import check_control
from core.invariants.data import check_data
from core.invariants.moves import check_move
from core.invariants.quota import check_quota
from core.invariants.sharing import SharedBook, check_border, fold_checked
from core.nouns.ids import LogName, region_of
from core.placing.index.owners import Owners
from core.touched import touched_by
from mizzen.terminal.output import CommandError, explained
from mizzen.views.logs.log_source import image_name_of, name_of
from store.errors import LogError
from store.sqlite import facts_in

VIOLATIONS_MAX = 1_000


class Broken(Struct, frozen=True):
    """A rule that did not hold."""

    sequence: int
    rule: int
    """Its number in what must always hold."""
    text: str


class Replayed(Struct, frozen=True):
    """What came of it."""

    log: LogName
    sequence: int
    digest: str
    seconds: float
    facts_per_second: int
    violations: tuple[Broken, ...] = ()
    """The first thousand, if they were looked for."""


def replay(path: Path, until: int, *, is_checked: bool) -> Replayed:
    """Fold the file's facts up to `until`, or all. Raises CommandError."""
    violations: list[Broken] = []
    began = time.perf_counter()
    if is_checked:
        image, sequence = _folded_and_checked(path, until, violations)
    else:
        image, sequence = folded(path, until, empty_image(image_name_of(path)), 0)
    seconds = time.perf_counter() - began
    return Replayed(
        name_of(path),
        sequence,
        image.digest(),
        round(seconds, 6),
        round(sequence / seconds),
        tuple(violations[:VIOLATIONS_MAX]),
    )


def folded(path: Path, until: int, image: Image, sequence: int) -> tuple[Image, int]:
    """An image that is folded to a sequence, folded on to another or to the log's head. Raises CommandError."""
    with explained(LogError):
        for fact in _facts(path, sequence, until):
            image.fold(fact)
            sequence = fact.sequence
    _check_reached(path, sequence, until)
    return image, sequence


def _facts(path: Path, behind: int, until: int) -> Iterator[Fact]:
    facts = facts_in(path.parent, name_of(path), behind + 1)
    return islice(facts, max(0, until - behind)) if until else facts


def _check_reached(path: Path, sequence: int, until: int) -> None:
    if sequence < until:
        raise CommandError(f"{path} has {sequence} facts, and not {until}; ask for one of those")


def _folded_and_checked(path: Path, until: int, violations: list[Broken]) -> tuple[Image, int]:
    """As `folded`. Of one log alone: what rests on other logs is for the auditor, who has them all."""
    image, sequence, owners = empty_image(image_name_of(path)), 0, Owners()
    book = SharedBook(Sharing())
    with explained(LogError):
        for fact in _facts(path, 0, until):
            sequence = fact.sequence
            for rule, text in _checked_fold(image, fact, owners, book):
                violations.append(Broken(sequence, rule, text))
    _check_reached(path, sequence, until)
    if isinstance(image, GlobalImage):
        violations += [Broken(sequence, 3, text) for text in check_workloads(image)]
    elif isinstance(image, RegionImage):
        violations += [Broken(sequence, 1, text) for text in check_ledger(image.capacity)]
        violations += [Broken(sequence, 6, text) for text in check_control(image)]
    return image, sequence


def _checked_fold(image: Image, fact: Fact, owners: Owners, book: SharedBook) -> list[tuple[int, str]]:
    if isinstance(image, GlobalImage):
        found = [(3, text) for text in check_global_fact(fact, image, {})]
        found += [(3, text) for text in check_move(fact, image, {})]
        found += [(2, text) for text in check_data(fact, image)]
        found += [(4, text) for text in check_quota(fact, image)]
        return found + [(4, text) for text in fold_checked(fact, image, book)]
    assert isinstance(image, RegionImage), fact.log
    found = check_region_fact(region_of(fact.log), fact, image, None, owners)
    found += check_border(fact, image)
    nodes = touched_by(image.capacity, fact)
    image.fold(fact)
    owners.hear(image.capacity, fact)
    texts = (*check_nodes_balance(image.capacity, nodes), *check_devices(image.capacity, nodes))
    return found + [(1, text) for text in texts]


def rows_of(
    replayed: Replayed, *, is_checked: bool
) -> list[tuple[str, Any]]:  # Any: whatever is shown as text
    """For people."""
    rows = [
        ("log", replayed.log),
        ("sequence", replayed.sequence),
        ("facts/s", replayed.facts_per_second),
        ("digest", replayed.digest),
    ]
    return [*rows, ("violations", len(replayed.violations))] if is_checked else rows
