"""What the auditor tells, and what people ask it."""

from msgspec import Struct

from core.messages.base import Answer, Message, Notice
from core.nouns.ids import LogName


class FoundViolation(Struct, frozen=True):
    """One condition that must always hold and did not."""

    rule: int
    """The rule's number; docs/operating.md lists the rules."""
    log: LogName
    sequence: int
    text: str


class ShowAudit(Message, frozen=True, tag="show-audit"):
    """What was checked, and what was found?"""


class AuditShown(Answer, frozen=True, tag="audit-shown"):
    """How far each log was checked, and what was found so far, the first ones first."""

    checked: dict[LogName, int]
    waiting: int
    """Facts heard that rest on facts not heard yet."""
    violations: tuple[FoundViolation, ...]
    count: int


class ViolationsFound(Message, frozen=True, tag="violations-found"):
    """Violations that the auditor has just found. Operators' alarms listen for these."""

    violations: tuple[FoundViolation, ...]
    count: int
    """All that are not acknowledged, these among them."""


class AcknowledgeViolations(Message, frozen=True, tag="acknowledge-violations"):
    """An operator has dealt with the violations found so far: they are put aside, and a new count begins."""

    count: int
    """As it was shown: what was found since is not acknowledged unseen."""


class ViolationsAcknowledged(Answer, frozen=True, tag="violations-acknowledged"):
    """So many violations are put aside."""

    count: int


class ViolationsKept(Notice, frozen=True, tag="violations-kept"):
    """The violations found by earlier lives of the auditor that no operator has acknowledged."""

    violations: tuple[FoundViolation, ...]
    count: int


MESSAGES: tuple[type[Message], ...] = (
    ShowAudit,
    AuditShown,
    ViolationsFound,
    AcknowledgeViolations,
    ViolationsAcknowledged,
)
