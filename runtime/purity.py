"""The check that deciding is pure, which a host makes where decisions are taken twice: in tests and in simulated planes."""

from core.component import Component, Decision, Forgetful, State
from core.messages.base import Envelope
from runtime.errors import BrokenInvariant


def check_purity(component: Component[State], state: State, decision: Decision, envelope: Envelope) -> None:
    """Check that deciding the envelope again, with empty memos, gives the same decision. Raises BrokenInvariant.

    Deciding changes nothing, and what it may fill for speed changes no decision.
    """
    if isinstance(component, Forgetful):
        component.forget_memos(state)
    if component.decide(state, envelope) != decision:
        message = type(envelope.message).__name__
        raise BrokenInvariant(component.name, f"decided {message} twice, and not alike")
