"""What became of calls with tokens (programs/token_calls.py), counted from what executors and callers wrote down."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from bench.support.functions.programs.token_calls import TOKEN_BYTES, is_once


class Written(Struct):
    """All that was written down."""

    begins: Counter[int]
    """How often each call was begun."""
    ends: dict[int, list[str]]
    """The ends of each call for its caller, in words."""


def read(begins: Path, ends: Iterable[Path]) -> Written:
    """Return what executors wrote into a directory, and callers into files."""
    found = Written(Counter(), {})
    for path in begins.iterdir():
        found.begins.update(_tokens(path.read_bytes()))
    for path in ends:
        for line in path.read_text().splitlines() if path.exists() else ():
            token, end = line.split()
            found.ends.setdefault(int(token), []).append(end)
    return found


def _tokens(data: bytes) -> Iterator[int]:
    assert len(data) % TOKEN_BYTES == 0, "a begin was written in parts"
    for place in range(0, len(data), TOKEN_BYTES):
        yield int.from_bytes(data[place : place + TOKEN_BYTES], "little")


def figures_of(written: Written, calls: int) -> dict[str, float]:
    """Return counts of calls with the tokens from 0 on, and shares of either sort."""
    begins, ends = written.begins, written.ends
    stray = [token for token in (*begins, *ends) if not 0 <= token < calls]
    assert not stray, f"tokens that no caller had: {stray[:5]}"
    unwritten = [token for token, told in ends.items() if "done" in told and not begins[token]]
    assert not unwritten, f"calls were done whose begin was not written: {unwritten[:5]}"
    once = [token for token in range(calls) if is_once(token)]
    others = [token for token in range(calls) if not is_once(token)]
    return {
        "unanswered": float(sum(token not in ends for token in range(calls))),
        "answered_twice": float(sum(len(told) > 1 for told in ends.values())),
        "answered_wrongly": float(sum("wrong" in told for told in ends.values())),
        "once_begun_twice": float(sum(begins[token] > 1 for token in once)),
        "lost_share": _share(ends, others),
        "once_lost_share": _share(ends, once),
        "begun_again_share": sum(begins[token] > 1 for token in others) / max(1, len(others)),
    }


def _share(ends: dict[int, list[str]], tokens: list[int]) -> float:
    """Return the part of calls that ended without their value, be they lost, refused or failed."""
    return sum("done" not in ends.get(token, ()) for token in tokens) / max(1, len(tokens))
