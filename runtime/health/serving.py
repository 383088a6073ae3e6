"""Tells on a local socket whether the units of this process are well, for health checks by whatever keeps the process up.

The answer comes from the process's event loop, and each unit is asked over the bus: a keeper whether its log is kept, a reader for a fact of
its log, any other unit by a message that goes out and comes back. So a process that stands still, is cut off or waits for its logs is not well.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from bus.errors import BusError
from bus.port import Bus
from core.messages.base import Message
from core.messages.logs import AskHead, HeadAnswer, LogPage, ReadLog
from core.nouns.ids import LogName
from core.nouns.instant import Nanoseconds, seconds
from runtime.health.check import WELL
from runtime.wiring import OpenUnit, Unit, log_kept_by

ASK_SPAN: Nanoseconds = seconds(3)
"""For one unit to answer. It does in a millisecond."""


class Health:
    """The health of one process."""

    def __init__(self, bus: Bus, units: Sequence[Unit], lives: Mapping[str, OpenUnit]) -> None:
        """`bus` is an endpoint of its own; `lives` has the present life of each unit that has begun one, by the unit's name."""
        self._bus = bus
        self._units = units
        self._lives = lives

    async def problem(self) -> str:
        """Return what is wrong with each unit that is not well; empty when all are."""
        return "\n".join(
            [f"{unit.name}: {found}" for unit in self._units if (found := await self._problem_of(unit))]
        )

    async def _problem_of(self, unit: Unit) -> str:
        life = self._lives.get(unit.name)
        if life is None:
            return "it has not started"
        if life.is_over:
            return "it has died, and is about to start again"
        if life.host is not None and life.host.state is None:
            return "it waits for the logs that it follows"
        if life.host is not None and life.host.guard is not None and life.host.guard.waits_for:
            return life.host.guard.waits_for
        if life.host is not None and not life.host.is_open:
            return "its log cannot be opened, because the disk is full"
        kept = log_kept_by(unit)
        if kept is not None:
            return await self._problem_of_answer(AskHead(kept), HeadAnswer)
        if life.reader is not None:
            return await self._problem_of_answer(ReadLog(LogName(unit.member), 1, 1), LogPage)
        return "" if await self._bus.round_trip(ASK_SPAN) else "nothing comes back over the bus"

    async def _problem_of_answer(self, question: Message, expected: type[Message]) -> str:
        try:
            answer = await self._bus.ask(question, ASK_SPAN)
        except BusError as error:
            return f"it does not answer over the bus: {error}"
        return "" if isinstance(answer, expected) else f"it answers {type(answer).__name__}"

    async def serve(self, path: Path) -> None:
        """Answer on a socket, for ever. Another process's socket of that name is taken over: that process is gone or as good as gone."""

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                writer.write((await self.problem() or WELL).encode())
                await writer.drain()
            except OSError:
                pass  # Nobody waits for the answer any more.
            finally:
                writer.close()

        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(answer, path)
        path.chmod(0o600)
        async with server:
            await server.serve_forever()
