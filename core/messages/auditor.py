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
    number: int = 0
    """Counted from 1 over all lives of the auditor; operators acknowledge up to a number."""


class ShowAudit(Message, frozen=True, tag="show-audit"):
    """What was checked, and what was found?"""


class AuditShown(Answer, frozen=True, tag="audit-shown"):
    """How far each log was checked, and what was found so far, the first ones first."""

    checked: dict[LogName, int]
    waiting: int
    """Facts heard that rest on facts not heard yet."""
    violations: tuple[FoundViolation, ...]
    count: int
    newest: int = 0
    """Number of the newest violation that was told."""


class ViolationsFound(Message, frozen=True, tag="violations-found"):
    """Violations that the auditor has just found. Operators' alarms listen for these."""

    violations: tuple[FoundViolation, ...]
    count: int
    """All that are not acknowledged, these among them."""


class AcknowledgeViolations(Message, frozen=True, tag="acknowledge-violations"):
    """An operator has dealt with the violations up to a number: they are put aside, and a new count begins."""

    up_to: int
    """`newest` as it was shown: what was found since is not acknowledged unseen, and an older number changes nothing."""


class ViolationsAcknowledged(Answer, frozen=True, tag="violations-acknowledged"):
    """So many violations are put aside; 0 if the number was old, or is not known."""

    count: int


class ViolationsKept(Notice, frozen=True, tag="violations-kept"):
    """The violations found by earlier lives of the auditor that no operator has acknowledged."""

    violations: tuple[FoundViolation, ...]
    count: int
    acknowledged: int = 0
    """Number of those that operators have acknowledged so far."""


MESSAGES: tuple[type[Message], ...] = (
    ShowAudit,
    AuditShown,
    ViolationsFound,
    AcknowledgeViolations,
    ViolationsAcknowledged,
)
