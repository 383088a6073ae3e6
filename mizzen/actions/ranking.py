"""By which rules the queue ranks: read from options, set, and told beside those of MAST's paper. What is not said stays as it is."""

from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from bus.port import Bus
from core.messages.tenants import RankingAnswered, SetRanking, ShowRanking
from core.nouns.instant import MILLISECOND, Nanoseconds, seconds
from core.nouns.ranking import CreditSettings, DeadlinePolicy, RankingSettings
from core.ranking.scan import NO_PATIENCE
from mizzen.actions.workloads import TRIES_MAX, before_try
from mizzen.connect.plane import ask, ask_on_revision, submitter
from mizzen.jobs.values import Unreadable, span_of, span_text
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.phrases.text import columns_text
from runtime.yaml_tree import shown

Value = TypeVar("Value")

COUNT_DIGITS_MAX = 18
NEVER_TEXT = "never"
COLUMNS = ("RULE", "IS", "PAPER", "MEANING")
NAMED_NOWHERE = "-"
PAPER_PASS: Nanoseconds = seconds(300)
"""MAST §4.2: a pass takes the queue's ranking anew every five minutes."""


class RankingWish(Struct, frozen=True):
    """What is to be set; None: as it is."""

    is_paper: bool = False
    """Every rule for which the paper has another one; the figures that it does not name stay."""
    half_life: Nanoseconds | None = None
    age_cap: Nanoseconds | None = None
    share_weight: Nanoseconds | None = None
    lag_weight: int | None = None
    lag_cap: Nanoseconds | None = None
    quota_patience: Nanoseconds | None = None
    gather_percent: int | None = None
    pass_span: Nanoseconds | None = None
    shares_by_entitlement: bool | None = None
    walks_by_level: bool | None = None
    counts_borrowed: bool | None = None
    is_in_passes: bool | None = None
    deadlines: DeadlinePolicy | None = None
    pending_max: int | None = None
    remembered_max: int | None = None

    def on(self, was: RankingSettings) -> RankingSettings:
        """What is wished for, on top of what is so."""
        base = paper_of(was) if self.is_paper else was
        credit = replace(
            base.credit,
            half_life=_or(self.half_life, base.credit.half_life),
            age_cap=_or(self.age_cap, base.credit.age_cap),
            share_weight=_or(self.share_weight, base.credit.share_weight),
            lag_weight=_or(self.lag_weight, base.credit.lag_weight),
            lag_cap=_or(self.lag_cap, base.credit.lag_cap),
        )
        return RankingSettings(
            credit=credit,
            shares_by_entitlement=_or(self.shares_by_entitlement, base.shares_by_entitlement),
            walks_by_level=_or(self.walks_by_level, base.walks_by_level),
            counts_borrowed=_or(self.counts_borrowed, base.counts_borrowed),
            is_in_passes=_or(self.is_in_passes, base.is_in_passes),
            quota_patience=_or(self.quota_patience, base.quota_patience),
            gather_percent=_or(self.gather_percent, base.gather_percent),
            pass_span=_or(self.pass_span, base.pass_span),
            deadlines=_or(self.deadlines, base.deadlines),
            pending_max=_or(self.pending_max, base.pending_max),
            remembered_max=_or(self.remembered_max, base.remembered_max),
        )


def _or(wished: Value | None, was: Value) -> Value:
    return was if wished is None else wished


def paper_of(was: RankingSettings) -> RankingSettings:
    """The same figures by the paper's rules: shares of the mean, one walk by credit in which who does not fit keeps nothing, what is
    borrowed counts, is lent by the same credit and gathered for nobody, an order every 5 minutes.
    """
    return RankingSettings(
        replace(was.credit, lag_weight=0),
        shares_by_entitlement=False,
        walks_by_level=False,
        counts_borrowed=True,
        is_in_passes=True,
        quota_patience=NO_PATIENCE,
        gather_percent=0,
        pass_span=PAPER_PASS,
        deadlines=DeadlinePolicy.OFF,
        pending_max=was.pending_max,
        remembered_max=was.remembered_max,
    )


