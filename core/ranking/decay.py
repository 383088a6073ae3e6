"""Powers of one half in whole numbers: the part of an amount that remains after a span, given the half-life.

Correct to 29 decimals, and equal on every machine. An exponential in decimals of as many digits takes three times as long.
"""

from decimal import Context

from core.nouns.instant import Nanoseconds

BITS = 112
"""Bits of a fraction in fixed-point numbers here: 1 is `ONE`."""
ONE = 1 << BITS
_CHUNK = 6
_CHUNKS = 4
_REST = BITS - _CHUNK * _CHUNKS
_LOWEST = (1 << _CHUNK) - 1
_TABLE = Context(prec=50)
_LN2 = _TABLE.ln(2)
LN2 = int(_TABLE.multiply(_LN2, ONE))
"""ln 2 in fixed point."""
PER_LN2 = int(_TABLE.divide(ONE, _LN2))
"""1 / ln 2 in fixed point."""


def _half_to_the(number: int, chunk: int) -> int:
    """Return 1/2 ** (number / 2 ** (6 * chunk)) in fixed point."""
    power = _TABLE.divide(_TABLE.multiply(_LN2, -number), 1 << _CHUNK * chunk)
    return int(_TABLE.multiply(ONE, _TABLE.exp(power)))


_HALVES = [[_half_to_the(number, chunk) for number in range(1 << _CHUNK)] for chunk in range(1, _CHUNKS + 1)]
"""For each six bits of an exponent, highest first: 1/2 to the power of each value of these bits, in fixed point."""


def left_after(span: int, half_life: Nanoseconds) -> int:
    """Return 1/2 ** (span / half_life) in fixed point.

    The exponent is cut into whole halvings, four times six bits that are looked up, and a rest below 2**-24, for which four terms
    of the exponential series are enough.
    """
    whole, rest = divmod(span, half_life)
    if whole > BITS:
        return 0
    exponent = (rest << BITS) // half_life
    first, second, third, fourth = _HALVES
    left = first[exponent >> BITS - 6] * second[exponent >> BITS - 12 & _LOWEST] >> BITS
    left = (
        left * (third[exponent >> BITS - 18 & _LOWEST] * fourth[exponent >> _REST & _LOWEST] >> BITS) >> BITS
    )
    power = (exponent & (1 << _REST) - 1) * LN2 >> BITS
    square = power * power >> BITS
    series = ONE - power + (square >> 1) - (square * power >> BITS) // 6
    return left * series >> BITS + whole
