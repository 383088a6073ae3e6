"""Plays seeds of the swarm on whatever tree its PYTHONPATH names, and prints what came of each: a line of JSON a seed.

Run as a script, in a process of its own: `python -P child.py TREE SEED [SEED ...]`.
"""

import importlib
import sys
from pathlib import Path

import msgspec

from scenarios.swarm.pool import play_seed

PACKAGES = ("bus", "components", "core", "runtime", "scenarios", "store")
"""What a plane that is simulated is made of."""


def main() -> None:
    """Make sure that it is the tree's own source that runs, and play."""
    tree, *seeds = sys.argv[1:]
    for name in PACKAGES:
        source = importlib.import_module(name).__file__
        assert source is not None, name
        assert Path(source).is_relative_to(tree), (source, tree)
    for seed in seeds:
        print(msgspec.json.encode(play_seed(int(seed))).decode(), flush=True)


if __name__ == "__main__":
    main()
