"""What came of a run."""

from msgspec import Struct

from core.invariants.consistency import Violation
from scenarios.schema.expectations import Met


class Outcome(Struct):
    """One scenario from one seed, in figures and in what should not be."""

    scenario: str
    seed: int
    world: str
    digest: str = ""
    """Simulated: over every message delivered and every log. Real processes: over every log."""
    violations: list[Violation] = []
    problems: list[str] = []
    """Everything else that a check found: lost workloads, capacity held at the end, processes that died by themselves."""
    expectations: list[Met] = []
    figures: dict[str, float] = {}
    """scenarios/schema/expectations.py says what each is."""
    gpu_seconds_lost: dict[str, float] = {}
    """That ran and do not count, by the cause of the attempt's end."""
    ended: dict[str, int] = {}
    wanted: dict[str, int] = {}
    """How often each fault was to strike."""
    strikes: dict[str, int] = {}
    """How often it did: its time may not have come, or there was nothing to strike."""
    skipped: dict[str, str] = {}
    """Faults that this world cannot cause, and why."""
    unchecked: dict[str, str] = {}
    """Checks that need to see what this world does not show, and why."""
    directory: str = ""
    """Of real processes: where their logs are."""
    kills: int = 0
    messages: int = 0
    heads_and_beats: int = 0
    facts: int = 0
    virtual_seconds: float = 0.0
    wall_seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether nothing was wrong, and every expectation was met."""
        return not self.violations and not self.problems and all(met.is_met for met in self.expectations)

    def first_problem(self) -> str:
        """The first thing that was wrong, in a line; empty if nothing was."""
        for violation in self.violations:
            return f"rule {violation.rule}: {violation.log} {violation.sequence}: {violation.text}"
        for problem in self.problems:
            return problem
        for met in self.expectations:
            if not met.is_met:
                return f"expected {met.expectation}, and it is {met.value:g}"
        return ""
