"""`python owner.py DIRECTORY`: a server that runs calls until it is killed, and prints the numbers of all processes that it has."""

import asyncio
import sys
from pathlib import Path

from tests.runtime.functions.aids import serving, spec


async def main(directory: Path) -> None:
    """Have an executor that sleeps, one that never lets go of the interpreter, an idle one, and a program that a function started."""
    async with serving(directory) as server:
        for number, target in enumerate(("plain:sleep", "plain:spin", "plain:double", "plain:spawn"), 1):
            await server.ready(number, spec(target))
            server.give(number, (number, 600))
        await server.value(3)
        program = await server.value(4)
        executors = [use.pid for use in server.book.uses]
        print(server.doer._parent.pid, *executors, program, flush=True)
        await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
