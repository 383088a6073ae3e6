"""Runs one task and outlives the worker: `python -I -S runner.py DIRECTORY`, the standard library alone.

A gang of many ranks pays for each line that is read here: what a script says is compiled at each start, what it imports is
not. The directory is explained in running.py.
"""

import os
import sys

if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120

from runtime.tasks.machine import ignore_signals
from runtime.tasks.running import Runner


def main() -> None:
    """The directory of the task is the only argument."""
    ignore_signals()
    if os.getsid(0) != os.getpid():
        os.setsid()
    os.chdir("/")
    Runner(sys.argv[1]).run()


if __name__ == "__main__":
    main()
