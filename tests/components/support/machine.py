"""A component driven by hand: all that a host does, at once and without a bus, a log or a clock of its own.

It numbers facts and evolves what was decided in the order decided; it folds followed logs; it wakes the component when a
test says so. Beside that it holds the component to its promises: what is decided twice must be the same, and so must what a twin
decides that hears and folds the same, and whose memos are emptied before each decision.
"""

from copy import deepcopy
from typing import Any, Generic

from core.component import (
    NOTHING,
    Component,
    Decision,
    Forgetful,
    ImageAdopted,
    Images,
    Refollowing,
    RowsAlone,
    RowsTold,
    State,
)
from core.events.control import OperationsDone
from core.events.log import LogOpened
from core.fact import NO_LOG, Event, Fact, Note
from core.images import GlobalImage, Image, RegionImage, empty_image
from core.messages.base import Envelope, LogHeard, Message, Woken
from core.messages.control import BeginOperations
from core.nouns.ids import LogName
from core.nouns.instant import Instant, Nanoseconds, after
from core.placing.index.kept import Kept
from core.placing.index.owners import Owners
from core.rows import pack_rows
from core.touched import kept_by, touched_by
from tests.builders import START, opened
from tests.matching import all_of, facts

NOT_AT_ALL = Nanoseconds(0)
WOKEN_MAX = 500
"""Times that one call may wake it; more means that it is due for ever."""


