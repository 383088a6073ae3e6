"""`python -m runtime.planning.worker CONCERN`: one problem comes in on standard input, and its answer goes out on standard output.

Where there is no answer, the reason goes out instead, and the exit code is `NO_ANSWER`.
"""

import os
import signal
import sys

import msgspec

from core.codec import encode
from core.nouns.instant import SECOND
from runtime.errors import NotSolved
from runtime.planning.concerns import SOLVERS

NICE = 10
"""Whatever decides comes first."""
NO_ANSWER = 65
"""Not the exit code of an interpreter that fails."""


def main(concern: str) -> int:
    """Solve one problem. Whoever asked may be gone: nobody then ends this process but itself."""
    solver, code = SOLVERS[concern], 0
    if hasattr(signal, "alarm"):
        signal.alarm(solver.span // SECOND)
    if hasattr(os, "nice"):
        os.nice(NICE)
    # The answer alone goes out: what a library prints is for people.
    told = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    problem = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=solver.problem)
    try:
        said = encode(solver.solve(problem))
    except NotSolved as error:
        code, said = NO_ANSWER, str(error).encode()
    with told:
        told.write(said)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
