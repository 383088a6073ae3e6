"""The order in which all hosts decide messages: read from options, and set. Settings that are not named stay as they are."""

from collections.abc import Iterable

from msgspec import Struct

from bus.port import Bus
from core.dispatch.settings import problems_of_settings
from core.messages.dispatch import DispatchAnswered, SetDispatch, ShowDispatchSettings
from core.nouns.dispatch import TARGETS, DispatchSettings, Target, UrgencyClass
from core.nouns.instant import Nanoseconds
from mizzen.actions.workloads import TRIES_MAX, before_try
from mizzen.connect.plane import ask, ask_on_revision, submitter
from mizzen.jobs.values import Unreadable, span_of, whole_of
from mizzen.terminal.output import MISUSED, CommandError
from runtime.yaml_tree import shown

DEFAULT = "default"
"""In place of a class's spans: the default target."""


class TargetWish(Struct, frozen=True):
    """The target of one class, as an operator wants it."""

    within: Nanoseconds
    max_wait: Nanoseconds | None = None
    """None: as it is, but no shorter than `within`."""

    def on(self, was: Target) -> Target:
        """Return the target with these changes."""
        if self.max_wait is None:
            return Target(self.within, max(was.max_wait, self.within))
        return Target(self.within, self.max_wait)


class DispatchWish(Struct, frozen=True):
    """The settings to change; None: as it is."""

    policy: str | None = None
    targets: dict[str, TargetWish | None] = {}
    """By class; None: the default target."""
    quantum: Nanoseconds | None = None
    rate: int | None = None

    def on(self, was: DispatchSettings) -> DispatchSettings:
        """Return the settings with these changes; only targets that differ from the default ones are in them."""
        targets = {}
        for sort in UrgencyClass:
            target = was.target(sort)
            if sort in self.targets:
                wish = self.targets[sort]
                target = TARGETS[sort] if wish is None else wish.on(target)
            if target != TARGETS[sort]:
                targets[str(sort)] = target
        return DispatchSettings(
            was.policy if self.policy is None else self.policy,
            targets,
            was.quantum if self.quantum is None else self.quantum,
            was.rate if self.rate is None else self.rate,
        )


class Done(Struct, frozen=True):
    """The settings as they are now."""

    settings: DispatchSettings
    revision: int


def dispatch_wish_of(policy: str, classes: Iterable[str], quantum: str, rate: str) -> DispatchWish:
    """Return the changes that the options mean. Raises CommandError with every problem, before a plane is asked."""
    listed = list(classes)
    if not (policy or listed or quantum or rate):
        raise CommandError("say what is to be set: --policy, --class, --quantum or --rate", MISUSED)
    problems: list[str] = []
    wish = DispatchWish(
        policy=policy or None,
        targets=_targets(listed, problems),
        quantum=_span("quantum", quantum, problems) if quantum else None,
        rate=_rate(rate, problems) if rate else None,
    )
    problems += problems_of_settings(wish.on(DispatchSettings()))
    if len(problems) == 1:
        raise CommandError(problems[0], MISUSED)
    if problems:
        raise CommandError(f"{len(problems)} things are wrong; nothing was set", MISUSED, problems)
    return wish


async def set_dispatch(bus: Bus, wish: DispatchWish) -> Done:
    """Set the order for all hosts; try again when another operator was quicker. Raises CommandError."""
    for number in range(TRIES_MAX):
        await before_try(number)
        was = await ask(bus, ShowDispatchSettings(), DispatchAnswered)
        asked = SetDispatch(wish.on(was.settings), was.revision, submitter())
        done = await ask_on_revision(bus, asked, DispatchAnswered)
        if done is not None:
            return Done(done.settings, done.revision)
    raise CommandError("other operators set dispatch all the time; try again in a moment")


def _targets(texts: list[str], problems: list[str]) -> dict[str, TargetWish | None]:
    found: dict[str, TargetWish | None] = {}
    for text in texts:
        name, equals, spans = (part.strip() for part in text.partition("="))
        if not equals or not spans:
            problems.append(
                f"class: {shown(text)} sets nothing; write --class query=2s, query=2s/10s or query={DEFAULT}"
            )
        elif name not in set(UrgencyClass):
            problems.append(f"class: there is no {shown(name)}; there are {', '.join(UrgencyClass)}")
        elif name in found:
            problems.append(f"class: {name} is named twice")
        else:
            found[name] = None if spans == DEFAULT else _target(name, spans, problems)
    return found


def _target(name: str, text: str, problems: list[str]) -> TargetWish | None:
    within_text, slash, wait_text = (part.strip() for part in text.partition("/"))
    within = _span(name, within_text, problems)
    max_wait = _span(name, wait_text, problems) if slash else None
    return None if within is None else TargetWish(within, max_wait)


def _span(name: str, text: str, problems: list[str]) -> Nanoseconds | None:
    try:
        return span_of(text)
    except Unreadable as error:
        problems.append(f"{name}: {error}")
        return None


def _rate(text: str, problems: list[str]) -> int | None:
    try:
        return whole_of(text)
    except Unreadable as error:
        problems.append(f"rate: {error}; write --rate 20")
        return None
