"""What people ask the auditor."""

from msgspec import Struct

from core.messages.base import Answer, Message
from core.nouns.ids import LogName


class ShowAudit(Message, frozen=True, tag="show-audit"):
    """What was checked, and what was found?"""


class FoundViolation(Struct, frozen=True):
    """One thing that must never be so."""

    rule: int
    log: LogName
    sequence: int
    text: str


class AuditShown(Answer, frozen=True, tag="audit-shown"):
    """How far each log was checked, and what was found so far, the first ones first."""

    checked: dict[LogName, int]
    waiting: int
    """Facts heard that rest on facts not heard yet."""
    violations: tuple[FoundViolation, ...]
    count: int


MESSAGES: tuple[type[Message], ...] = (ShowAudit, AuditShown)
