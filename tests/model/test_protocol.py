"""award → claim → end, every state of it. With all rules on nothing is broken and nothing gets stuck; with
any one of them off something is, and the shortest way there is printed (`pytest -s`). If a change of the
design makes a rule superfluous, its test fails, and the rule should go.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace

import pytest

from tests.model.explorer import Exploration, TooManyStates, explore
from tests.model.layout import Phase
from tests.model.protocol import AwardProtocol
from tests.model.rules import Bounds, Rules

ALL_ON = Rules()
EVERYTHING_SMALL = Bounds(epochs=1, has_victim=True, has_cuts=True)

EXPLORED = [
    pytest.param(Bounds(), id="two epochs"),
    pytest.param(Bounds(agents=1, has_victim=True), id="two epochs over a victim"),
    pytest.param(Bounds(agents=1, has_cuts=True), id="two epochs with cuts"),
    pytest.param(EVERYTHING_SMALL, id="one epoch with everything"),
]
SOAKED = [
    pytest.param(Bounds(epochs=3, agents=1), id="three epochs"),
    pytest.param(Bounds(has_victim=True), id="two epochs over a victim, two agents"),
    pytest.param(Bounds(has_cuts=True), id="two epochs with cuts, two agents"),
]

# What each rule keeps from happening.
KEPT_AWAY = {
    "silence_never_frees_an_award": "an attempt is live whose award does not stand",
    "record_before_telling": "one epoch names two awards",
    "queue_ends_only_on_region_word": "a finished workload holds or runs something",
    "resaid_until_shown": "stuck for ever",
    "grant_recorded_before_start": "a finished workload holds or runs something",
    "grant_once_per_epoch": "an attempt is live whose award does not stand",
    "award_must_stand": "an attempt is live whose award does not stand",
    "read_up_to_the_award_first": "only not yet read",
    "declined_epoch_stays_declined": "an attempt is live whose award does not stand",
    "forget_only_when_superseded": "an attempt is live whose award does not stand",
    "restart_reads_on_to_the_head": "an attempt is live whose award does not stand",
    "capacity_frees_only_when_empty": "a finished workload holds or runs something",
    "empty_answers_the_stop": "a finished workload holds or runs something",
    "silence_ends_only_after_isolation": "a finished workload holds or runs something",
    "worker_refuses_older": "a finished workload holds or runs something",
    "worker_keeps_highest_on_disk": "a finished workload holds or runs something",
    "cut_worker_joins_first": "a finished workload holds or runs something",
    "end_reported_until_recorded": "stuck for ever",
    "grant_waits_for_the_victim": "capacity does not sum to its total",
    "promise_reserves": "a promise holds nothing",
    "withdrawn_promise_spares": "for a promise that was withdrawn",
}

# Those of them without which, though nobody cancels anything, one workload is in two places.
DOUBLED = [
    "silence_never_frees_an_award",
    "grant_recorded_before_start",
    "grant_once_per_epoch",
    "award_must_stand",
    "declined_epoch_stays_declined",
    "forget_only_when_superseded",
    "restart_reads_on_to_the_head",
    "capacity_frees_only_when_empty",
    "empty_answers_the_stop",
    "silence_ends_only_after_isolation",
    "worker_refuses_older",
    "worker_keeps_highest_on_disk",
    "cut_worker_joins_first",
]


@pytest.mark.parametrize("bounds", EXPLORED)
def test_with_all_rules_nothing_breaks_and_nothing_gets_stuck(bounds: Bounds) -> None:
    """No two live attempts, no capacity lost sight of, nothing held for a finished workload; and quiet can be
    reached from everywhere, without counting on a cancel, a misfortune, or a message that nobody repeats.
    """
    seen = explore(AwardProtocol(ALL_ON, bounds))
    report(bounds, seen)
    assert seen.finding is None, str(seen.finding)
    assert seen.quiet_states > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bounds", SOAKED)
def test_nor_do_they_within_wider_bounds(bounds: Bounds) -> None:
    """The same holds where there is more to go wrong at once."""
    seen = explore(AwardProtocol(ALL_ON, bounds))
    report(bounds, seen)
    assert seen.finding is None, str(seen.finding)


@pytest.mark.parametrize("rule", [field.name for field in fields(Rules)])
def test_a_rule_switched_off_is_found(rule: str) -> None:
    """Each rule is needed: without it there is a way to break something, and it is shown step by step."""
    seen = explored_without(rule)
    report(rule, seen)
    assert seen.finding is not None, f"{rule} is not needed, or the model is too coarse to need it"
    assert KEPT_AWAY[rule] in seen.finding.what
    assert len(seen.finding.trace) > 0


@pytest.mark.parametrize("rule", DOUBLED)
def test_a_rule_switched_off_lets_two_run_at_once(rule: str) -> None:
    """What these rules are for: two attempts of one workload live, or its tasks running in two places."""
    seen = explore(TwoAtOnce(replace(ALL_ON, **{rule: False}), Bounds(agents=1, has_cuts=True)))
    report(rule, seen)
    assert seen.finding is not None
    assert seen.finding.what.startswith("two ")


def test_every_action_happens() -> None:
    """No action of the model is dead: each changes some state that can be reached."""
    model = Recording(ALL_ON, EVERYTHING_SMALL)
    explore(model)
    everything = [*model.actions, *(action for _, actions in model.actions_about for action in actions)]
    assert {action.label for action in everything} == model.happened


def test_a_whole_life_happens() -> None:
    """The model is not quiet for want of doing: what one region declines, the other completes."""
    seen = explore(CompletesElsewhere(ALL_ON, Bounds(agents=1)))
    report("a whole life", seen)
    assert seen.finding is not None
    assert "completed in B" in seen.finding.what


def test_the_explorer_shows_a_shortest_way() -> None:
    """What it finds it finds by the fewest steps."""
    seen = explore(Counter(broken=4, quiet=frozenset({0})))
    assert seen.finding is not None
    assert seen.finding.trace == ("double  [2]", "double  [4]")


def test_the_explorer_finds_stuck_states() -> None:
    """A state from which sure steps never lead to a quiet one is found, although an unsure one would."""
    seen = explore(Counter(broken=-1, quiet=frozenset({8})))
    assert seen.finding is not None
    assert seen.finding.what == "stuck for ever: 3"


def test_the_explorer_has_a_ceiling() -> None:
    """A model that is larger than it should be is an error, not a long wait."""
    with pytest.raises(TooManyStates):
        explore(AwardProtocol(ALL_ON, Bounds()), states_max=1000)


def explored_without(rule: str) -> Exploration:
    """The first bounds, from the smallest, within which something goes wrong."""
    rules = replace(ALL_ON, **{rule: False})
    seen = explore(AwardProtocol(rules, Bounds(epochs=1)))
    for bounds in (Bounds(epochs=1, has_victim=True), Bounds(epochs=1, has_cuts=True), Bounds()):
        if seen.finding is not None:
            break
        seen = explore(AwardProtocol(rules, bounds))
    return seen


def report(title: object, seen: Exploration) -> None:
    """Counts, and the way to what was found."""
    print(f"\n{title}: {seen.states} states, {seen.steps} steps, {seen.quiet_states} quiet")
    print(seen.finding or "nothing found")


class TwoAtOnce(AwardProtocol):
    """The model in which nobody cancels, and which minds nothing but two attempts at once."""

    def successors(self, state: int) -> Iterator[tuple[str, int, bool]]:
        return (step for step in super().successors(state) if step[0] != "queue hears a cancel")

    def violations(self, state: int) -> list[str]:
        return [what for what in super().violations(state) if what.startswith("two ")]


class CompletesElsewhere(AwardProtocol):
    """The model that takes for a fault what should be possible."""

    def violations(self, state: int) -> list[str]:
        story = self.describe(state)
        is_told = "A: 1 declined" in story and "B: 2 completed" in story
        return ["completed in B"] if is_told and self.layout.phase.of(state) == Phase.ENDED else []


class Recording(AwardProtocol):
    """The model that remembers which of its actions ever changed anything."""

    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        super().__init__(rules, bounds)
        self.happened: set[str] = set()

    def successors(self, state: int) -> Iterator[tuple[str, int, bool]]:
        for step in super().successors(state):
            self.happened.add(step[0])
            yield step


class Counter:
    """Numbers from 1 to 9: `double` is sure, `less one` is not. Small enough to know the answers by heart."""

    def __init__(self, broken: int, quiet: frozenset[int]) -> None:
        self.broken, self.quiet = broken, quiet

    def initial(self) -> Iterable[int]:
        return [1]

    def successors(self, state: int) -> Iterable[tuple[str, int, bool]]:
        if state * 2 < 10:
            yield "double", state * 2, True
        if state > 1:
            yield "less one", state - 1, False

    def violations(self, state: int) -> list[str]:
        return ["broken"] if state == self.broken else []

    def is_quiet(self, state: int) -> bool:
        return state in self.quiet

    def describe(self, state: int) -> str:
        return str(state)
