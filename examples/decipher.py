"""Two thousand calls of a function on warm executors: each finds the key with which a text was enciphered.

    mizzen submit examples/serve_small.yaml     # capacity, until it is cancelled
    python examples/decipher.py

A key shifts each letter of a text along the alphabet. The function tries every key, and returns the one under which the text is
likeliest, by the pairs of letters in the sources of Python's standard library: `load` counts those once in each executor. Each second a
line of JSON tells how the calls ended so far, and how many of the keys are right.
"""

import argparse
import json
import math
import random
import re
import sys
import sysconfig
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import mizzen

LETTERS = "abcdefghijklmnopqrstuvwxyz "
FILES_MAX = 40
WORDS_IN_TEXT = 80
LIKELIHOODS: dict[str, float] = {}
"""Of pairs of letters, in nats; filled by `load`."""


def words() -> list[str]:
    """Return the words of the text that every machine has, in order."""
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:FILES_MAX]
    return [word for path in paths for word in re.findall("[a-z]+", path.read_text(errors="replace").lower())]


def load() -> None:
    """Learn how likely each pair of letters is."""
    counts = {first + second: 1 for first in LETTERS for second in LETTERS}
    for first, second in pairwise(" ".join(words())):
        counts[first + second] += 1
    total = sum(counts.values())
    LIKELIHOODS.update({pair: math.log(count / total) for pair, count in counts.items()})


def shifted(text: str, key: int) -> str:
    """Return a text with each letter moved along the alphabet."""
    return text.translate(str.maketrans(LETTERS, LETTERS[key:] + LETTERS[:key]))


def likelihood(text: str) -> float:
    """Return how likely a text is."""
    return sum(LIKELIHOODS[first + second] for first, second in pairwise(text))


@mizzen.function(gpus="cpu:1", init=load)
def decipher(text: str) -> int:
    """Return the key with which a text was enciphered."""
    return max(range(len(LETTERS)), key=lambda key: likelihood(shifted(text, -key)))


class Calls:
    """What became of the calls so far."""

    def __init__(self, keys: list[int]) -> None:
        self._keys = keys
        self._counts = dict.fromkeys(("done", "failed", "lost", "refused"), 0)
        self._right = 0
        self._begun = self._told = time.monotonic()
        self._begun_at: list[float] = []
        self._longest = 0.0

    def texts(self, per_second: float) -> Iterator[str]:
        """Yield the enciphered text of each key, no more of them a second than that; 0: as soon as they are wanted."""
        known, dice = words(), random.Random("texts")
        self._begun = time.monotonic()
        for number, key in enumerate(self._keys):
            if per_second:
                due = self._begun + number / per_second
                time.sleep(max(0.0, due - time.monotonic()))  # noqa: TID251  # the map goes on by itself
            self._begun_at.append(time.monotonic())
            yield shifted(" ".join(dice.choices(known, k=WORDS_IN_TEXT)), key)

    def end(self, place: int, value: int | Exception) -> None:
        """Count the call of a text."""
        match value:
            case mizzen.CallLost():
                outcome = "lost"
            case mizzen.CallRefused():
                outcome = "refused"
            case Exception():
                outcome = "failed"
            case key:
                outcome = "done"
                self._right += key == self._keys[place]
        self._counts[outcome] += 1
        now = time.monotonic()
        self._longest = max(self._longest, now - self._begun_at[place])
        if now - self._told >= 1:
            self._told = now
            self.tell()

    def tell(self) -> None:
        """Write a line."""
        spans = {"seconds": time.monotonic() - self._begun, "longest_seconds": self._longest}
        told = {"calls": len(self._keys), **self._counts, "right": self._right, **spans}
        print(json.dumps(told), flush=True)

    @property
    def is_good(self) -> bool:
        """Whether all keys are right."""
        return self._right == len(self._keys)


def main() -> int:
    """Encipher texts, have them deciphered, and tell what became of that."""
    parser = argparse.ArgumentParser(description="Call a function on warm executors.")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--per-second", type=float, default=0.0, help="texts at most; 0: no limit")
    options = parser.parse_args()
    dice = random.Random("keys")
    calls = Calls([dice.randrange(len(LETTERS)) for _ in range(options.calls)])
    texts = calls.texts(options.per_second)
    for place, value in decipher.map(texts, as_completed=True, return_exceptions=True):
        calls.end(place, value)
    calls.tell()
    return 0 if calls.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
