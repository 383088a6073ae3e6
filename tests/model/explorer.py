"""A small breadth-first explorer of explicit states. It visits every state that a model can reach, asks each
whether something is broken in it, and then walks backwards from the quiet ones: a state from which no quiet
one can be reached is one where the protocol is stuck. Breadth first, so that the trace it shows is a shortest
one.
"""

from array import array
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

StateT = TypeVar("StateT", bound=Hashable)


class Model(Protocol[StateT]):
    """A transition system. States are values: equal states are one state, and none is ever changed in place.

    A step is (label, state after it, is_sure). A sure step is one that somebody can be counted on to bring
    about: a message that is said again until it is heard, a log that is read on. Misfortune, a change of
    mind, and a message that nobody will repeat are steps that *may* happen; safety looks at all steps,
    liveness only at the sure ones.
    """

    def initial(self) -> Iterable[StateT]: ...
    def successors(self, state: StateT) -> Iterable[tuple[str, StateT, bool]]: ...
    def violations(self, state: StateT) -> list[str]: ...
    def is_quiet(self, state: StateT) -> bool: ...
    def describe(self, state: StateT) -> str: ...


@dataclass(frozen=True)
class Finding:
    """What is broken, and the shortest way there, a line a step."""

    what: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{number:3}. {line}" for number, line in enumerate(self.trace, start=1)]
        return "\n".join([self.what, *lines])


@dataclass(frozen=True)
class Exploration:
    """How much was seen, and what was found: nothing, when all is well."""

    states: int
    steps: int
    quiet_states: int
    finding: Finding | None


class TooManyStates(Exception):
    """The model is larger than its ceiling: wrong bounds, or a field that grows without end."""


def explore(model: Model[StateT], states_max: int = 2_000_000) -> Exploration:
    """Visit every reachable state; stop at the first that is broken, else look for one that is stuck."""
    search = _Search(model, states_max)
    broken = search.run()
    if broken is None:
        broken = search.stuck()
    return Exploration(len(search.order), search.steps, search.quiet_states, broken)


class _Search(Generic[StateT]):
    """One run. States are numbered as they are met, and so by their distance from the start."""

    def __init__(self, model: Model[StateT], states_max: int) -> None:
        self.model = model
        self.states_max = states_max
        self.order: list[StateT] = []
        self.number: dict[StateT, int] = {}
        self.parent = array("i")
        # The sure steps, kept backwards as linked lists in flat arrays: millions of them must fit.
        self.edge_from = array("i")
        self.edge_next = array("i")
        self.edge_first = array("i")
        self.steps = 0
        self.quiet_states = 0

    def run(self) -> Finding | None:
        """Visit everything. Returns the nearest broken state, with the way to it."""
        for state in self.model.initial():
            if state not in self.number:
                self._meet(state, parent=-1)
        number, successors, violations = self.number, self.model.successors, self.model.violations
        here = 0
        while here < len(self.order):
            state = self.order[here]
            broken = violations(state)
            if broken:
                return Finding("; ".join(broken), self._trace(here))
            for _, after, is_sure in successors(state):
                self.steps += 1
                there = number.get(after)
                if there is None:
                    there = self._meet(after, parent=here)
                if is_sure:
                    self.edge_from.append(here)
                    self.edge_next.append(self.edge_first[there])
                    self.edge_first[there] = len(self.edge_from) - 1
            here += 1
        return None

    def stuck(self) -> Finding | None:
        """The nearest state from which sure steps lead to no quiet state, or None."""
        is_saved = bytearray(len(self.order))
        open_states = [here for here, state in enumerate(self.order) if self.model.is_quiet(state)]
        self.quiet_states = len(open_states)
        for here in open_states:
            is_saved[here] = 1
        while open_states:
            edge = self.edge_first[open_states.pop()]
            while edge >= 0:
                before = self.edge_from[edge]
                if not is_saved[before]:
                    is_saved[before] = 1
                    open_states.append(before)
                edge = self.edge_next[edge]
        lost = is_saved.find(0)
        if lost < 0:
            return None
        return Finding(f"stuck for ever: {self.model.describe(self.order[lost])}", self._trace(lost))

    def _meet(self, state: StateT, parent: int) -> int:
        if len(self.order) >= self.states_max:
            raise TooManyStates(f"more than {self.states_max} states")
        here = len(self.order)
        self.number[state] = here
        self.order.append(state)
        self.parent.append(parent)
        self.edge_first.append(-1)
        return here

    def _trace(self, here: int) -> tuple[str, ...]:
        """The way to a state. Labels are not kept while searching: each is found from the state before."""
        lines: list[str] = []
        while self.parent[here] >= 0:
            before = self.parent[here]
            state = self.order[here]
            steps = self.model.successors(self.order[before])
            label = next(label for label, after, _ in steps if after == state)
            lines.append(f"{label}  [{self.model.describe(state)}]")
            here = before
        return tuple(reversed(lines))
