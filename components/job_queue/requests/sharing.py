"""Settings of shared pools by operators, and the shares that a planner has had solved."""

from collections.abc import Callable

from components.job_queue.state.queue_state import QueueState
from components.replies import answered, refused
from core.component import Decision
from core.events.sharing import PolicySet, SharesSet
from core.messages.base import Envelope, Message
from core.messages.sharing import PolicyAnswered, SetPolicy, SetShares, SharesAnswered
from core.nouns.limits import NAME_LENGTH_MAX
from core.nouns.reasons import Reason
from core.rules.shared_pools import facts_of_shares, problems_of_settings, problems_of_shares

HEARD_OF_SHARING: tuple[type[Message], ...] = (SetPolicy, SetShares)


class SharingRecords:
    """The queue's deciders for shared pools."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            SetPolicy: self._set_policy,
            SetShares: self._set_shares,
        }

    def _set_policy(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SetPolicy)
        sharing = state.image.sharing
        if message.settings == sharing.settings and message.revision in (
            sharing.revision,
            sharing.revision - 1,
        ):
            return answered(PolicyAnswered(sharing.settings, sharing.revision))
        problems = problems_of_settings(message.settings)
        if len(message.by) > NAME_LENGTH_MAX:
            problems.append(f"by: {NAME_LENGTH_MAX} characters are the most")
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        if message.revision != sharing.revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {sharing.revision} now",))
        event = PolicySet(message.settings, sharing.revision + 1, message.by)
        return answered(PolicyAnswered(message.settings, sharing.revision + 1), event)

    def _set_shares(self, state: QueueState, envelope: Envelope) -> Decision:
        """Record shares that follow on the present revision: of two planners that solved at one time, only the first succeeds."""
        message = envelope.message
        assert isinstance(message, SetShares)
        sharing = state.image.sharing
        known = sharing.shares.revision
        if message.shares.revision != known + 1:
            return refused(Reason.SUPERSEDED, (f"shares: the newest have revision {known}",))
        if message.policy != sharing.settings.policy:
            return refused(Reason.SUPERSEDED, (f"policy: it is {sharing.settings.policy} now",))
        problems = problems_of_shares(sharing, message.shares)
        if message.sequence > state.sequence:
            problems.append(f"sequence: this log has come to {state.sequence}")
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        event = SharesSet(message.shares, policy=message.policy, sequence=message.sequence)
        return answered(SharesAnswered(known + 1), *facts_of_shares(event))
