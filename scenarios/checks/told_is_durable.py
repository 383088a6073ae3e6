"""Nothing is told before it is durable: whoever hears of it may rely on it (runtime/host.py).

Seen where messages are said, so it needs a world whose messages and disks can be looked at.
"""

from typing import ClassVar

from core.messages.base import Message
from core.messages.broker import ExecuteAward
from core.messages.logs import FactsTold, HeadTold
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

        def overhear(_: str, message: Message) -> None:
            match message:
                case FactsTold(log=log, first=first, facts=facts):
                    told("fact", log, first + len(facts) - 1)
                case HeadTold(log=log, sequence=sequence):
                    told("head", log, sequence)
                case ExecuteAward(award_sequence=sequence):
                    told("award", GLOBAL_LOG, sequence)
                case Submitted(workload=workload):
                    if workload not in accepted and len(found) < KEPT_MAX:
                        found.append(f"{workload} was said to be accepted, and no durable fact says so")

        world.overhear((FactsTold, HeadTold, ExecuteAward, Submitted), overhear)
