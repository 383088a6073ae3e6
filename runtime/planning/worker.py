"""`python -m runtime.planning.worker`: a problem comes in on standard input, and its solution goes out on standard output."""

import os
import signal
import sys

import msgspec

from core.codec import encode
from core.nouns.instant import SECOND
from core.nouns.limits import PRICES_SPAN
from core.nouns.prices import Prices
from core.pricing.problem import PricingProblem

NICE = 10
"""Whatever decides comes first."""


def main() -> int:
    """Solve one problem. Whoever asked may be gone: nobody then ends this process but itself."""
    if hasattr(signal, "alarm"):
        signal.alarm(PRICES_SPAN // SECOND)
    if hasattr(os, "nice"):
        os.nice(NICE)
    problem = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=PricingProblem)
    from runtime.solvers.fluid import solve_prices

    sys.stdout.buffer.write(encode(solve_prices(problem.classes, problem.mix, arrivals=problem.arrivals)))
    return 0


def decode_prices(data: bytes) -> Prices | None:
    """What it wrote; None where that is no solution."""
    try:
        return msgspec.msgpack.decode(data, type=Prices)
    except msgspec.MsgspecError:
        return None


if __name__ == "__main__":
    sys.exit(main())