class Machine(Generic[State]):
    """One component and the logs that it keeps and follows."""

    def __init__(
        self,
        component: Component[State],
        *,
        at: Instant = START,
        unknown: tuple[LogName, ...] = (),
        logs: dict[LogName, list[Fact]] | None = None,
        crew: list["Machine[Any]"] | None = None,
        hears_twice: bool = False,
    ) -> None:
        """Start it over these logs, or over empty ones. Logs that are `unknown` must be adopted later.

        One that `hears_twice` hears each message again at once, as if the bus had repeated it; that must record nothing.
        """
        self.crew = [] if crew is None else crew
        """Every machine of a test, this one among them: each is checked when the test has ended."""
        self.crew.append(self)
        self.component = component
        self.now = at
        self.started_at = at
        self.logs = {log: list(facts) for log, facts in (logs or {}).items()}
        self.unknown = self._unknown_at_start = unknown
        for follow in component.follows:
            self.logs.setdefault(follow.log, [])
        if component.keeps is not None:
            self.logs.setdefault(component.keeps, [])
        self.state = component.initial(self._images())
        self._follows = {follow.log: follow for follow in component.follows}
        self.is_image_late = False
        """Whether what the component wants to follow waits until this is false: an image is on its way."""
        """How each log is followed now."""
        self._twin = component.initial(self._images()) if isinstance(component, Forgetful) else None
        """The state of one that remembers nothing: a memo that misses a change is found by the first decision that goes by it."""
        self.heard: list[tuple[Message, Decision]] = []
        """All that was decided."""
        self.hears_twice = hears_twice
        self.journal: list[Fact] = []
        """All that was evolved since, for a replay."""
        self._begun_with = {log: list(facts) for log, facts in self.logs.items()}
        self._decided = 0
        if component.keeps is not None:
            terms = [fact for fact in self.logs[component.keeps] if isinstance(fact.event, LogOpened)]
            self._evolve((opened(len(terms) + 1),), "", component.name)
        for follow in component.follows:
            if follow.log not in unknown:
                self.hear(LogHeard(follow.log))

    # What a test does.

    def hear(
        self,
        message: Message,
        *,
        sender: str = "somebody",
        tenant: str = "",
        waited: Nanoseconds = NOT_AT_ALL,
    ) -> Decision:
        """A message arrives now, with a tenant's credentials or the plane's. Whatever is due stays due: `wake` is another call."""
        self._decided += 1
        envelope = Envelope(message, sender, f"m-{self._decided}", self.now, "inbox", tenant, waited)
        decision = self._decide(envelope)
        self.heard.append((message, decision))
        self._evolve(decision.events, envelope.id, sender)
        if self.hears_twice and not isinstance(message, Woken):
            again = self._decide(envelope)
            # Tasks that were gone already are done as their stop begins, and make room for others that the message names.
            makes_room = isinstance(message, BeginOperations) and any(
                isinstance(event, OperationsDone) for event in decision.events
            )
            assert makes_room or [] == facts(again), (
                f"{type(message).__name__}, heard again, is recorded again"
            )
            self._evolve(again.events, envelope.id, sender)
        self._follow_as_wanted()
        return decision

    def wake(self, at: Instant | None = None) -> Decision:
        """It is `at`, or now: whatever is due is decided, until nothing is. Returns all of it."""
        self.now = max(self.now, at or self.now)
        decisions = []
        while (due := self.component.due(self.state)) is not None and due <= self.now:
            decisions.append(self.hear(Woken(), sender=self.component.name))
            assert len(decisions) < WOKEN_MAX, f"{self.component.name} is due at {due} for ever"
        return all_of(decisions) if decisions else NOTHING

    def hear_due_once(self) -> Decision:
        """It is woken once, though more may be due."""
        return self.hear(Woken(), sender=self.component.name)

    def wait(self, span: Nanoseconds) -> Decision:
        """So much time passes, and it is woken at each instant that it named."""
        end = after(self.now, span)
        decisions = [self.wake()]
        while (due := self.component.due(self.state)) is not None and due <= end:
            decisions.append(self.wake(due))
        decisions.append(self.wake(end))
        return all_of(decisions)

    def fact(self, log: LogName, *events: Event) -> int:
        """Facts of a followed log arrive as one batch. Returns the sequence of the last.

        A component that takes in rows alone gets few of the facts, and the rows of all.
        """
        follow = self._follows.get(log)
        wanted = None if follow is None else follow.facts
        image = self._image(log) if wanted is not None else None
        touched: list[int] = []
        for event in events:
            fact = Fact(log, len(self.logs[log]) + 1, self.now, "cause", "actor", event, self.now)
            self.logs[log].append(fact)
            if isinstance(image, RegionImage):
                touched += [*touched_by(image.capacity, fact), *kept_by(image.starts, fact)]
                image.fold(fact)
            if wanted is None or type(event) in wanted:
                self.fold(fact)
        if isinstance(image, RegionImage) and events:
            rows = pack_rows(image.capacity, touched, Kept(image.starts, Owners.of(image.capacity)))
            self._note(RowsTold(log, len(self.logs[log]), rows))
        return len(self.logs[log])

    def adopt(self, log: LogName, *events: Event) -> None:
        """The followed log became known, or known anew, with these facts at its end."""
        for event in events:
            self.logs[log].append(
                Fact(log, len(self.logs[log]) + 1, self.now, "cause", "actor", event, self.now)
            )
        has_rows_alone = self._follows[log].facts is not None
        note = ImageAdopted(log, self._image(log), len(self.logs[log]), has_rows_alone)
        self.unknown = tuple(name for name in self.unknown if name != log)
        self._note(note)
        self.hear(LogHeard(log))

    def restart(self, *, at: Instant | None = None) -> "Machine[State]":
        """The same component, started again over the same logs: its notes are gone."""
        return Machine(
            self.component, at=at or self.now, unknown=self.unknown, logs=self.logs, crew=self.crew
        )

    def sequence(self, log: LogName) -> int:
        """Of the newest fact of a log."""
        return len(self.logs[log])

    # What it must keep to.

    def check(self) -> None:
        """Replaying gives the same images, nothing was changed by deciding, and it could start again from here."""
        mine = [image.digest() for image in images_of(self.state)]
        again = self.component.initial(
            Images(
                self.started_at,
                self._own_image(self._begun_with),
                self._followed_images(self._begun_with, self._unknown_at_start),
            )
        )
        for fact in self.journal:
            again = self.component.evolve(again, deepcopy(fact))
        assert mine == [image.digest() for image in images_of(again)]
        assert self.component.due(self.state) == self.component.due(again)
        far = Envelope(Woken(), self.component.name, "far", after(self.now, Nanoseconds(10**15)))
        assert self.component.decide(self.state, far) == self.component.decide(again, far)
        if self.component.keeps is not None:
            own = self._own_image(self.logs)
            assert own is not None
            assert own.digest() in mine
            assert own.digest() == type(own).decode(own.encode()).digest()
        self.component.due(self.component.initial(self._images()))

    # What a host does.

    def _decide(self, envelope: Envelope) -> Decision:
        component, state = self.component, self.state
        before = [image.digest() for image in images_of(state)], component.due(state)
        decision = component.decide(state, envelope)
        if self._twin is None or self._decided % 2:
            assert decision == component.decide(state, envelope), "the second time it found something else"
        if self._twin is not None:
            assert isinstance(component, Forgetful), component
            component.forget_memos(self._twin)
            assert decision == component.decide(self._twin, envelope), (
                "with nothing remembered it found something else"
            )
        assert before == ([image.digest() for image in images_of(state)], component.due(state))
        return decision

    def _evolve(self, events: tuple[Event | Note, ...], cause: str, actor: str) -> None:
        for event in events:
            if isinstance(event, Note):
                fact = Fact(NO_LOG, 0, self.now, cause, actor, event, self.now)
            else:
                log = self.component.keeps
                assert log is not None, (self.component.name, event)
                fact = Fact(log, len(self.logs[log]) + 1, self.now, cause, actor, event, self.now)
                self.logs[log].append(fact)
            self.fold(fact)

    def _note(self, note: Note) -> None:
        self.fold(Fact(NO_LOG, 0, self.now, "", self.component.name, note, self.now))

    def _follow_as_wanted(self) -> None:
        if self.is_image_late:
            return
        """Follow otherwise if the component wants that: with fewer facts from here on, with more from an image."""
        if not isinstance(self.component, Refollowing):
            return
        for follow in self.component.follows_now(self.state):
            before, self._follows[follow.log] = self._follows[follow.log], follow
            if before.facts is None and follow.facts is not None:
                self._note(RowsAlone(follow.log))
            elif before.facts != follow.facts:
                self.adopt(follow.log)

    def fold(self, fact: Fact) -> None:
        """Evolve one fact or note, and remember it for the replay."""
        self.journal.append(deepcopy(fact))
        if self._twin is not None:
            self._twin = self.component.evolve(self._twin, deepcopy(fact))
        self.state = self.component.evolve(self.state, fact)

    def _images(self) -> Images:
        return Images(self.now, self._own_image(self.logs), self._followed_images(self.logs, self.unknown))

    def _own_image(self, logs: dict[LogName, list[Fact]]) -> Image | None:
        log = self.component.keeps
        return None if log is None else _folded(empty_image(log), logs[log])

    def _followed_images(
        self, logs: dict[LogName, list[Fact]], unknown: tuple[LogName, ...]
    ) -> dict[LogName, tuple[Image, int]]:
        return {
            follow.log: (
                _folded(empty_image(follow.log, follow.sections), logs[follow.log]),
                len(logs[follow.log]),
            )
            for follow in self.component.follows
            if follow.log not in unknown
        }

    def _image(self, log: LogName) -> Image:
        sections = next(follow.sections for follow in self.component.follows if follow.log == log)
        return _folded(empty_image(log, sections), self.logs[log])


def images_of(state: Any) -> list[Image]:  # Any: whatever state a component has
    """All images that a state holds, by name."""
    found: list[Image] = []
    for _, value in sorted(vars(state).items()):
        values = list(value.values()) if isinstance(value, dict) else [value]
        found.extend(one for one in values if isinstance(one, GlobalImage | RegionImage))
    return found


def _folded(image: Image, facts: list[Fact]) -> Image:
    for fact in facts:
        image.fold(fact)
    return image
