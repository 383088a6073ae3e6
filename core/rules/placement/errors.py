"""Errors of placement rules."""

from collections.abc import Sequence


class RuleFailed(Exception):
    """A rule raised an exception; `rule` is the rule's name. The search ends without a place, and no result of the call is kept."""

    def __init__(self, rule: str, what: str) -> None:
        self.rule = rule
        super().__init__(f"{rule}: {what}")


class BadRuleSet(Exception):
    """A rule set that cannot be used; `problems` has all problems, each with the rule's name."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problems))
