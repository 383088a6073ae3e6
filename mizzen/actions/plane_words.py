"""The operator's words for a plane: violations that were dealt with, and clocks that may be wrong."""

from bus.port import Bus
from core.messages.auditor import AcknowledgeViolations, AuditShown, ShowAudit, ViolationsAcknowledged
from core.messages.logs import AcceptClock, ClockWord
from core.nouns.ids import LogName
from mizzen.connect.plane import ask
from mizzen.terminal.output import CommandError


async def acknowledge_violations(bus: Bus) -> int:
    """Put aside the violations told so far; return their number. Raises CommandError."""
    audit = await ask(bus, ShowAudit(), AuditShown)
    return (await ask(bus, AcknowledgeViolations(audit.newest), ViolationsAcknowledged)).count


async def accept_clock(bus: Bus, log: LogName) -> None:
    """Let a log go on whose keeper waits because of its machine's clock. Raises CommandError, also if it does not wait."""
    answer = await ask(bus, AcceptClock(log), ClockWord)
    if not answer.was_waited_for:
        raise CommandError(
            f"the keeper of {log} does not wait for a word about its clock; nothing has changed"
        )
