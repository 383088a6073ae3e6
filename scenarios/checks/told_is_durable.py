"""Nothing is told before it is durable: whoever hears of it may rely on it (runtime/host.py).

Seen where messages are said, so it needs a world whose messages and disks can be looked at.
"""

from collections.abc import Collection, Sequence
from typing import ClassVar

from core.messages.base import Message
from core.messages.broker import ExecuteAward
from core.messages.logs import FactsTold, HeadTold
from core.messages.pipelines import PipelineAccepted
from core.messages.queue import Submitted
from core.nouns.ids import GLOBAL_LOG, LogName
from scenarios.check import Check, Run

KEPT_MAX = 10


class ToldIsDurable(Check, frozen=True):
    """Facts, heads, awards and acceptances, compared with what the log's disk holds at the moment they are said."""

    sees_through: ClassVar[bool] = True

    def begin(self, run: Run) -> None:
        """Listen."""
        world, found, accepted = run.world, run.outcome.problems, run.witness.submitted_at

        def told(what: str, log: LogName, sequence: int) -> None:
            durable = world.durable(log)
            if sequence > durable and len(found) < KEPT_MAX:
                found.append(f"{what} {sequence} of log {log} was told, and {durable} are durable")

        def said(names: Sequence[str], known: Collection[str]) -> None:
            for name in names:
                if name not in known and len(found) < KEPT_MAX:
                    found.append(f"{name} was said to be accepted, and no durable fact says so")

        def overhear(_: str, message: Message) -> None:
            match message:
                case FactsTold(log=log, first=first, facts=facts):
                    told("fact", log, first + len(facts) - 1)
                case HeadTold(log=log, sequence=sequence):
                    told("head", log, sequence)
                case ExecuteAward(award_sequence=sequence):
                    told("award", GLOBAL_LOG, sequence)
                case Submitted(workload=workload):
                    said((workload,), accepted)
                case PipelineAccepted(pipeline=pipeline, workloads=workloads):
                    said((pipeline,), run.witness.pipelines.rows)
                    said(workloads, accepted)

        world.overhear((FactsTold, HeadTold, ExecuteAward, Submitted, PipelineAccepted), overhear)
