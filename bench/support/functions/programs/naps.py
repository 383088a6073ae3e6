"""Calls a function that sleeps, all calls at once: a line tells when they have begun, and one when all have ended.

Calls of no span end as soon as all have begun, so that each has an executor of its own, which is warm and idle then.
"""

import json
import sys
from pathlib import Path
from threading import Event, Thread

import mizzen

LOOK_SECONDS = 0.01
TOGETHER_SECONDS_MAX = 20.0
"""How long a call waits for the others."""
HELLO_SECONDS = 0.2
"""A server gives an executor several calls at once that are shorter than `CALL_WINDOW`."""


@mizzen.function(gpus="cpu:1", memory="1MiB")
def nap(job: tuple[int, float, str]) -> None:
    """Say that the call has begun, and sleep."""
    number, span, directory = job
    Path(directory, str(number)).touch()
    Event().wait(span)


@mizzen.function(gpus="cpu:1", memory="1MiB")
def hello(job: tuple[int, int, str]) -> None:
    """Say that the call has begun, and wait until so many have. Another function, whose run time is another."""
    number, count, directory = job
    where = Path(directory)
    (where / str(number)).touch()
    looks = round(TOGETHER_SECONDS_MAX / LOOK_SECONDS)
    while looks and len(list(where.iterdir())) < count:
        looks -= 1
        Event().wait(LOOK_SECONDS)
    if not looks:
        raise TimeoutError(f"{len(list(where.iterdir()))} of {count} calls run together")
    Event().wait(HELLO_SECONDS)


def main(count: int, span: float, directory: str) -> None:
    """Call, and tell."""
    where = Path(directory)
    where.mkdir()
    if span:
        calling = Thread(
            target=lambda: [*nap.map([(one, span, directory) for one in range(count)])], daemon=True
        )
    else:
        calling = Thread(
            target=lambda: [*hello.map([(one, count, directory) for one in range(count)])], daemon=True
        )
    calling.start()
    while len(list(where.iterdir())) < count:
        Event().wait(LOOK_SECONDS)
    print(json.dumps({"begun": count}), flush=True)
    calling.join()
    print(json.dumps({"ended": count}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
