"""What a script does to single messages: hold back, let go, drop, repeat, or act at the moment when one arrives."""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from core.messages.base import Message

Where = Callable[[Any], bool]  # Any: of the type that the rule is about


def anything(message: Message) -> bool:
    """Whatever it says."""
    return True


class Rule:
    """What is done to some messages."""

    def __init__(self, kinds: tuple[type[Message], ...], sender: str, hearer: str, where: Where) -> None:
        self.kinds, self.sender, self.hearer, self.where = kinds, sender, hearer, where
        self.is_on = True

    def is_about(self, sender: str, hearer: str, message: Message) -> bool:
        """Whether it is one of them."""
        return (
            self.is_on
            and isinstance(message, self.kinds)
            and fnmatchcase(sender, self.sender)
            and fnmatchcase(hearer, self.hearer)
            and self.where(message)
        )

    def passes(self, message: Message, let_go: Callable[[], None]) -> bool:
        """Whether it arrives now."""
        raise NotImplementedError

    def end(self) -> None:
        """From now on messages pass."""
        self.is_on = False


class Hold(Rule):
    """Keeps them back until they are let go."""

    def __init__(self, *about: Any) -> None:  # Any: as Rule
        super().__init__(*about)
        self.held: list[tuple[Message, Callable[[], None]]] = []

    def passes(self, message: Message, let_go: Callable[[], None]) -> bool:
        self.held.append((message, let_go))
        return False

    @property
    def messages(self) -> list[Any]:  # Any: of the types that it holds
        """What is held, in the order in which it came."""
        return [message for message, _ in self.held]

    def let_go(self, count: int | None = None) -> None:
        """Let the first so many arrive, or all; what is said from now on passes if it was all."""
        if count is None:
            self.end()
        for _, arrive in self.held[:count]:
            arrive()
        del self.held[:count]


class Drop(Rule):
    """Loses the first so many of them, or all."""

    def __init__(self, count: int | None, *about: Any) -> None:  # Any: as Rule
        super().__init__(*about)
        self.left = count
        self.dropped = 0

    def passes(self, message: Message, let_go: Callable[[], None]) -> bool:
        if self.left is not None and self.dropped >= self.left:
            return True
        self.dropped += 1
        return False


class Keep(Rule):
    """Lets them pass, and keeps a copy of each that can arrive again, as often as wanted."""

    def __init__(self, *about: Any) -> None:  # Any: as Rule
        super().__init__(*about)
        self.kept: list[tuple[Message, Callable[[], None]]] = []

    def passes(self, message: Message, let_go: Callable[[], None]) -> bool:
        self.kept.append((message, let_go))
        return True

    @property
    def messages(self) -> list[Any]:  # Any: of the types that it keeps
        """What passed, in the order in which it came."""
        return [message for message, _ in self.kept]

    def repeat(self) -> None:
        """All of them arrive once more."""
        for _, arrive in self.kept:
            arrive()


class At(Rule):
    """Does something when the first of them arrives, before it is heard; whoever dies of it does not hear it."""

    def __init__(self, act: Callable[[], None], *about: Any) -> None:  # Any: as Rule
        super().__init__(*about)
        self._act = act
        self.has_happened = False

    def passes(self, message: Message, let_go: Callable[[], None]) -> bool:
        if not self.has_happened:
            self.has_happened = True
            self._act()
            return False
        return True


class Script:
    """All rules, asked in the order in which they were made; the first that is about a message decides."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []

    def __call__(self, sender: str, hearer: str, message: Message, let_go: Callable[[], None]) -> bool:
        for rule in self.rules:
            if rule.is_about(sender, hearer, message):
                return rule.passes(message, let_go)
        return True

    def hold(
        self, *kinds: type[Message], sender: str = "*", hearer: str = "*", where: Where = anything
    ) -> Hold:
        """Hold such messages back."""
        rule = Hold(kinds, sender, hearer, where)
        self.rules.append(rule)
        return rule

    def drop(
        self,
        *kinds: type[Message],
        sender: str = "*",
        hearer: str = "*",
        where: Where = anything,
        count: int | None = None,
    ) -> Drop:
        """Lose such messages."""
        rule = Drop(count, kinds, sender, hearer, where)
        self.rules.append(rule)
        return rule

    def keep(
        self, *kinds: type[Message], sender: str = "*", hearer: str = "*", where: Where = anything
    ) -> Keep:
        """Keep copies of such messages."""
        rule = Keep(kinds, sender, hearer, where)
        self.rules.append(rule)
        return rule

    def at(
        self,
        act: Callable[[], None],
        *kinds: type[Message],
        sender: str = "*",
        hearer: str = "*",
        where: Where = anything,
    ) -> At:
        """Act when the first such message arrives."""
        rule = At(act, kinds, sender, hearer, where)
        self.rules.append(rule)
        return rule

    def end(self) -> None:
        """Everything passes from now on; what is held arrives."""
        for rule in self.rules:
            rule.end()
            if isinstance(rule, Hold):
                rule.let_go()
