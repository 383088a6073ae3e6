"""Curves over time, and bars, as an SVG: enough to lay a figure beside a published one, and nothing to install."""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from msgspec import Struct

Scale = Callable[[float], float]
WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 50
TICKS_MAX = 9
"""Of one axis, as a rule."""
ROUND = (1.0, 2.0, 5.0, 10.0)
"""Steps between ticks, of a power of ten."""
GROUP_SHARE = 0.7
"""Of a group of bars' width, what its bars have."""
COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#555555")


class Curve(Struct, frozen=True):
    """Values that hold from one time to the next."""

    name: str
    points: Sequence[tuple[float, float]]
    """Time and value, by time."""


class Mark(Struct, frozen=True):
    """Something that happens at a time."""

    at: float
    name: str


def drawn(
    title: str,
    x_name: str,
    y_name: str,
    curves: Sequence[Curve],
    marks: Sequence[Mark] = (),
    begin: tuple[float, float] = (0.0, 0.0),
) -> str:
    """One figure.

    begin   where its axes do
    """
    x_min, y_min = begin
    x_max = max((x for curve in curves for x, _ in curve.points), default=1.0) or 1.0
    y_max = max((y for curve in curves for _, y in curve.points), default=1.0) or 1.0

    def x_of(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - x_min) / (x_max - x_min)

    def y_of(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - y_min) / (y_max - y_min)

    parts = _framed(title, x_name, y_name)
    parts += _grid(ticks(y_min, y_max), y_of)
    parts += [_under(x_of(x), f"{x:,.4g}") for x in ticks(x_min, x_max)]
    for mark in marks:
        x = x_of(mark.at)
        parts += [
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#999999" stroke-dasharray="4 3"/>',
            f'<text x="{x + 3:.1f}" y="{TOP + 10}" fill="#666666">{escape(mark.name)}</text>',
        ]
    for number, curve in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.8" points="{_steps(curve, x_of, y_of, x_max)}"/>'
        )
        parts.append(_named(number, curve.name))
    return "\n".join([*parts, "</svg>"]) + "\n"


def barred(
    title: str, x_name: str, y_name: str, over: Sequence[str], bars: Mapping[str, Sequence[float]]
) -> str:
    """One figure of groups of bars that begin at nothing, with each one's value on it.

    over   the groups' names
    bars   by what they tell, the value of each group
    """
    y_max = max((value for values in bars.values() for value in values), default=1.0) or 1.0
    group = (WIDTH - LEFT - RIGHT) / max(1, len(over))
    wide = GROUP_SHARE * group / max(1, len(bars))

    def y_of(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / y_max

    parts = _framed(title, x_name, y_name)
    parts += _grid(ticks(0.0, y_max), y_of)
    parts += [_under(LEFT + group * (at + 0.5), name) for at, name in enumerate(over)]
    for number, (name, values) in enumerate(bars.items()):
        colour = COLOURS[number % len(COLOURS)]
        for at, value in enumerate(values):
            x, y = LEFT + group * (at + (1 - GROUP_SHARE) / 2) + wide * number, y_of(value)
            parts += [
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{HEIGHT - BOTTOM - y:.1f}" fill="{colour}"/>',
                f'<text x="{x + wide / 2:.1f}" y="{y - 3:.1f}" text-anchor="middle" fill="{colour}">{value:.3g}</text>',
            ]
        parts.append(_named(number, name))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _framed(title: str, x_name: str, y_name: str) -> list[str]:
    """What stands around it; not its end."""
    middle = (TOP + HEIGHT - BOTTOM) / 2
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2:.0f}" y="20" text-anchor="middle" font-size="14">{escape(title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_name)}</text>',
        f'<text transform="translate(16 {middle:.0f}) rotate(-90)" text-anchor="middle">{escape(y_name)}</text>',
    ]


def _grid(values: Sequence[float], y_of: Scale) -> list[str]:
    parts = []
    for y in values:
        parts += [
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(y):.1f}" y2="{y_of(y):.1f}" stroke="#dddddd"/>',
            f'<text x="{LEFT - 6}" y="{y_of(y) + 4:.1f}" text-anchor="end">{y:,.4g}</text>',
        ]
    return parts


def _under(x: float, text: str) -> str:
    """Under the axis."""
    return f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{escape(text)}</text>'


def _named(number: int, name: str) -> str:
    """What is of this colour."""
    colour = COLOURS[number % len(COLOURS)]
    return f'<text x="{LEFT + 8}" y="{TOP + 26 + 15 * number}" fill="{colour}">{escape(name)}</text>'


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from one end of an axis to the other."""
    if high <= low:
        return [low]
    least = (high - low) / TICKS_MAX
    power = 10.0 ** math.floor(math.log10(least))
    step = power * next(one for one in ROUND if power * one >= least * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _steps(curve: Curve, x_of: Scale, y_of: Scale, x_max: float) -> str:
    points = []
    before: float | None = None
    for x, y in [*curve.points, *([(x_max, curve.points[-1][1])] if curve.points else [])]:
        if before is not None:
            points.append(f"{x_of(x):.1f},{y_of(before):.1f}")
        points.append(f"{x_of(x):.1f},{y_of(y):.1f}")
        before = y
    return " ".join(points)
