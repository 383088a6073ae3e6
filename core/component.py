"""What a component is: a pure decider between a memory of facts and a host that does everything else.

The host takes an envelope, lets `decide` answer it, numbers and evolves the events, makes the facts durable, tells the
messages and begins the effects. `decide` reads the state and may refuse; `evolve` changes it and may not. `due` replaces
timers: when the instant it names has passed, the host says `Woken`, and says it again at once if it is still past.
"""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from core.fact import Event, Fact, Note
from core.images import Image
from core.messages.base import Envelope, Message
from core.nouns.ids import LogName
from core.nouns.instant import Instant


class Follow(Struct, frozen=True):
    """A log that the host folds for a component, gap-free."""

    log: LogName
    sections: tuple[str, ...]
    """Of its image, that the component reads."""
    is_required: bool = True
    """Whether nothing can be decided before the fold reached the head told at the start. One that is not required
    arrives later as an `ImageAdopted`."""
    with_rows: bool = False
    """Whether the packed rows told beside the facts are wanted too, as `RowsTold`."""
    facts: frozenset[type[Event]] | None = None
    """The facts that are handed on, beside the rows; None: all. Of the others only the sequence is told, by `RowsTold` after each
    batch. Facts that were missed cannot be replaced by rows, so after a gap the component gets an image anew."""


class ImageAdopted(Note, frozen=True):
    """A followed log is known from here on: at a late start, or anew after a gap that could not be read.

    Whatever was derived from that log before is to be forgotten.
    """

    log: LogName
    image: Image
    sequence: int
    has_rows_alone: bool = False
    """Whether from here on only some facts are handed on, and the rows (`Follow.facts`)."""


class RowsAlone(Note, frozen=True):
    """From here on only some facts of a log are handed on, and the rows: the component asked for it (`Refollowing`)."""

    log: LogName


class RowsTold(Note, frozen=True):
    """What the facts just folded made of the nodes that they changed (core/rows.py). Says nothing that they do not.

    With `Follow.facts`, told after every batch, and what the component knows of the nodes.
    """

    log: LogName
    sequence: int
    rows: bytes


class Images(Struct, frozen=True):
    """What a component starts from."""

    at: Instant
    own: Image | None = None
    """A keeper's own log, folded to its head."""
    followed: dict[LogName, tuple[Image, int]] = {}
    """Each followed log that is known already, with the sequence it is folded to."""


class Effect(Struct, frozen=True):
    """A deed that takes longer than a moment. Whatever comes of it comes back as a message."""


class Decision(Struct, frozen=True):
    """What follows from one envelope."""

    events: tuple[Event | Note, ...] = ()
    """Facts (kept, announced) and notes (evolved, kept nowhere), evolved in this order."""
    messages: tuple[Message, ...] = ()
    """Told once the facts, and every fact evolved before them, are durable. Answers go to the envelope's `reply_to`."""
    effects: tuple[Effect, ...] = ()
    """Begun when the messages are told."""


NOTHING = Decision()

State = TypeVar("State")


class Component(Protocol[State]):
    """One role. Its state is in the caller's hands, so a test can hold it too."""

    @property
    def name(self) -> str:
        """Of the host that runs it: the sender of all it says."""

    @property
    def noun(self) -> str:
        """With `scope`, the address it listens to."""

    @property
    def scope(self) -> tuple[str, ...]:
        """Which of its noun it is."""

    @property
    def hears(self) -> tuple[type[Message], ...]:
        """Types, never subjects; anything else is a dead letter."""

    @property
    def follows(self) -> tuple[Follow, ...]:
        """The logs that its host folds for it."""

    @property
    def keeps(self) -> LogName | None:
        """The log whose only writer it is."""

    def initial(self, images: Images) -> State:
        """The state that these images give: indexes rebuilt, notes empty."""

    def decide(self, state: State, envelope: Envelope) -> Decision:
        """What follows from a message. Changes nothing."""

    def evolve(self, state: State, fact: Fact) -> State:
        """The state after a fact or a note. Never refuses."""

    def due(self, state: State) -> Instant | None:
        """The earliest deadline held in state."""


@runtime_checkable
class RowKeeper(Protocol):
    """A keeper whose announcements carry packed rows."""

    def packed_rows(
        self, state: Any, first: int
    ) -> bytes | None:  # Any: a checked protocol cannot name its state
        """The rows of all nodes that facts from this sequence on have changed; None if these are not all known."""


@runtime_checkable
class Forgetful(Protocol):
    """A component whose `decide` fills memos: values equal to a from-scratch computation, in no digest."""

    def forget_memos(self, state: Any) -> None:  # Any: as above
        """Empty them. No decision may change by it."""


@runtime_checkable
class Refollowing(Protocol):
    """A component that changes, while it lives, which facts of a log are handed on to it."""

    def follows_now(self, state: Any) -> tuple[Follow, ...]:  # Any: as above
        """Return how the logs of `follows` are to be followed from now on: the same object until that changes."""


@runtime_checkable
class Counting(Protocol):
    """A component that itself loses a part of what it hears."""

    def losses(self, state: Any) -> Mapping[str, int]:  # Any: as above
        """Return what was lost since the start, by the names in runtime/status/unit_status.py."""
