"""A job queue that ranks in passes, as the paper's does."""

from core.messages.tenants import SetRanking
from core.nouns.instant import seconds
from core.nouns.ranking import RankingSettings
from tests.components.queueing import W1, W2, Start, a_job_queue, asked, submit

PASS = seconds(300)


def test_what_is_submitted_waits_for_the_next_pass(start: Start) -> None:
    """M9: and the queue wakes for it by itself; a repeat of the settings changes nothing."""
    machine = a_job_queue(start)
    machine.wait(seconds(1))
    for _ in range(2):
        machine.hear(SetRanking(RankingSettings(is_in_passes=True, pass_span=PASS), 0))
    machine.wake()
    submit(machine)
    assert [] == asked(machine.wake())
    opened = asked(machine.wait(PASS))
    assert {W1} == {workload for workload, _ in opened}
    submit(machine)
    assert [] == asked(machine.wake())
    assert W2 in {workload for workload, _ in asked(machine.wait(PASS))}
