"""What operators set of harvested capacity: of a pool, whether and how it is harvested; of a tenant, how much risk it takes."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from core.nouns.harvest import HarvestSettings, HarvestUse
from core.nouns.instant import Nanoseconds
from core.nouns.pool import PoolSettings, harvest_of
from mizzen.jobs.values import Unreadable, positive_span_of, span_of
from mizzen.terminal.harvest_options import HarvestOptions
from mizzen.terminal.output import MISUSED, CommandError
from runtime.yaml_tree import shown

MILLION = 1_000_000
_COUNT = re.compile(r"[0-9]{1,9}")
_PRICE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")
_PART = re.compile(r"[01](\.[0-9]{1,6})?")
_WORDS = {"on": True, "off": False, "yes": True, "no": False}
BOUNDED = "bounded:"

Value = TypeVar("Value")


class HarvestWish(Struct, frozen=True):
    """What is to be set of a pool; None: as it is."""

    is_on: bool | None = None
    grace: Nanoseconds | None = None
    keep: int | None = None
    after: Nanoseconds | None = None
    takes_reserve: bool | None = None
    price: int | None = None

    @property
    def said(self) -> dict[str, object]:
        """Return the fields that are wished for."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}


def harvest_wish_of(options: HarvestOptions, problems: list[str]) -> HarvestWish | None:
    """Return what is meant by the options; None by none. Everything that is wrong is added to the problems."""
    wish = HarvestWish(
        _read(options.harvest, "--harvest", problems, _is_on),
        _read(options.grace, "--grace", problems, positive_span_of),
        _read(options.keep, "--keep", problems, _count_of),
        _read(options.after, "--after", problems, span_of),
        _read(options.harvest_reserve, "--harvest-reserve", problems, _is_so),
        _read(options.harvest_price, "--harvest-price", problems, price_of),
    )
    return wish if wish.said else None


def held_price_of(options: HarvestOptions, problems: list[str]) -> int | None:
    """Return the price of held capacity that is meant; None: nothing was said, or something that is added to the problems."""
    return _read(options.price, "--price", problems, price_of)


def harvested_by(pool: str, settings: PoolSettings, wish: HarvestWish) -> HarvestSettings:
    """Return the settings that a wish makes of a pool's present ones, which may be the defaults of the pool."""
    return replace(harvest_of(pool, settings), **wish.said)


def price_of(text: str) -> int:
    """Return a price in millionths. Raises Unreadable."""
    if not _PRICE.fullmatch(text):
        raise Unreadable(f"{shown(text)} is no price; write a number that is not below 0, as in 0.50")
    return int(Decimal(text) * MILLION)


def tenant_use_of(text: str) -> HarvestUse:
    """Return how far a tenant's functions use harvested capacity: `none`, `all`, or `bounded:P`. Raises CommandError."""
    match text:
        case "all":
            return HarvestUse()
        case "none":
            return HarvestUse(is_on=False)
    part = text.removeprefix(BOUNDED)
    if text.startswith(BOUNDED) and _PART.fullmatch(part) and Decimal(part) <= 1:
        return HarvestUse(risk_max=int(Decimal(part) * MILLION))
    problem = f"--harvest: {shown(text)} is neither none nor all, nor bounded:P with a P from 0 to 1, as in bounded:0.001"
    raise CommandError(problem, MISUSED)


def use_text(use: HarvestUse) -> str:
    """Return a tenant's setting as it is written."""
    if not use.is_on:
        return "none"
    return "all" if use == HarvestUse() else f"{BOUNDED}{use.risk_max / MILLION:.6f}".rstrip("0").rstrip(".")


def _read(text: str, option: str, problems: list[str], read: Callable[[str], Value]) -> Value | None:
    if not text:
        return None
    try:
        return read(text)
    except Unreadable as error:
        problems.append(f"{option}: {error}")
        return None


def _is_on(text: str) -> bool:
    if text not in ("on", "off"):
        raise Unreadable(f"{shown(text)} is neither on nor off")
    return _WORDS[text]


def _is_so(text: str) -> bool:
    if text not in ("yes", "no"):
        raise Unreadable(f"{shown(text)} is neither yes nor no")
    return _WORDS[text]


def _count_of(text: str) -> int:
    if not _COUNT.fullmatch(text):
        raise Unreadable(f"{shown(text)} is no count of GPUs; write --keep 8")
    return int(text)
