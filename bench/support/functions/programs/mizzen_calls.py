"""Calls of Mizzen through the SDK: a map, chunks, single calls in an event loop and in threads, and single calls one by one."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import mizzen
from bench.support.functions.programs.timing import Forms, tell, work_of_line

CHUNKS = 8
"""Parts of a map whose calls go in chunks: as many as the pools of others make of it for two workers."""


@mizzen.function(gpus="cpu:1")
def same(number: int) -> int:
    """Be the function."""
    return number


@mizzen.function(gpus="cpu:1")
def same_of_all(numbers: list[int]) -> list[int]:
    """Be the function, of many arguments in one call."""
    return [same(number) for number in numbers]


def mapped(count: int) -> list[int]:
    """Map the function."""
    return list(same.map(range(count)))


def chunked(count: int) -> list[int]:
    """Map chunks."""
    size = -(-count // CHUNKS)
    chunks = [list(range(first, min(count, first + size))) for first in range(0, count, size)]
    return [value for values in same_of_all.map(chunks) for value in values]


def on_loop(count: int, many: int) -> list[int]:
    """Make single calls in an event loop."""
    numbers, values = iter(range(count)), [0] * count

    async def call_in_turn() -> None:
        for number in numbers:
            values[number] = await same.acall(number)

    async def call_all() -> None:
        await asyncio.gather(*(call_in_turn() for _ in range(many)))

    asyncio.run(call_all())
    return values


def in_threads(count: int, many: int) -> list[int]:
    """Make single calls in threads."""
    with ThreadPoolExecutor(many) as pool:
        return list(pool.map(same.call, range(count)))


if __name__ == "__main__":
    forms = Forms(
        mapped={"map": mapped},
        chunked={"by_hand": chunked},
        called={"on_loop": on_loop, "threads": in_threads},
        one={"call": same.call},
    )
    tell("mizzen", forms, work_of_line())
