"""Ports on which rank 0 may listen: two in a row, the second for the agreement of ranks.

They lie below those that systems hand out by themselves, so that no connection that somebody makes takes one between the
look and the start of the task.
"""

import socket
import zlib
from collections.abc import Container

FIRST = 20_000
PAIRS = 6_000
"""Up to 32,000; Linux hands out ports from 32,768 on."""


def free_pair(drawn_from: str, taken: Container[int]) -> int:
    """The first of two ports that nobody has, and that are not taken. Raises OSError.

    Where the search begins is drawn from the text, so that several workers of one machine seldom look at the same.
    """
    begin = zlib.crc32(drawn_from.encode())
    for step in range(PAIRS):
        port = FIRST + 2 * ((begin + step) % PAIRS)
        if port not in taken and _is_free(port) and _is_free(port + 1):
            return port
    raise OSError(f"no two ports in a row are free from {FIRST} to {FIRST + 2 * PAIRS}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
