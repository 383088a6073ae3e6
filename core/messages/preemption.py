"""What operators ask a region's placement store about preemption."""

from core.messages.base import Answer, Message
from core.nouns.ids import RegionName
from core.nouns.preemption import PreemptionSettings


class SetPreemption(Message, frozen=True, tag="set-preemption"):
    """From now on victims are chosen so, and so much work may be destroyed."""

    region: RegionName
    settings: PreemptionSettings
    revision: int
    """Of the region's settings of preemption, as the operator saw them; another one is refused as superseded."""
    by: str = ""


class PreemptionAnswered(Answer, frozen=True, tag="preemption-answered"):
    """The region has these settings."""

    settings: PreemptionSettings
    revision: int


MESSAGES: tuple[type[Message], ...] = (SetPreemption, PreemptionAnswered)
