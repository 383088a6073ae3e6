"""Jobs of shared pools that change their region: they wait until their checkpoint has been copied there."""

from msgspec.structs import replace

from core.events.region import AttemptEnded, CheckpointCommitted, ClaimGranted, GangStarted
from core.messages.broker import SolicitBid
from core.messages.queue import Bid, CancelWorkload
from core.messages.sharing import SetShares
from core.nouns.ids import AgentName, region_log
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.placement import View
from core.nouns.sharing import WHOLE, ClassShares, PoolShares, ShareColumn
from core.nouns.workload import EndCause, Kind
from core.rules.moving import ship_span
from core.sharing.classes import class_of
from tests.builders import EU, US, a_claim, a_spread, attempt
from tests.components.support.job_queue import W1, W2, Start, a_job_queue, submit
from tests.components.support.shared_pool import begun, next_round, pool_nodes, shared
from tests.matching import said


def test_job_in_another_region_waits_for_its_checkpoint(start: Start) -> None:
    """A copy of 100 GB takes a while; the job is asked for where it is picked once the copy is there, also by a queue that started again."""
    queue = a_job_queue(start, eu=pool_nodes(), us=pool_nodes(first=10))
    spec = replace(shared(1), checkpoint_bytes=100 << 30)
    submit(queue, spec)
    submit(queue, shared(2, weight=1_000))
    opened = queue.wake()
    sharing = queue.state.image.sharing
    here, there = sharing.picks[W1].column.split("/")[0], sharing.picks[W2].column.split("/")[0]
    assert {EU, US} == {here, there}
    (asked,) = [one for one in said(opened, SolicitBid) if one.workload == W1]
    region, log = asked.region, region_log(asked.region)
    queue.hear(Bid(region, AgentName("a0"), W1, asked.auction, (0,) * 6, (a_spread({0: 1}),), (), View(1)))
    queue.wake()
    claim = replace(a_claim(W1), region=region, jobs=asked.jobs, kind=Kind.SHARED)
    queue.fact(log, ClaimGranted(W1, 1, claim, is_merged=False), GangStarted(*attempt(W1)))
    queue.fact(log, CheckpointCommitted(*attempt(W1), 7))
    queue.wait(seconds(1))
    queue.hear(CancelWorkload(W2))
    queue.wake()
    columns, gpus = (ShareColumn(EU, "V100"), ShareColumn(US, "V100")), (1, 1)
    other = 1 if region == EU else 0
    given = PoolShares(
        1, columns, gpus, (ClassShares(class_of(spec), ((other, WHOLE),)),), "highs", sharing.changes
    )
    queue.hear(SetShares(given, "max_min", 0))
    while not (round_ := begun(next_round(queue))).leaves:
        pass
    assert (W1,) == round_.leaves
    queue.fact(log, AttemptEnded(*attempt(W1), EndCause.ROUND_OVER))
    queue.wake()
    span = ship_span(spec)
    assert [] == said(queue.wait(Nanoseconds(span - seconds(1))), SolicitBid)
    for one in (queue.restart(), queue):
        (again,) = said(one.wait(seconds(2)), SolicitBid)
        assert (W1, columns[other].region) == (again.workload, again.region)
