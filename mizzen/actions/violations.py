"""Violations that an operator has dealt with are put aside."""

from bus.port import Bus
from core.messages.auditor import AcknowledgeViolations, AuditShown, ShowAudit, ViolationsAcknowledged
from mizzen.connect.plane import ask


async def acknowledge_violations(bus: Bus) -> int:
    """Put aside the violations found so far; return their number. Raises CommandError."""
    audit = await ask(bus, ShowAudit(), AuditShown)
    return (await ask(bus, AcknowledgeViolations(audit.count), ViolationsAcknowledged)).count
