"""The loop on which all concerns of a planner run, and the protocol of a concern.

    old         the solver is asked; the answer arrives as a message
    solved      the command is said to the keeper, `said_max` times at most, until the log shows the answer, or another one
    failed      the recorded answer stays; the key is looked at later, with longer waits after each failure in a row
    no solver   no key of the concern is looked at in this life of the planner

Each key of each concern has a row of its own, so no concern waits for another.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from components.planner.state import Pace, PlannerState, Problem, Row, RowChanged, Rows
from components.replies import answered
from core.agenda import Agenda
from core.component import NOTHING, Decision
from core.effects import Solve
from core.fact import NO_LOG, Fact
from core.messages.base import Message
from core.messages.planning import ConcernShown, ShowConcern
from core.messages.solving import Solved, Unsolved
from core.nouns.ids import LogName
from core.nouns.instant import Instant, Nanoseconds, after, earliest
from core.nouns.limits import COMMAND_SAY_AGAIN

FAILURES_MAX = 32
"""Failures in a row that are counted; the wait has its own ceiling long before."""
NEVER = Nanoseconds(-1)


class LookAgain(Struct, frozen=True):
    """The result of a look, or of an answer, that leaves the planner idle."""

    at: Instant | None = None
    """Time of the next look, if no change makes one due earlier; None: at the next change."""


Found = Problem | LookAgain | tuple[Message, ...] | str
"""The result of a look, or of an answer: a problem to solve, rest, a command to say, or a failure in a sentence."""


class Concern(Protocol):
    """One sort of answers that the planner has solved. Pure: only `adopted` and `follow` change the given rows."""

    name: str
    pace: Pace
    of_queue: tuple[str, ...]
    """Sections of the queue's image that the concern reads."""
    of_regions: tuple[str, ...]
    """Sections of each region's image that the concern reads."""
    unrecorded: str
    """Reason of the failure of a command that was said `said_max` times and is not recorded, a sentence."""

    def adopted(self, rows: Rows, log: LogName, at: Instant) -> None:
        """Begin keys, or note that they moved, because an image of this log was adopted."""

    def follow(self, state: PlannerState, rows: Rows, fact: Fact, at: Instant) -> None:
        """Note which keys a fact moved or shows as recorded, after the images have folded it; `RegionSilent` comes here, too."""

    def look(self, state: PlannerState, key: str, now: Instant) -> Found:
        """Return the problem of a key whose recorded answer is old."""

    def is_outdated(self, state: PlannerState, key: str, problem: Problem) -> bool:
        """Return whether an answer is not wanted any more: then the key is looked at again at once."""

    def command(self, state: PlannerState, key: str, problem: Problem, answer: Struct) -> Found:
        """Return the command that has an answer recorded."""


class Loop:
    """Deciders and folds for all concerns."""

    def __init__(self, concerns: Sequence[Concern]) -> None:
        self.concerns = {concern.name: concern for concern in concerns}
        assert len(self.concerns) == len(concerns), "two concerns have the same name"

    # Folding.

    def adopted(self, state: PlannerState, log: LogName, at: Instant) -> None:
        """Follow an image that was adopted."""
        for name, concern in self.concerns.items():
            concern.adopted(state.rows[name], log, at)

    def fold(self, state: PlannerState, fact: Fact) -> None:
        """Follow a fact, after the images have folded it, or a note."""
        note = fact.event
        if isinstance(note, RowChanged):
            rows = state.rows[note.concern]
            if not note.has_solver:
                rows.has_solver, rows.looks = False, Agenda()
            rows.put(note.key, note.row, note.look_at)
            return
        at = fact.at if fact.log == NO_LOG else fact.heard_at
        for name, concern in self.concerns.items():
            concern.follow(state, state.rows[name], fact, at)

    def due(self, state: PlannerState) -> Instant | None:
        """Return the time of the next look of any concern."""
        return earliest(*(rows.looks.due() for rows in state.rows.values()))

    # Deciding.

    def woken(self, state: PlannerState, now: Instant) -> Decision:
        """Look at all keys that are due."""
        decisions: list[Decision] = []
        for name, concern in self.concerns.items():
            rows = state.rows[name]
            for key in rows.looks.passed(now):
                row = rows.by_key[key]
                found: Found
                if row.command:
                    found = row.command if row.said < concern.pace.said_max else concern.unrecorded
                elif row.solving is not None:
                    found = "the solver does not answer"
                else:
                    found = concern.look(state, key, now)
                decisions.append(_next(concern, key, row, found, now))
        return Decision(
            tuple(note for one in decisions for note in one.events),
            tuple(message for one in decisions for message in one.messages),
            tuple(effect for one in decisions for effect in one.effects),
        )

    def answered(self, state: PlannerState, answer: Solved | Unsolved, now: Instant) -> Decision:
        """Say the command that follows from an answer. Late and repeated answers are dropped."""
        key, concern = answer.key, self.concerns[answer.concern]
        row = state.rows[answer.concern].by_key.get(key, Row())
        if row.solving is None or row.solving.revision != answer.revision:
            return NOTHING
        if isinstance(answer, Unsolved) and answer.is_for_good:
            return _next(concern, key, row, answer.why, now, has_solver=False)
        found: Found
        if concern.is_outdated(state, key, row.solving):
            found = LookAgain(now)
        elif isinstance(answer, Unsolved):
            found = answer.why
        else:
            found = concern.command(state, key, row.solving, answer.answer)
        return _next(concern, key, row, found, now)

    def status(self, state: PlannerState, asked: ShowConcern, now: Instant) -> Decision:
        """Answer whether a key is solved, and why not."""
        rows = state.rows.get(asked.concern)
        if rows is None:
            return answered(ConcernShown(False, False, 0, f"there is no concern {asked.concern}", NEVER))
        row, look_at = rows.by_key.get(asked.key, Row()), rows.looks.at(asked.key)
        again_in = NEVER if look_at is None else Nanoseconds(max(0, look_at - now))
        return answered(
            ConcernShown(rows.has_solver, row.solving is not None, row.failures, row.why, again_in)
        )


def _next(
    concern: Concern, key: str, row: Row, found: Found, now: Instant, *, has_solver: bool = True
) -> Decision:
    """Return the decision that follows from the result of a look or of an answer."""
    pace, look_at = concern.pace, None
    messages: tuple[Message, ...] = ()
    effects: tuple[Solve, ...] = ()
    match found:
        case Problem():
            row, look_at = replace(row, solving=found, looked_at=now), after(now, pace.solve)
            effects = (Solve(concern.name, key, found.revision, found.problem),)
        case LookAgain():
            row, look_at = Row(looked_at=now), found.at
        case str():
            failures = min(row.failures + 1, FAILURES_MAX)
            look_at = after(now, Nanoseconds(min(pace.retry << row.failures, pace.retry_max)))
            row = Row(failures=failures, why=found, looked_at=now)
        case _:
            row = replace(row, solving=None, command=found, said=row.said + 1)
            look_at, messages = after(now, COMMAND_SAY_AGAIN), found
    return Decision((RowChanged(concern.name, key, row, look_at, has_solver),), messages, effects)