def ranking_wish_of(
    *,
    half_life: str,
    age_cap: str,
    share_weight: str,
    lag_weight: str,
    lag_cap: str,
    quota_patience: str,
    gather: str,
    pass_span: str,
    share_by: str,
    walk: str,
    borrowed_counts: str,
    order: str,
    deadlines: str = "",
    pending_max: str = "",
    remembered_max: str = "",
    is_paper: bool,
) -> RankingWish | None:
    """What is meant by the options, None by none. Raises CommandError with everything that is wrong."""
    figures = (half_life, age_cap, share_weight, lag_weight, lag_cap, quota_patience, gather, pass_span)
    given = (*figures, share_by, walk, borrowed_counts, order, deadlines, pending_max, remembered_max)
    if not any(given) and not is_paper:
        return None
    problems: list[str] = []
    wish = RankingWish(
        is_paper=is_paper,
        half_life=_span("--half-life", half_life, problems),
        age_cap=_span("--age-cap", age_cap, problems),
        share_weight=_span("--share-weight", share_weight, problems),
        lag_weight=_count("--lag-weight", lag_weight, problems),
        lag_cap=_span("--lag-cap", lag_cap, problems),
        quota_patience=_span(
            "--quota-patience", "0" if quota_patience == NEVER_TEXT else quota_patience, problems
        ),
        gather_percent=_count("--gather", gather.removesuffix("%"), problems),
        pass_span=_span("--pass", pass_span, problems),
        shares_by_entitlement=_choice("--share-by", share_by, "entitlement", "mean", problems),
        walks_by_level=_choice("--walk", walk, "level", "credit", problems),
        counts_borrowed=_choice("--borrowed-counts", borrowed_counts, "yes", "no", problems),
        is_in_passes=_choice("--order", order, "passes", "events", problems),
        deadlines=_policy("--deadlines", deadlines, problems),
        pending_max=_count("--pending-max", pending_max, problems),
        remembered_max=_count("--remembered-max", remembered_max, problems),
    )
    if len(problems) == 1:
        raise CommandError(problems[0], MISUSED)
    if problems:
        raise CommandError(f"{len(problems)} things are wrong; nothing was asked for", MISUSED, problems)
    return wish


def _span(option: str, text: str, problems: list[str]) -> Nanoseconds | None:
    if not text:
        return None
    try:
        return span_of(text)
    except Unreadable as error:
        problems.append(f"{option}: {error}")
        return None


def _count(option: str, text: str, problems: list[str]) -> int | None:
    if text and not (text.isascii() and text.isdecimal() and len(text) <= COUNT_DIGITS_MAX):
        problems.append(f"{option}: {shown(text)} is no whole number of up to {COUNT_DIGITS_MAX} digits")
        return None
    return int(text) if text else None


def _policy(option: str, text: str, problems: list[str]) -> DeadlinePolicy | None:
    if text and text not in set(DeadlinePolicy):
        problems.append(f"{option}: {shown(text)} is none of {', '.join(DeadlinePolicy)}")
        return None
    return DeadlinePolicy(text) if text else None


def _choice(option: str, text: str, one: str, other: str, problems: list[str]) -> bool | None:
    if text and text not in (one, other):
        problems.append(f"{option}: {shown(text)} is neither {one} nor {other}")
    return text == one if text else None


async def ranking_of(bus: Bus) -> RankingAnswered:
    """As it is. Raises CommandError."""
    return await ask(bus, ShowRanking(), RankingAnswered)


async def set_ranking(bus: Bus, wish: RankingWish) -> RankingAnswered:
    """Rank so from now on; once more when somebody else was quicker. Raises CommandError."""
    for number in range(TRIES_MAX):
        await before_try(number)
        was = await ranking_of(bus)
        asked = SetRanking(wish.on(was.settings), was.revision, submitter())
        done = await ask_on_revision(bus, asked, RankingAnswered)
        if done is not None:
            return done
    raise CommandError("others set the ranking all the time; try again in a moment")


