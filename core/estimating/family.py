"""Which workloads are the same again: a name without whatever counts up in it.

    train-17, train-18                    train
    nightly-2026-03-01, nightly.20260302  nightly
    llama-7b-run3-9f3ac21e                llama-7b-run
    bert-large-v2                         bert-large-v

What begins with digits and goes on with letters is a size (`7b`, `8x7b`) and stays, for that is other work.
"""

import re

_PARTS = re.compile(r"[._-]+")
_STAMP = re.compile(r"[0-9]{8}T[0-9]{4,6}Z?")
"""A date and a time, as `date +%Y%m%dT%H%M%SZ` writes them."""
_HASH = re.compile(r"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,}")
"""At least as long as the short form of a commit, with digits and letters."""
_COUNTED = re.compile(r"([A-Za-z]+)[0-9]+")
NAMELESS = "#"
"""The family of names that do nothing but count."""


def family_of(name: str) -> str:
    """What all runs of the same work are called; `family_of(family_of(name))` is the same."""
    parts = [stem for part in _PARTS.split(name) if (stem := _stem(part))]
    return "-".join(parts) or NAMELESS


def _stem(part: str) -> str:
    """A part of a name without its number; empty when it is nothing else."""
    if part.isalpha():
        return part  # As most parts are: no pattern fits what has no digit.
    if part.isdigit() or _STAMP.fullmatch(part) or _HASH.fullmatch(part):
        return ""
    counted = _COUNTED.fullmatch(part)
    return counted.group(1) if counted else part
