"""In which order the hosts of a scenario's plane decide messages, and how long decisions take in simulation."""

from msgspec import Struct

from core.dispatch.costs import tag_of
from core.messages.base import Message
from core.nouns.dispatch import DEFAULT_POLICY, DEFAULT_RATE, DispatchSettings, Target
from core.nouns.instant import SECOND, Nanoseconds
from runtime.dispatch.turns import Pace
from scenarios.schema.parts import Count, NotNegative

MILLISECONDS = 1_000


class DispatchSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ours, unless something is set."""

    policy: str = DEFAULT_POLICY
    """Of core/dispatch/policies/."""
    quantum_ms: NotNegative = 0.0
    rate: Count = DEFAULT_RATE
    """Requests of one tenant in a second, by the policy `token`."""
    targets_ms: dict[str, tuple[NotNegative, NotNegative]] = {}
    """By class, the target and the longest wait, where they are not the default ones."""
    decision_ms: NotNegative = 0.0
    """What each decision takes in simulation; real ones take what they take."""
    decisions_ms: dict[str, NotNegative] = {}
    """The same of messages with these tags, such as `list-starts`."""

    @property
    def settings(self) -> DispatchSettings:
        """As the plane is told."""
        targets = {
            sort: Target(_span(within), _span(wait)) for sort, (within, wait) in self.targets_ms.items()
        }
        return DispatchSettings(self.policy, targets, _span(self.quantum_ms), self.rate)

    @property
    def pace(self) -> Pace | None:
        """As a simulated world takes it; None: decisions take no time."""
        if not (self.decision_ms or self.decisions_ms):
            return None
        spans = {tag: _span(ms) for tag, ms in self.decisions_ms.items()}
        others = _span(self.decision_ms)

        def pace(message: Message) -> Nanoseconds:
            return spans.get(tag_of(type(message)), others)

        return pace


def _span(milliseconds: float) -> Nanoseconds:
    return Nanoseconds(round(milliseconds * SECOND / MILLISECONDS))
