"""The needs of a function, as its user writes them: devices, memory and spans become whole numbers of the smallest unit."""

import re
from datetime import timedelta

from msgspec import Struct

from core.nouns.fleet import ANY_TYPE, CPU_TYPE
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.quantities import Amount
from core.nouns.workload import NEVER
from mizzen.jobs.values import Unreadable, bytes_of, gpus_of, positive_span_of

Span = str | float | timedelta | None
"""`10s`, a number of seconds, or a timedelta; None: no limit."""
GPUS = "cpu:1"
"""Of an executor, unless its function says otherwise."""
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


class Options(Struct, frozen=True):
    """All that a user says of a function beside its code."""

    need: Amount
    within: Nanoseconds = NEVER
    timeout: Nanoseconds = NEVER
    is_once: bool = False
    name: str = ""
    """Empty: as the function is called in its module."""
    directory: str | None = None
    """From which executors import the function; empty: they get pickled code; None: whichever suits where the function lies."""


def options_of(
    *,
    gpus: str,
    memory: str,
    within: Span,
    timeout: Span,
    once: bool,
    name: str | None,
    directory: str | None,
) -> Options:
    """Return options as a user writes them. Raises ValueError, which names the option."""
    if name is not None and not _NAME.fullmatch(name):
        raise ValueError(f"name: {name!r} has other letters than A-Z, a-z, 0-9 and . : _ -, or more than 200")
    return Options(
        need_of(gpus, memory),
        span_of(within, "within"),
        span_of(timeout, "timeout"),
        once,
        name or "",
        directory,
    )


def need_of(gpus: str, memory: str) -> Amount:
    """Return the need of one executor. Raises ValueError."""
    try:
        gpu_type, milli = gpus_of(gpus)
    except Unreadable as error:
        raise ValueError(f"gpus: {error}") from error
    if gpu_type not in (CPU_TYPE, ANY_TYPE):
        text = (
            f"{gpus} names a type, and an executor runs on whichever GPUs are held for functions; write any:1"
        )
        raise ValueError(f"gpus: {text}")
    if not milli:
        raise ValueError(f"gpus: {gpus} is no device; an executor needs cpu:1, or a part of a device")
    try:
        size = bytes_of(memory) if memory else 0
    except Unreadable as error:
        raise ValueError(f"memory: {error}") from error
    return Amount(cpu_milli=milli, memory_bytes=size) if gpu_type == CPU_TYPE else Amount(milli, 0, size)


def span_of(span: Span, name: str) -> Nanoseconds:
    """Return a span that is longer than zero, or `NEVER` for None. Raises ValueError, which names the option."""
    if span is None:
        return NEVER
    if isinstance(span, timedelta):
        span = span.total_seconds()
    if isinstance(span, str):
        try:
            return positive_span_of(span)
        except Unreadable as error:
            raise ValueError(f"{name}: {error}") from error
    if not span > 0:
        raise ValueError(f"{name}: {span} s is not longer than zero; leave it out for no limit")
    return Nanoseconds(round(span * SECOND))
