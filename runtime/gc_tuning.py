"""The garbage collector in a long-lived process: what was loaded is not looked at again, and young cycles are few.

Facts, messages and rows are frozen and without cycles, so reference counting frees them; the collector only walks them. It
is told to leave alone what a start has loaded, and to look at the rest seldom: measured on a simulated day, the collector
otherwise takes about a tenth of the time.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_MAX = 50_000
"""Objects made and not freed before the youngest are looked at; CPython's default is 700."""
UNDISTURBED_MIN = 1 << 18
"""Bytes of an encoding, as it was sent, from which the collector is kept away: an image of some 2,000 nodes."""


def settle_down() -> None:
    """Call once what a process begins with is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, 20, 100)


@contextmanager
def undisturbed(size: int) -> Iterator[None]:
    """Decode so many bytes into an image that stays: the collector is off meanwhile, and never looks at what is there afterwards.

    Without this the collector walks the image again and again while it grows: one of 130 MB took 2.1 s to decode, and takes 0.6 s.
    Small images are decoded as anything else, because what is frozen with them and in a cycle is never freed.
    """
    if size < UNDISTURBED_MIN or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
