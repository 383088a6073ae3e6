"""How shared pools are divided: read from options, and set. Settings that are not named stay as they are."""

from msgspec import Struct

from bus.port import Bus
from core.messages.sharing import PolicyAnswered, SetPolicy
from core.nouns.instant import Nanoseconds
from core.nouns.sharing import WEIGHT, WHOLE, SharingSettings
from mizzen.actions.workloads import TRIES_MAX, before_try
from mizzen.connect.plane import ask_on_revision, submitter
from mizzen.jobs.values import Unreadable, decimal_of, name_of, span_of
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.policies.inputs import policies_of
from mizzen.views.policies.pool_history import sharing_of
from runtime.yaml_tree import shown

NO_ENTITIES = "none"
ON = "on"
"""Of `--space-sharing`; the other word is `off`."""
ROUND_DIGITS, WEIGHT_DIGITS = len(str(WHOLE)) - 1, len(str(WEIGHT)) - 1


class SharingWish(Struct, frozen=True):
    """The settings to change; None: as it is."""

    policy: str | None = None
    round_span: Nanoseconds | None = None
    stay: int | None = None
    """Millionths of a round."""
    entity_weights: dict[str, int] | None = None
    """Thousandths; all others are forgotten."""
    has_pairs: bool | None = None

    def on(self, was: SharingSettings) -> SharingSettings:
        """Return the settings with these changes."""
        return SharingSettings(
            was.policy if self.policy is None else self.policy,
            was.round_span if self.round_span is None else self.round_span,
            was.stay if self.stay is None else self.stay,
            was.has_pairs if self.has_pairs is None else self.has_pairs,
            was.entity_weights if self.entity_weights is None else self.entity_weights,
        )


def sharing_wish_of(
    policy: str, round_length: str, stay: str, entities: str, space_sharing: str | None = None
) -> SharingWish:
    """Return the changes that the options mean. Raises CommandError with everything that is wrong."""
    if not (policy or round_length or stay or entities or space_sharing):
        raise CommandError(
            "nothing is named that should change: a policy, --round, --stay, --entities or --space-sharing",
            MISUSED,
        )
    problems: list[str] = []
    named = policies_of(policy) if policy else ()
    if len(named) > 1 or policy.endswith(".py"):
        problems.append("one policy of `mizzen policy list` divides all shared pools")
    wish = SharingWish(
        policy=named[0] if named else None,
        round_span=_span(round_length, problems),
        stay=_stay(stay, problems),
        entity_weights=_weights(entities, problems),
        has_pairs=None if space_sharing is None else space_sharing == ON,
    )
    if problems:
        raise CommandError("; ".join(problems), MISUSED)
    return wish


def _span(text: str, problems: list[str]) -> Nanoseconds | None:
    if not text:
        return None
    try:
        return span_of(text)
    except Unreadable as error:
        problems.append(f"--round: {error}")
        return None


def _stay(text: str, problems: list[str]) -> int | None:
    if not text:
        return None
    try:
        return int(decimal_of(text, ROUND_DIGITS) * WHOLE)
    except Unreadable as error:
        problems.append(f"--stay: {error}")
        return None


def _weights(text: str, problems: list[str]) -> dict[str, int] | None:
    if not text:
        return None
    weights: dict[str, int] = {}
    for part in [] if text == NO_ENTITIES else text.split(","):
        name, _, weight = part.strip().partition("=")
        try:
            found, entity = int(decimal_of(weight, WEIGHT_DIGITS) * WEIGHT), name_of(name)
        except Unreadable as error:
            problems.append(f"--entities: {error}; write for example ads=2,maps=1, or {NO_ENTITIES}")
            continue
        if not found or entity in weights:
            problems.append(f"--entities: {shown(part)} weighs nothing, or stands twice")
        weights[entity] = found
    return weights


async def set_sharing(bus: Bus, wish: SharingWish) -> PolicyAnswered:
    """Divide shared pools so from the next round on; tried again when somebody else was quicker. Raises CommandError."""
    for number in range(TRIES_MAX):
        await before_try(number)
        was = await sharing_of(bus)
        asked = SetPolicy(wish.on(was.settings), was.revision, submitter())
        done = await ask_on_revision(bus, asked, PolicyAnswered)
        if done is not None:
            return done
    raise CommandError("others set the policy all the time; try again in a moment")
