"""The rebalancer of the benchmark proposes to move all that one look shows, round by round."""

import structlog

from bench.rate_limit import REGION, ROUNDS, most_in_a_minute, spec_of
from core.messages.base import Message
from core.messages.control import OperateTasks
from core.messages.logs import FetchImage
from core.nouns.instant import SECOND
from runtime.virtual_loop import VirtualLoop
from scenarios.play.simulated import simulated_run
from scenarios.worlds.simulated.world import START


def test_rebalancer_looks_once_a_round() -> None:
    """A look decodes the image of a whole region: proposals are many more than looks."""
    loop = VirtualLoop(START)
    looks, proposals = list[FetchImage](), list[OperateTasks]()

    def hear(asked: Message, _: Message) -> None:
        if isinstance(asked, FetchImage) and "control" in asked.sections:
            looks.append(asked)
        elif isinstance(asked, OperateTasks):
            proposals.append(asked)

    try:
        with structlog.testing.capture_logs():
            run = simulated_run(spec_of(8, 12), 1, loop)
            run.users.heard.append(hear)
            outcome = loop.run_until_complete(run.play())
    finally:
        loop.cancel_all()
        loop.close()
    assert outcome.is_good, outcome.first_problem()
    assert ROUNDS == len([look for look in looks if look.page == 0])
    assert len(proposals) > ROUNDS
    assert {REGION} == {proposal.region for proposal in proposals}


def test_stops_are_counted_by_a_sliding_minute() -> None:
    """The most in any minute that begins with a stop, wherever in an hour that is."""
    assert 5 == most_in_a_minute([(0, 1), (50 * SECOND, 2), (70 * SECOND, 3), (200 * SECOND, 4)])
    assert 0 == most_in_a_minute([])
