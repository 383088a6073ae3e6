"""Answers of a log's keeper to a request: the facts recorded for the request, or every reason for a refusal."""

from core.component import Decision
from core.fact import Event
from core.messages.base import Answer, Refused
from core.nouns.reasons import Reason, sentence


def answered(answer: Answer, *events: Event) -> Decision:
    """Return the decision that records these facts, and answers the request once the facts are durable."""
    return Decision(events, (answer,))


def refused(reason: Reason, problems: tuple[str, ...] = ()) -> Decision:
    """Return the decision that records no fact, and answers the request with a reason and all problems."""
    return Decision(messages=(Refused(reason, sentence(reason), problems),))