def ranking_table_of(settings: RankingSettings, width: int | None) -> list[str]:
    """A line for each rule, named as the option that sets it."""
    paper = paper_of(settings)
    rows = [
        *_of_credit(settings.credit, paper.credit),
        (
            "share-by",
            _share_by(settings),
            _share_by(paper),
            "a share is what the tenant is entitled to, or the mean of all tenants",
        ),
        (
            "walk",
            _walk(settings),
            _walk(paper),
            "of a tenant's work the highest level takes its quota first, or the most credit",
        ),
        (
            "quota-patience",
            _patience(settings),
            _patience(paper),
            "a workload that has waited so long holds its tenant's quota against the tenant's work behind it",
        ),
        (
            "gather",
            _gather(settings),
            _gather(paper),
            "a region is drained for a workload over quota that is older than the age cap and wants no more of all GPUs",
        ),
        (
            "borrowed-counts",
            _counts(settings),
            _counts(paper),
            "GPUs that a tenant holds over its quota fill it, too",
        ),
        *_of_the_order(settings, paper),
        (
            "pending-max",
            str(settings.pending_max),
            NAMED_NOWHERE,
            "beyond so many pending workloads of all tenants, submissions are refused",
        ),
        (
            "remembered-max",
            str(settings.remembered_max),
            NAMED_NOWHERE,
            "so many ended workloads are remembered, for a day at most",
        ),
    ]
    return columns_text(COLUMNS, rows, width)


def _of_the_order(settings: RankingSettings, paper: RankingSettings) -> list[tuple[str, str, str, str]]:
    return [
        (
            "order",
            _order(settings),
            _order(paper),
            "kept from event to event, or as it was at the newest pass",
        ),
        (
            "pass",
            span_text(settings.pass_span),
            span_text(paper.pass_span),
            "so often all use is counted again",
        ),
        (
            "deadlines",
            settings.deadlines,
            paper.deadlines,
            "stages with a deadline go by the time at which they must start, by their deadline, or as other work",
        ),
    ]


def _of_credit(credit: CreditSettings, paper: CreditSettings) -> list[tuple[str, str, str, str]]:
    return [
        ("half-life", span_text(credit.half_life), NAMED_NOWHERE, "use so long ago counts half"),
        ("age-cap", _credit_text(credit.age_cap), NAMED_NOWHERE, "waiting longer earns no more credit"),
        (
            "share-weight",
            _credit_text(credit.share_weight),
            NAMED_NOWHERE,
            "so much waiting is worth as much as a share of which nothing was used",
        ),
        (
            "lag-weight",
            str(credit.lag_weight),
            str(paper.lag_weight),
            "lending goes first to tenants behind their fair share: an hour of lag is worth so many of waiting",
        ),
        ("lag-cap", span_text(credit.lag_cap), NAMED_NOWHERE, "no tenant counts as further behind, or ahead"),
    ]


def _credit_text(credit: int) -> str:
    """Of a credit, which need not be a round span."""
    return span_text(credit // MILLISECOND * MILLISECOND)


def _share_by(settings: RankingSettings) -> str:
    return "entitlement" if settings.shares_by_entitlement else "mean"


def _walk(settings: RankingSettings) -> str:
    return "level" if settings.walks_by_level else "credit"


def _patience(settings: RankingSettings) -> str:
    return span_text(settings.quota_patience) if settings.quota_patience else NEVER_TEXT


def _gather(settings: RankingSettings) -> str:
    return f"{settings.gather_percent}%"


def _order(settings: RankingSettings) -> str:
    return "passes" if settings.is_in_passes else "events"


def _counts(settings: RankingSettings) -> str:
    return "yes" if settings.counts_borrowed else "no"
