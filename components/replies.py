"""How keepers answer whoever asked: with what was recorded for it, or with every reason why nothing was."""

from core.component import Decision
from core.fact import Event
from core.messages.base import Answer, Refused
from core.nouns.reasons import Reason, sentence


def answered(answer: Answer, *events: Event) -> Decision:
    """An answer, once these facts are durable."""
    return Decision(events, (answer,))


def refused(reason: Reason, problems: tuple[str, ...] = ()) -> Decision:
    """Nothing changes, and why."""
    return Decision(messages=(Refused(reason, sentence(reason), problems),))
