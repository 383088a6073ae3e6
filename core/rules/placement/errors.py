"""What can go wrong with placement rules."""

from collections.abc import Sequence


class RuleFailed(Exception):
    """A rule raised; `rule` is its name. The search that asked it ends without a place, and nothing is remembered of it."""

    def __init__(self, rule: str, what: str) -> None:
        self.rule = rule
        super().__init__(f"{rule}: {what}")


class BadRuleSet(Exception):
    """A rule set that cannot be used; `problems` says all that is wrong, each with the rule."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problems))
