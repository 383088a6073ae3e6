"""What it costs to make a choice on 100,000 nodes once more and to tell what each rule left, once the log is folded."""

import time

from bench.support.agents.region import EAST, GPU_TYPE, AgentRegion
from core.nouns.ids import AgentName, ClaimId, WorkloadId
from core.nouns.placement import SEARCH, Claim, View
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import JobSpec, Kind
from core.placing.diagnosis.replay_choice import Outcome, retraced
from core.placing.pick.nodes import Choice
from core.placing.placer import Found
from core.placing.pool_set import Asker

STRIPES = 16


def explain_figures(region: AgentRegion) -> dict[str, float]:
    """The longest, of tasks that stand alone and of gangs."""
    spans = []
    for number, (gpus, tasks) in enumerate(((1, 1), (8, 1), (8, 8), (8, 128), (2, 300)) * 3):
        job = JobSpec("main", tasks, Amount(gpus * MILLI, gpus * 4_000, gpus * (16 << 30)), GPU_TYPE)
        choice = Choice(f"w-{number}.1", number % STRIPES, STRIPES)
        found = region.state.placer.find((job,), Asker(), choice)
        assert isinstance(found, Found), job
        claim = Claim(
            claim=ClaimId(f"w-{number}.1"),
            region=EAST,
            agent=AgentName("a0"),
            workload=WorkloadId(f"w-{number}"),
            epoch=1,
            award_sequence=1,
            priority=0,
            kind=Kind.TRAINING,
            jobs=(job,),
            spreads=found.spreads,
            view=View(
                region.state.sequence, seed=choice.seed, stripe=choice.stripe, stripes=STRIPES, search=SEARCH
            ),
        )
        begun = time.perf_counter()
        again = retraced(region.state.image, claim)
        spans.append(time.perf_counter() - begun)
        assert again.outcome is Outcome.EQUAL, again
    return {"explain_p50_ms": 1e3 * sorted(spans)[len(spans) // 2], "explain_max_ms": 1e3 * max(spans)}
