"""By which rules the queue ranks, as a table: what is set, what the paper has, and what it means."""

from core.nouns.instant import MILLISECOND
from core.nouns.ranking import CreditSettings, RankingSettings
from mizzen.actions.ranking import NEVER_TEXT, paper_of
from mizzen.jobs.values import span_text
from mizzen.views.phrases.text import columns_text

COLUMNS = ("RULE", "IS", "PAPER", "MEANING")
NAMED_NOWHERE = "-"


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


def _of_credit(credit: CreditSettings, paper: CreditSettings) -> list[tuple[str, str, str, str]]:
    return [
        ("half-life", span_text(credit.half_life), NAMED_NOWHERE, "use so long ago counts half"),
        ("age-cap", _span(credit.age_cap), NAMED_NOWHERE, "waiting longer earns no more credit"),
        (
            "share-weight",
            _span(credit.share_weight),
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


def _span(credit: int) -> str:
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
