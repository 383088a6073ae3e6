"""What operators set of preemption, in one region or in all."""

from typing import Any

from msgspec.structs import replace

from bus.port import Bus
from core.messages.preemption import PreemptionAnswered, SetPreemption
from core.nouns.preemption import BidScore, VictimOrder
from mizzen.actions.workloads import TRIES_MAX
from mizzen.connect.plane import ask_on_revision, submitter
from mizzen.jobs.values import Unreadable, span_of
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.plane_reads import chosen_regions, pause, region_image
from runtime.yaml_tree import shown

AUTO = "auto"
HOUR_SECONDS = 3_600
DIGITS_MAX = 12
Wish = dict[str, Any]  # Any: a value of each field that is to be set
"""Fields of `PreemptionSettings`."""


def wish_of(*, order: str, score: str, ask: str, claim_max: str, hour_max: str, is_paper: bool) -> Wish:
    """What is meant by the options; an empty one says nothing. Raises CommandError with everything that is wrong."""
    wish: Wish = {"order": VictimOrder.PAPER, "score": BidScore.PAPER} if is_paper else {}
    problems = []
    for name, text, kind in (("order", order, VictimOrder), ("score", score, BidScore)):
        if text and text not in [*kind]:
            problems.append(f"--{name}: {shown(text)} is neither {' nor '.join(kind)}")
        elif text:
            wish[name] = kind(text)
    if ask:
        try:
            wish["ask_span"] = span_of(ask)
        except Unreadable as error:
            problems.append(f"--ask: {error}")
    for name, text in (("claim_max", claim_max), ("hour_max", hour_max)):
        is_count = text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX and int(text) > 0
        if text and text != AUTO and not is_count:
            option = name.replace("_", "-")
            problems.append(
                f"--{option}: {shown(text)} is no count of GPU-hours; write --{option} 100, or auto"
            )
        elif text:
            wish[name] = 0 if text == AUTO else int(text) * HOUR_SECONDS
    if len(problems) == 1:
        raise CommandError(problems[0], MISUSED)
    if problems:
        raise CommandError(f"{len(problems)} things are wrong; nothing was asked for", MISUSED, problems)
    return wish


async def set_preemption(bus: Bus, wish: Wish, region: str = "") -> None:
    """Record it in each region that is meant; what is not wished for stays as it is. Raises CommandError."""
    for where in await chosen_regions(bus, region):
        for _ in range(TRIES_MAX):
            known = (await region_image(bus, where, ("preemption",))).preemption
            message = SetPreemption(where, replace(known.settings, **wish), known.revision, submitter())
            if await ask_on_revision(bus, message, PreemptionAnswered) is not None:
                break
        else:
            raise CommandError(f"others set preemption of {where} all the time; try again in a moment")
        await _shows(bus, where, message)


async def _shows(bus: Bus, where: Any, message: SetPreemption) -> None:  # Any: a region's name
    """Until the region's image has it: it is durable by then."""
    for _ in range(TRIES_MAX):
        if (await region_image(bus, where, ("preemption",))).preemption.settings == message.settings:
            return
        await pause()
