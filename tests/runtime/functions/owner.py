"""`python owner.py DIRECTORY`: a server that runs calls until it is killed, and prints the numbers of all processes that it has."""

import asyncio
import sys
from pathlib import Path

from tests.runtime.functions.aids import serving, spec


async def main(directory: Path) -> None:
    """Have an executor that sleeps, one that never lets go of the interpreter, an idle one, and two programs that functions started.

    The last program has a session of its own.
    """
    async with serving(directory) as server:
        for number, target in enumerate(
            ("plain:sleep", "plain:spin", "plain:double", "plain:spawn", "plain:spawn_apart"), 1
        ):
            await server.ready(number, spec(target))
            server.give(number, (number, 600))
        await server.value(3)
        programs = [await server.value(ticket) for ticket in (4, 5)]
        executors = [use.pid for use in server.book.uses]
        print(server.doer._parent.pid, *executors, *programs, flush=True)
        await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
