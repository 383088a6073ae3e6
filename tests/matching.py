"""What a decision says, cut so that a test compares only what it is about."""

from collections.abc import Iterable
from typing import TypeVar

from core.component import Decision, Effect
from core.fact import Event
from core.messages.base import Message

Said = TypeVar("Said", bound=Message)
Done = TypeVar("Done", bound=Effect)


def said(decision: Decision, kind: type[Said]) -> list[Said]:
    """The messages of one type, in the order in which they are told."""
    return [message for message in decision.messages if isinstance(message, kind)]


def said_once(decision: Decision, kind: type[Said]) -> Said:
    """The one message of a type. Fails when there is none, or another."""
    found = said(decision, kind)
    assert 1 == len(found), (kind.__name__, decision.messages)
    return found[0]


def kinds_said(decision: Decision) -> list[str]:
    """What sorts of messages are told, in order."""
    return [type(message).__name__ for message in decision.messages]


def facts(decision: Decision) -> list[Event]:
    """What will be remembered, without the notes."""
    return [event for event in decision.events if isinstance(event, Event)]


def begun(decision: Decision, kind: type[Done]) -> list[Done]:
    """The effects of one type."""
    return [effect for effect in decision.effects if isinstance(effect, kind)]


def all_of(decisions: Iterable[Decision]) -> Decision:
    """Several decisions as one."""
    listed = list(decisions)
    return Decision(
        tuple(event for decision in listed for event in decision.events),
        tuple(message for decision in listed for message in decision.messages),
        tuple(effect for decision in listed for effect in decision.effects),
    )
