"""Chance drawn from an id: the same id always draws the same number."""

from hashlib import blake2b


def drawn(seed: str, below: int) -> int:
    """Return a number from 0 to `below` - 1, all about equally likely over many seeds."""
    if below <= 1:
        return 0
    return int.from_bytes(blake2b(seed.encode(), digest_size=8).digest(), "big") % below
