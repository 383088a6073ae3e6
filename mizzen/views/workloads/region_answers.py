"""What each region answered when a workload was asked for: its bid or its refusal, and which bid won."""

from core.messages.queue import WorkloadExplained
from core.nouns.reasons import Reason, sentence
from core.nouns.workload import Phase
from mizzen.views.phrases.text import columns_text
from mizzen.views.workloads.explain import compared, outlook_rows
from mizzen.views.workloads.story import Attempt, Story

COLUMNS = ("REGION", "ANSWER", "WHY")


def answer_lines(story: Story, live: WorkloadExplained | None) -> list[str]:
    """Of one that waits, as things stand; else of its newest award. A line for each region that is known to have answered."""
    if story.phase is Phase.PENDING:
        rows = outlook_rows(live, story.spec) if live is not None else []
    else:
        rows = _of_award(story.attempts[-1]) if story.attempts else []
    return columns_text(COLUMNS, rows) if rows else []


def _of_award(attempt: Attempt) -> list[tuple[str, str, str]]:
    bids = [
        (
            bid.region,
            "won" if bid.region == attempt.region else "bid",
            ", ".join(f"{name} {value}" for name, value in compared(bid, attempt.bids).items()),
        )
        for bid in attempt.bids
    ]
    refusals = [
        (region, reason, sentence(Reason(reason)).rstrip("."))
        for region, reason in sorted(attempt.refusals.items())
    ]
    return [*bids, *refusals]
