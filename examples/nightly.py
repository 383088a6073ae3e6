"""Three stages of a small pipeline, each of which reads what the one before it saved: count pairs of letters, fit, report.

The text is what every machine has: the sources of Python's standard library.

    mizzen submit -w examples/nightly.yaml
"""

import json
import math
import sys
import sysconfig
from itertools import pairwise
from pathlib import Path

import mizzen

LETTERS = "abcdefghijklmnopqrstuvwxyz "
FILES_MAX = 40
ROUNDS, TOLD_EVERY = 6_000, 1_000
RATE = 2e-3


def prepare() -> dict[str, int]:
    """Count the pairs of letters in the text."""
    counts: dict[str, int] = {}
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:FILES_MAX]
    for path in paths:
        text = "".join(
            letter if letter in LETTERS else " " for letter in path.read_text(errors="replace").lower()
        )
        for first, second in pairwise(text):
            counts[first + second] = counts.get(first + second, 0) + 1
    print(f"{sum(counts.values())} pairs in {len(paths)} files", flush=True)
    return counts


def train(counts: dict[str, int]) -> dict[str, float]:
    """Fit the probability of each letter after each other one, a step at a time, from an even guess."""
    found = {first + second: 1 / len(LETTERS) for first in LETTERS for second in LETTERS}
    totals = {first: max(1, sum(counts.get(first + second, 0) for second in LETTERS)) for first in LETTERS}
    for number in range(1, ROUNDS + 1):
        for pair, value in found.items():
            found[pair] = value + RATE * (counts.get(pair, 0) / totals[pair[0]] - value)
        if number % TOLD_EVERY == 0:
            print(f"step {number} loss {loss_of(found, counts):.3f}", flush=True)
    return found


def loss_of(found: dict[str, float], counts: dict[str, int]) -> float:
    """Return the mean surprise of the next letter, in nats."""
    return -sum(count * math.log(max(1e-9, found[pair])) for pair, count in counts.items()) / sum(
        counts.values()
    )


def main(stage: str) -> None:
    """Run one stage; what it found is its only checkpoint."""
    before = {"train": ["prep"], "publish": ["prep", "train"]}.get(stage, [])
    read = {}
    for name in before:
        path = mizzen.checkpoint_of(name)
        assert path is not None, f"{name} saved nothing"
        read[name] = json.loads(path.read_text())
    found: object
    if stage == "prep":
        found = prepare()
    elif stage == "train":
        found = train(read["prep"])
    else:
        found = {"loss": loss_of(read["train"], read["prep"])}
        print(f"published: {json.dumps(found)}", flush=True)
    mizzen.checkpoint_path(1).write_text(json.dumps(found))
    mizzen.saved(1)


if __name__ == "__main__":
    main(sys.argv[1])
